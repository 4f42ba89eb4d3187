//! The resource behind the side packet `SESSION`: a loaded model.

use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use graphmill_engine::{Error, FileSource, Resource, Result};
use graphmill_llm::trial::FileTrial;
use graphmill_llm::{LoadError, trial};
use serde::Serialize;

use super::compute::{LoadedModel, MAX_TENSOR_BYTES};
use super::file::{MODEL, OnnxSpec};
use super::runtime::{RUNTIME, Runtime};
use crate::tensor::{Tensor, TensorInfo, TensorModel, elements, shown};

/// A model that is loaded from a `.onnx` file. All sessions of all graphs with the same file and
/// runtime share one, and many run it at the same time.
#[derive(Serialize)]
pub struct OnnxModel {
    /// Path of its file; empty if it has none.
    path: PathBuf,
    runtime: Runtime,
    #[serde(flatten)]
    loaded: LoadedModel,
}

impl OnnxModel {
    /// Creates a model from the bytes of a `.onnx` file.
    ///
    /// # Errors
    /// The bytes are not a valid model. Bytes of any kind give an error, not a panic.
    pub fn from_bytes(bytes: &[u8], runtime: Runtime) -> Result<Self> {
        // tract panics on some damaged files.
        let loaded = catch_unwind(|| runtime.load(bytes));
        let loaded = loaded
            .unwrap_or_else(|panic| Err(format!("{} panicked: {}", runtime.name(), words(&*panic))))
            .map_err(Error::invalid)?;
        Ok(Self {
            path: PathBuf::new(),
            runtime,
            loaded,
        })
    }

    /// Refuses tensors whose lengths differ in dimensions that have the same name in the model.
    fn check_lengths(&self, inputs: &[Tensor]) -> Result<()> {
        let mut known: HashMap<&str, (usize, &str)> = HashMap::new();
        let pairs = self.loaded.inputs.iter().zip(inputs);
        for ((info, tensor), dimensions) in pairs.zip(&self.loaded.dimensions) {
            for (dimension, &length) in dimensions.iter().zip(tensor.shape()) {
                let (first, of) = *known
                    .entry(dimension.as_str())
                    .or_insert((length, &info.name));
                if first != length {
                    let name = &info.name;
                    let message = format!(
                        "the dimension `{dimension}` is {first} of the model's input `{of}`, but {length} of `{name}`"
                    );
                    let error = Error::invalid(message).with_field(name.clone());
                    return Err(error.with_code("invalid_value"));
                }
            }
        }
        Ok(())
    }
}

impl Resource for OnnxModel {
    type Spec = OnnxSpec;

    fn resolve(spec: OnnxSpec, files: &dyn FileSource) -> Result<OnnxSpec> {
        Ok(OnnxSpec::file(spec.resolve(files)?, spec.runtime))
    }

    fn check(spec: &OnnxSpec, files: &dyn FileSource) -> Result<()> {
        let path = spec.resolve(files)?;
        files.find(&path).map_err(|error| unreadable(&path, &error))
    }

    fn load(spec: &OnnxSpec, files: &dyn FileSource) -> Result<Self> {
        let path = spec.resolve(files)?;
        let refused = |error: LoadError| Error::invalid(error.to_string()).with_field(MODEL);
        let missing = |error: String| Error::precondition(error).with_field(RUNTIME);
        spec.runtime.prepare().map_err(missing)?;
        trial::try_file(spec.runtime.format(), &path).map_err(refused)?;
        let bytes = files
            .read(&path)
            .map_err(|error| unreadable(&path, &error))?;
        let loaded = Self::from_bytes(&bytes, spec.runtime).map_err(|error| {
            let message = format!("`{}`: {error}", path.display());
            Error::invalid(message).with_field(MODEL)
        });
        Ok(Self { path, ..loaded? })
    }
}

/// Writes the file and its tensors, a line each.
impl fmt::Display for OnnxModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        for (noun, infos) in [("input", self.inputs()), ("output", self.outputs())] {
            for info in infos {
                let shape = shown(&info.shape);
                write!(f, "\n  {noun} `{}`: {} {shape}", info.name, info.datatype)?;
            }
        }
        Ok(())
    }
}

impl TensorModel for OnnxModel {
    fn inputs(&self) -> &[TensorInfo] {
        &self.loaded.inputs
    }

    fn outputs(&self) -> &[TensorInfo] {
        &self.loaded.outputs
    }

    fn run(&self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>> {
        let (wanted, given) = (self.inputs().len(), inputs.len());
        if wanted != given {
            let message = format!("the model takes {wanted} tensors, but there are {given}");
            return Err(Error::invalid(message));
        }
        let pairs = || self.inputs().iter().zip(&inputs);
        pairs().try_for_each(|(info, tensor)| info.check(tensor))?;
        self.check_lengths(&inputs)?;
        let inputs: Vec<_> = pairs().collect();
        let run = || self.loaded.computer.run(&inputs, self.outputs());
        catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
            let message = format!("the model failed: {}", words(&*panic));
            Err(Error::internal(message))
        })
    }
}

/// Trials of files, one for each runtime: see [`trial::answer`].
pub const TRIALS: &[FileTrial] = &[
    (Runtime::Tract.format(), |path| {
        try_file(path, Runtime::Tract)
    }),
    (Runtime::OnnxRuntime.format(), |path| {
        try_file(path, Runtime::OnnxRuntime)
    }),
];

/// Loads a file and runs it once, for a trial in its own process. So a model that takes all memory
/// is found without harm. The error describes the fault of the file.
fn try_file(path: &Path, runtime: Runtime) -> std::result::Result<(), String> {
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    let model = OnnxModel::from_bytes(&bytes, runtime).map_err(|error| error.to_string())?;
    // It does not matter if zeros of the smallest shape mean anything to the model.
    let zeros = |info: &TensorInfo| {
        let shape: Vec<usize> = info
            .shape
            .iter()
            .map(|it| usize::try_from(*it).unwrap_or(1))
            .collect();
        let bytes = elements(&shape).ok()?.checked_mul(info.datatype.size()?)?;
        let bytes = (bytes <= MAX_TENSOR_BYTES).then(|| vec![0; bytes])?;
        Tensor::new(info.datatype, shape, bytes).ok()
    };
    if let Some(inputs) = model.inputs().iter().map(zeros).collect() {
        model.run(inputs).ok();
    }
    Ok(())
}

fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    let message = format!("cannot read the model `{}`: {error}", path.display());
    let error = match error.kind() {
        std::io::ErrorKind::NotFound => Error::not_found(message),
        _ => Error::invalid(message),
    };
    error.with_field(MODEL)
}

/// Returns the message of a panic.
fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}
