//! Conversion of tensors between graphs and ONNX Runtime. Elements are copied once.

use std::error::Error as StdError;

use graphmill_engine::{Error, Result};
use ort::value::{DynValue, Tensor as OrtTensor, TensorElementType, Value, ValueType};
use tract_onnx::prelude::f16;

use super::super::compute::by_datatype;
use crate::tensor::{Datatype, Tensor};

/// Returns the datatype for a type of ONNX Runtime; `None` if no tensor of a graph can have it.
pub(super) fn datatype(of: TensorElementType) -> Option<Datatype> {
    Some(match of {
        TensorElementType::Bool => Datatype::Bool,
        TensorElementType::Uint8 => Datatype::Uint8,
        TensorElementType::Uint16 => Datatype::Uint16,
        TensorElementType::Uint32 => Datatype::Uint32,
        TensorElementType::Uint64 => Datatype::Uint64,
        TensorElementType::Int8 => Datatype::Int8,
        TensorElementType::Int16 => Datatype::Int16,
        TensorElementType::Int32 => Datatype::Int32,
        TensorElementType::Int64 => Datatype::Int64,
        TensorElementType::Float16 => Datatype::Fp16,
        TensorElementType::Float32 => Datatype::Fp32,
        TensorElementType::Float64 => Datatype::Fp64,
        TensorElementType::String => Datatype::Bytes,
        _ => return None,
    })
}

/// Converts a tensor of a graph for ONNX Runtime. `name` is the input, for the message.
pub(super) fn to_value(tensor: &Tensor, name: &str) -> Result<DynValue> {
    let (shape, data) = (tensor.shape().to_vec(), tensor.data());
    let wrong = |what: String| {
        Error::invalid(format!("the model's input `{name}` {what}")).with_field(name.to_owned())
    };
    macro_rules! numbers {
        ($type:ty) => {{
            let bytes = data.as_chunks().0;
            let elements: Vec<$type> = bytes.iter().map(|it| <$type>::from_le_bytes(*it)).collect();
            OrtTensor::from_array((shape, elements)).map(Value::into_dyn)
        }};
    }
    let made = by_datatype! { tensor.datatype(), numbers,
        Datatype::Bool => {
            let elements: Vec<bool> = data.iter().map(|byte| *byte != 0).collect();
            OrtTensor::from_array((shape, elements)).map(Value::into_dyn)
        }
        Datatype::Bytes => {
            let texts = tensor.strings().map(|bytes| match str::from_utf8(bytes) {
                Ok(text) if text.contains('\0') => Err(wrong("takes no texts with a zero byte".into())),
                Ok(text) => Ok(text.to_owned()),
                Err(error) => Err(wrong(format!("takes UTF-8: {error}"))),
            });
            let texts = texts.collect::<Result<Vec<String>>>()?;
            OrtTensor::from_string_array((shape, &*texts)).map(Value::into_dyn)
        }
        Datatype::Bf16 => return Err(wrong("cannot be BF16".into())),
    };
    made.map_err(|error| Error::internal(format!("the input `{name}` was refused: {error}")))
}

/// Converts an output of a model to a tensor of a graph. The error describes the fault.
pub(super) fn from_value(value: &DynValue) -> Result<Tensor, Box<dyn StdError>> {
    let ValueType::Tensor { ty, shape, .. } = value.dtype() else {
        return Err("it is not a tensor".into());
    };
    let into = datatype(*ty).ok_or_else(|| format!("it is of the type {ty}"))?;
    let shape = shape.iter().map(|length| usize::try_from(*length));
    let shape = shape.collect::<Result<Vec<_>, _>>()?;
    macro_rules! numbers {
        ($type:ty) => {{
            let (_, elements) = value.try_extract_tensor::<$type>()?;
            let bytes = elements.iter().flat_map(|it| it.to_le_bytes());
            bytes.collect::<Vec<u8>>()
        }};
    }
    let data = by_datatype! { into, numbers,
        Datatype::Bool => {
            let (_, elements) = value.try_extract_tensor::<bool>()?;
            elements.iter().map(|it| u8::from(*it)).collect()
        }
        Datatype::Bytes => {
            let (_, texts) = value.try_extract_strings()?;
            let flat = Tensor::from_strings(texts.iter());
            return Ok(Tensor::new(Datatype::Bytes, shape, flat.into_data())?);
        }
        Datatype::Bf16 => return Err("it is BF16".into()),
    };
    Ok(Tensor::new(into, shape, data)?)
}
