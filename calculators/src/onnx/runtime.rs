//! The choice of the library for a model.

use graphmill_engine::Contract;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::compute::Loaded;

/// The option that chooses.
pub(super) const RUNTIME: &str = "runtime";

/// What computes a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Runtime {
    /// tract, a part of the program.
    #[default]
    Tract,
    /// Microsoft's ONNX Runtime, a library that has to be installed.
    OnnxRuntime,
}

impl Runtime {
    /// What its makers call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tract => "tract",
            Self::OnnxRuntime => "ONNX Runtime",
        }
    }

    /// What trials call the models that it computes.
    pub(super) const fn format(self) -> &'static str {
        match self {
            Self::Tract => "onnx",
            Self::OnnxRuntime => "onnx on onnxruntime",
        }
    }

    /// Refuses a runtime that the build left out, in a node that names a model.
    pub(super) fn check(self, c: &mut Contract) {
        if self == Self::OnnxRuntime && !cfg!(feature = "onnxruntime") {
            c.option_error(RUNTIME, LEFT_OUT);
        }
    }

    /// Makes it ready to load models. The error says what is missing on the machine.
    pub(super) fn prepare(self) -> Result<(), String> {
        match self {
            Self::Tract => Ok(()),
            #[cfg(feature = "onnxruntime")]
            Self::OnnxRuntime => super::onnx_runtime::prepare(),
            #[cfg(not(feature = "onnxruntime"))]
            Self::OnnxRuntime => Err(LEFT_OUT.to_owned()),
        }
    }

    /// Loads a model from the bytes of a file. The error says what is wrong with them.
    pub(super) fn load(self, bytes: &[u8]) -> Result<Loaded, String> {
        match self {
            Self::Tract => super::tract::load(bytes),
            #[cfg(feature = "onnxruntime")]
            Self::OnnxRuntime => super::onnx_runtime::load(bytes),
            #[cfg(not(feature = "onnxruntime"))]
            Self::OnnxRuntime => Err(LEFT_OUT.to_owned()),
        }
    }
}

const LEFT_OUT: &str =
    "this program was built without ONNX Runtime: it needs the feature `onnxruntime`";
