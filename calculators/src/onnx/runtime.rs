//! The choice of the library that computes a model.

use graphmill_engine::Contract;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::compute::LoadedModel;

/// Name of the option in all nodes.
pub(super) const RUNTIME: &str = "runtime";

/// The library that computes a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Runtime {
    /// tract, which is part of the program.
    #[default]
    Tract,
    /// Microsoft's ONNX Runtime, a library that must be installed.
    OnnxRuntime,
}

impl Runtime {
    /// Returns the name that its makers use.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tract => "tract",
            Self::OnnxRuntime => "ONNX Runtime",
        }
    }

    /// Returns the name of its file format in trials.
    pub(super) const fn format(self) -> &'static str {
        match self {
            Self::Tract => "onnx",
            Self::OnnxRuntime => "onnx on onnxruntime",
        }
    }

    /// Reports a runtime that this build lacks, in a node that names a model.
    pub(super) fn check(self, c: &mut Contract) {
        if self == Self::OnnxRuntime && !cfg!(feature = "onnxruntime") {
            c.option_error(RUNTIME, LEFT_OUT);
        }
    }

    /// Prepares the library for loading models. The error says what is missing on the machine.
    pub(super) fn prepare(self) -> Result<(), String> {
        match self {
            Self::Tract => Ok(()),
            #[cfg(feature = "onnxruntime")]
            Self::OnnxRuntime => super::onnx_runtime::prepare(),
            #[cfg(not(feature = "onnxruntime"))]
            Self::OnnxRuntime => Err(LEFT_OUT.to_owned()),
        }
    }

    /// Loads a model from the bytes of a file. The error describes their fault.
    pub(super) fn load(self, bytes: &[u8]) -> Result<LoadedModel, String> {
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
