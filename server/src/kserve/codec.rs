//! The codec of the gRPC service: prost with a limit on the number of fields.

use std::{
    any::{TypeId, type_name},
    marker::PhantomData,
};

use prost::{
    DecodeError, Message,
    bytes::{Buf as _, Bytes},
    encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field},
};
use tonic::{
    Status,
    codec::{self, DecodeBuf, Decoder, EncodeBuf, Encoder},
};

use super::proto::ModelInferRequest;
use crate::errors::{Cause, Failure};

/// Maximum number of fields in a message. It includes the tensors' fields, but not the fields
/// inside those. Each field takes more memory and time than its few bytes suggest.
const MAX_FIELDS: usize = 4_096;

/// Numbers of the fields `inputs` and `outputs` of a `ModelInferRequest`.
const TENSORS: [u32; 2] = [5, 6];

/// Codec that encodes messages of type `A` and decodes messages of type `Q`.
#[derive(Default)]
pub(crate) struct Codec<A, Q>(PhantomData<(A, Q)>);

impl<A: Message + Default + 'static, Q: Message + Default + 'static> codec::Codec for Codec<A, Q> {
    type Encode = A;
    type Decode = Q;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self::default()
    }

    fn decoder(&mut self) -> Self {
        Self::default()
    }
}

impl<A: Message, Q> Encoder for Codec<A, Q> {
    type Item = A;
    type Error = Status;

    fn encode(&mut self, message: A, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        // Tensors are copied only once, as the buffer does not grow.
        buffer.reserve(message.encoded_len());
        message.encode(buffer).expect("buffers grow");
        Ok(())
    }
}

impl<A, Q: Message + Default + 'static> Decoder for Codec<A, Q> {
    type Item = Q;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Q>, Status> {
        let bytes = buffer.copy_to_bytes(buffer.remaining());
        let wrong = |why: String| {
            let name = type_name::<Q>().rsplit(':').next().unwrap_or_default();
            let why = format!("the message is not a {name}: {why}");
            Failure::new(Cause::BadRequest, why)
        };
        let is_tensors = TypeId::of::<Q>() == TypeId::of::<ModelInferRequest>();
        let inside: &[u32] = if is_tensors { &TENSORS } else { &[] };
        let fields =
            count_fields(bytes.clone(), inside).map_err(|error| wrong(error.to_string()))?;
        if fields > MAX_FIELDS {
            let why = format!("it has {fields} fields: at most {MAX_FIELDS} are allowed");
            return Err(wrong(why).into());
        }
        let message = Q::decode(bytes).map_err(|error| wrong(error.to_string()))?;
        Ok(Some(message))
    }
}

/// Counts the fields of a message, and the fields of messages in its fields `inside`.
fn count_fields(mut bytes: Bytes, inside: &[u32]) -> Result<usize, DecodeError> {
    let mut fields = 0;
    while bytes.has_remaining() {
        let (tag, wire_type) = decode_key(&mut bytes)?;
        if wire_type == WireType::LengthDelimited && inside.contains(&tag) {
            let mut length = decode_varint(&mut bytes)?;
            length = length.min(bytes.remaining() as u64);
            fields += count_fields(bytes.split_to(length as usize), &[])?;
        } else {
            skip_field(wire_type, tag, &mut bytes, DecodeContext::default())?;
        }
        fields += 1;
    }
    Ok(fields)
}
