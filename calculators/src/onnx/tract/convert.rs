//! Conversion of tensors between graphs and tract. Elements are copied once.

use std::error::Error as StdError;

use graphmill_engine::{Error, Result};
use tract_onnx::prelude::{DatumType, Tensor as TractTensor, f16};

use super::super::compute::by_datatype;
use crate::tensor::{Datatype, Tensor};

/// Returns the datatype for a type of tract; `None` if no tensor of a graph can have it.
pub(in super::super) fn datatype(of: DatumType) -> Option<Datatype> {
    Some(match of.unquantized() {
        DatumType::Bool => Datatype::Bool,
        DatumType::U8 => Datatype::Uint8,
        DatumType::U16 => Datatype::Uint16,
        DatumType::U32 => Datatype::Uint32,
        DatumType::U64 => Datatype::Uint64,
        DatumType::I8 => Datatype::Int8,
        DatumType::I16 => Datatype::Int16,
        DatumType::I32 => Datatype::Int32,
        // `TDim` is a dimension that the model computes.
        DatumType::I64 | DatumType::TDim => Datatype::Int64,
        DatumType::F16 => Datatype::Fp16,
        DatumType::F32 => Datatype::Fp32,
        DatumType::F64 => Datatype::Fp64,
        DatumType::String => Datatype::Bytes,
        _ => return None,
    })
}

/// Converts a tensor of a graph for tract. `name` is the input, for the message.
pub(super) fn to_tract(tensor: &Tensor, name: &str) -> Result<TractTensor> {
    let (shape, data) = (tensor.shape(), tensor.data());
    let wrong = |what: String| {
        Error::invalid(format!("the model's input `{name}` {what}")).with_field(name.to_owned())
    };
    macro_rules! numbers {
        ($type:ty) => {{
            let bytes = data.as_chunks().0;
            let elements: Vec<$type> = bytes.iter().map(|it| <$type>::from_le_bytes(*it)).collect();
            TractTensor::from_shape(shape, &elements)
        }};
    }
    let made = by_datatype! { tensor.datatype(), numbers,
        Datatype::Bool => {
            let elements: Vec<bool> = data.iter().map(|byte| *byte != 0).collect();
            TractTensor::from_shape(shape, &elements)
        }
        Datatype::Bytes => {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec());
            let texts = tensor.strings().map(text).collect::<Result<Vec<_>, _>>();
            let texts = texts.map_err(|error| wrong(format!("takes UTF-8: {error}")))?;
            tract_onnx::prelude::tract_ndarray::ArrayD::from_shape_vec(shape, texts)
                .map(Into::into)
                .map_err(Into::into)
        }
        Datatype::Bf16 => return Err(wrong("cannot be BF16".to_owned())),
    };
    made.map_err(|error| Error::internal(format!("the input `{name}` was refused: {error:#}")))
}

/// Converts an output of a model to a tensor of a graph. The error describes the fault.
pub(super) fn from_tract(tensor: &TractTensor) -> Result<Tensor, Box<dyn StdError>> {
    let shape = tensor.shape();
    let of = tensor.datum_type();
    let into = datatype(of).ok_or_else(|| format!("it is of the type {of:?}"))?;
    macro_rules! numbers {
        ($type:ty) => {{
            let elements = tensor.cast_to::<$type>()?;
            let elements = elements.to_plain_array_view::<$type>()?;
            let bytes = elements.iter().flat_map(|it| it.to_le_bytes());
            bytes.collect::<Vec<u8>>()
        }};
    }
    let data = by_datatype! { into, numbers,
        Datatype::Bool => {
            let elements = tensor.to_plain_array_view::<bool>()?;
            elements.iter().map(|it| u8::from(*it)).collect()
        }
        Datatype::Bytes => {
            let elements = tensor.to_plain_array_view::<String>()?;
            let flat = Tensor::from_strings(elements.iter());
            return Ok(Tensor::new(Datatype::Bytes, shape, flat.into_data())?);
        }
        Datatype::Bf16 => return Err("it is BF16".into()),
    };
    Ok(Tensor::new(into, shape, data)?)
}
