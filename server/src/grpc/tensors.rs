//! The tensors of messages. Large tensors of an answer are sent after the message that tonic
//! writes, without a copy, as fields may be in any order.

use std::iter::once;

use axum::{body::Body, response::Response};
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use futures_util::{StreamExt as _, stream};
use graphmill_calculators::tensor::{Datatype, Tensor};
use http_body_util::{BodyStream, StreamBody};
use hyper::body::Frame;
use prost::encoding::{WireType, encode_key, encode_varint};

use super::message::HEAD_BYTES;
use crate::{
    errors::Failure,
    kserve::{
        Label, WantedOutput,
        proto::{
            InferTensorContents, ModelInferResponse,
            model_infer_request::{InferInputTensor, InferRequestedOutputTensor},
            model_infer_response::InferOutputTensor,
        },
        read_type, refuse_parameters, wrong,
    },
    run::Tensors,
};

/// Reads the tensors of a request. All have their bytes in `raw`, or all have typed contents.
pub(super) fn read(inputs: Vec<InferInputTensor>, raw: Vec<Bytes>) -> Result<Tensors, Failure> {
    if !raw.is_empty() && raw.len() != inputs.len() {
        let (raw, inputs) = (raw.len(), inputs.len());
        let why = format!("expected one for each input, not {raw} for {inputs} inputs");
        return Err(wrong("raw_input_contents", why));
    }
    let mut raw = raw.into_iter();
    let mut tensors = Tensors::with_capacity(inputs.len());
    for (position, input) in inputs.into_iter().enumerate() {
        let place = format!("inputs[{position}]");
        refuse_parameters(&place, &input.parameters)?;
        let (datatype, shape) = read_type(&place, &input.datatype, &input.shape)?;
        let data = match (raw.next(), input.contents) {
            (Some(raw), None) => Ok(raw),
            (Some(_), Some(_)) => {
                Err("the tensor also has data in `raw_input_contents`".to_owned())
            }
            (None, contents) => read_contents(datatype, contents.unwrap_or_default()),
        };
        let data = data.map_err(|why| wrong(format!("{place}.contents"), why))?;
        let tensor = Tensor::new(datatype, shape, data).map_err(|why| wrong(place, why))?;
        tensors.push((input.name, tensor));
    }
    Ok(tensors)
}

/// Converts typed contents to bytes.
///
/// # Errors
/// If the contents are not those of the datatype.
fn read_contents(datatype: Datatype, contents: InferTensorContents) -> Result<Bytes, String> {
    macro_rules! filled {
        ($($field:ident)*) => { [$((stringify!($field), !contents.$field.is_empty())),*] };
    }
    let filled = filled!(bool_contents int_contents int64_contents uint_contents uint64_contents
        fp32_contents fp64_contents bytes_contents);
    let check = |right: &str| {
        let wrong = filled
            .iter()
            .find(|(name, is_filled)| *is_filled && *name != right);
        wrong.map_or(Ok(()), |(wrong, _)| {
            Err(format!("{datatype} belongs in `{right}`, not in `{wrong}`"))
        })
    };
    let mut data = BytesMut::new();
    macro_rules! written {
        ($field:ident as $type:ty) => {{
            check(stringify!($field))?;
            for value in contents.$field {
                let value = <$type>::try_from(value)
                    .map_err(|_| format!("{value} is out of range of {datatype}"))?;
                data.put_slice(&value.to_le_bytes());
            }
        }};
    }
    match datatype {
        Datatype::Bool => written!(bool_contents as u8),
        Datatype::Int8 => written!(int_contents as i8),
        Datatype::Int16 => written!(int_contents as i16),
        Datatype::Int32 => written!(int_contents as i32),
        Datatype::Int64 => written!(int64_contents as i64),
        Datatype::Uint8 => written!(uint_contents as u8),
        Datatype::Uint16 => written!(uint_contents as u16),
        Datatype::Uint32 => written!(uint_contents as u32),
        Datatype::Uint64 => written!(uint64_contents as u64),
        Datatype::Fp32 => written!(fp32_contents as f32),
        Datatype::Fp64 => written!(fp64_contents as f64),
        Datatype::Bytes => {
            check("bytes_contents")?;
            return Ok(Tensor::from_strings(contents.bytes_contents).data().clone());
        }
        Datatype::Fp16 | Datatype::Bf16 => {
            return Err(format!("{datatype} belongs in `raw_input_contents`"));
        }
    }
    Ok(data.freeze())
}

/// Reads the names of the wanted outputs; empty means all.
pub(super) fn read_wanted(
    outputs: Vec<InferRequestedOutputTensor>,
) -> Result<Vec<WantedOutput>, Failure> {
    let outputs = outputs.into_iter().enumerate();
    let outputs = outputs
        .map(|(position, output)| WantedOutput::read(position, output.name, output.parameters));
    outputs.collect()
}

/// Creates an answer with these tensors.
pub(super) fn answer(label: &Label, id: String, tensors: Tensors) -> ModelInferResponse {
    let written = tensors.into_iter().map(|(name, tensor)| {
        let output = InferOutputTensor {
            name,
            datatype: tensor.datatype().name().to_owned(),
            shape: tensor.shape().iter().map(|length| *length as i64).collect(),
            ..InferOutputTensor::default()
        };
        (output, tensor.data().clone())
    });
    let (outputs, raw_output_contents) = written.unzip();
    ModelInferResponse {
        model_name: label.name.clone(),
        model_version: label.version.clone(),
        id,
        outputs,
        raw_output_contents,
        ..ModelInferResponse::default()
    }
}

/// Size in bytes from which a tensor makes all tensors be sent apart from the message.
const LONG_BYTES: usize = 64 << 10;

/// Number of the field `raw_output_contents`.
const RAW_OUTPUT_CONTENTS: u32 = 6;

/// Fields of an answer, each after its key.
#[derive(Clone)]
struct Apart(Vec<Bytes>);

/// Takes the tensors out of an answer if one of them is large.
pub(super) fn take_apart(mut answer: ModelInferResponse) -> tonic::Response<ModelInferResponse> {
    let tensors = &mut answer.raw_output_contents;
    if tensors.iter().all(|it| it.len() < LONG_BYTES) {
        return tonic::Response::new(answer);
    }
    let keyed = std::mem::take(tensors).into_iter().flat_map(|tensor| {
        let mut key = BytesMut::new();
        encode_key(RAW_OUTPUT_CONTENTS, WireType::LengthDelimited, &mut key);
        encode_varint(tensor.len() as u64, &mut key);
        [key.freeze(), tensor]
    });
    let apart = Apart(keyed.collect());
    let mut response = tonic::Response::new(answer);
    response.extensions_mut().insert(apart);
    response
}

/// Sends the tensors that were taken out of a message after its first frame.
pub(super) fn put_together(mut response: Response<tonic::body::Body>) -> Response {
    let Some(Apart(apart)) = response.extensions_mut().remove() else {
        return response.map(Body::new);
    };
    let more: usize = apart.iter().map(Bytes::len).sum();
    let mut apart = Some(apart);
    response.map(|message| {
        let frames = BodyStream::new(message).flat_map(move |frame| {
            let frame = frame.map(|frame| frame.map_data(|data| longer(data, more)));
            let apart = apart.take().into_iter().flatten();
            stream::iter(once(frame).chain(apart.map(|part| Ok(Frame::data(part)))))
        });
        Body::new(StreamBody::new(frames))
    })
}

/// Adds `more` bytes to the length in the prefix of a message.
fn longer(message: Bytes, more: usize) -> Bytes {
    let mut message = BytesMut::from(message);
    let length = &mut message[1..HEAD_BYTES];
    let whole = u32::try_from((&*length).get_u32() as usize + more);
    length.copy_from_slice(&whole.unwrap_or(u32::MAX).to_be_bytes());
    message.freeze()
}
