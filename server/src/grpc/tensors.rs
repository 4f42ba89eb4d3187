//! Large tensors of answers, which follow the message that tonic writes and are not copied into it:
//! fields can follow each other in any order.

use std::iter::once;

use axum::{body::Body, response::Response};
use bytes::{Buf as _, Bytes, BytesMut};
use futures_util::{StreamExt as _, stream};
use http_body_util::{BodyStream, StreamBody};
use hyper::body::Frame;
use prost::encoding::{WireType, encode_key, encode_varint};

use super::{message::HEAD_BYTES, proto::ModelInferResponse};

/// From this size on of any tensor, all are parts of the body by themselves.
const LONG_BYTES: usize = 64 << 10;

/// The number of the field `raw_output_contents`.
const RAW_OUTPUT_CONTENTS: u32 = 6;

/// Fields of an answer, each behind its key.
#[derive(Clone)]
struct Apart(Vec<Bytes>);

/// An answer whose tensors, if one is large, are apart from its message.
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

/// Puts what is apart from a message, its first frame, behind it.
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

/// Adds so many bytes to the length in the head of a message.
fn longer(message: Bytes, more: usize) -> Bytes {
    let mut message = BytesMut::from(message);
    let length = &mut message[1..HEAD_BYTES];
    let whole = u32::try_from((&*length).get_u32() as usize + more);
    length.copy_from_slice(&whole.unwrap_or(u32::MAX).to_be_bytes());
    message.freeze()
}
