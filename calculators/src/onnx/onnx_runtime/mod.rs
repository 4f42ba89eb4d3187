//! Models computed by ONNX Runtime, a library that is located when the first of them is loaded. A
//! run takes all processors, and runs of one model wait for each other, because the library's crate
//! does not let two threads use a session.

mod convert;
mod library;

use std::sync::{Mutex, PoisonError};
use std::thread;

use graphmill_engine::{Error, Result};
use ort::session::{Session, SessionInputValue};
use ort::value::{Outlet, ValueType};

pub use library::{LIBRARY_VARIABLE, use_library};

use super::check;
use super::compute::{Compute, LoadedModel, unnamed};
use crate::tensor::{Tensor, TensorInfo};

/// Loads the library. The error says where it was searched for.
pub(super) fn prepare() -> Result<(), String> {
    library::environment().map(drop)
}

/// Loads a model. The error describes the fault of the bytes.
pub(super) fn load(bytes: &[u8]) -> Result<LoadedModel, String> {
    check::read(bytes)?;
    let session = session(bytes)?;
    let inputs = session.inputs().iter().enumerate();
    let inputs = inputs.map(|(index, input)| info(input, "input", index));
    let (inputs, dimensions): (Vec<_>, _) = inputs
        .collect::<Result<Vec<_>, String>>()?
        .into_iter()
        .unzip();
    let outputs = session.outputs().iter().enumerate();
    let outputs = outputs.map(|(index, output)| Ok(info(output, "output", index)?.0));
    let outputs = outputs.collect::<Result<Vec<_>, String>>()?;
    for (noun, infos) in [("inputs", &inputs), ("outputs", &outputs)] {
        if infos.is_empty() {
            return Err(format!("it has no {noun}"));
        }
    }
    Ok(LoadedModel {
        computer: Box::new(OnnxRuntime(Mutex::new(session))),
        inputs,
        outputs,
        dimensions,
    })
}

fn session(bytes: &[u8]) -> Result<Session, String> {
    let environment = library::environment()?;
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let session = || -> ort::Result<Session> {
        Session::builder(&environment)?
            // With an explicit number, the library does not bind its threads to processors.
            .with_intra_threads(threads)?
            // Its threads sleep between runs, because language models use the processors, too.
            .with_intra_op_spinning(false)?
            .commit_from_memory(bytes)
    };
    session().map_err(|error| error.to_string())
}

/// Returns the description of an input or output, and the names of its dimensions.
fn info(of: &Outlet, noun: &str, index: usize) -> Result<(TensorInfo, Vec<String>), String> {
    let name = of.name().to_owned();
    let ValueType::Tensor {
        ty,
        shape,
        dimension_symbols,
    } = of.dtype()
    else {
        return Err(format!("its {noun} `{name}` is not a tensor"));
    };
    let datatype = convert::datatype(*ty)
        .ok_or_else(|| format!("its {noun} `{name}` is of a type that no tensor has"))?;
    let shape = shape.to_vec();
    let symbols = dimension_symbols.iter().zip(&shape).enumerate();
    let dimensions = symbols.map(|(axis, (symbol, length))| match length {
        0.. => length.to_string(),
        _ if symbol.is_empty() => unnamed(index, axis),
        _ => symbol.clone(),
    });
    let dimensions = dimensions.collect();
    let info = TensorInfo {
        name,
        datatype,
        shape,
    };
    Ok((info, dimensions))
}

/// A session of the library for one model.
struct OnnxRuntime(Mutex<Session>);

impl Compute for OnnxRuntime {
    fn run(
        &self,
        inputs: &[(&TensorInfo, &Tensor)],
        outputs: &[TensorInfo],
    ) -> Result<Vec<Tensor>> {
        let inputs = inputs.iter().map(|(info, tensor)| {
            let value = convert::to_value(tensor, &info.name)?;
            Ok((info.name.as_str(), SessionInputValue::from(value)))
        });
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        let mut session = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let computed = session
            .run(inputs)
            .map_err(|error| Error::internal(format!("the model failed: {error}")))?;
        let outputs = outputs.iter().enumerate().map(|(at, info)| {
            convert::from_value(&computed[at]).map_err(|error| {
                Error::internal(format!("the model's output `{}`: {error}", info.name))
            })
        });
        outputs.collect()
    }
}
