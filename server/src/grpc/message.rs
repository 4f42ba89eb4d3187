//! Messages on the wire: five bytes before each say whether it is compressed and how long it is.
//! What has come of a message has its part of the budget of all bodies, until nothing refers to it.

use std::{convert::Infallible, sync::Arc};

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, header},
    response::Response,
};
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use prost::{
    Message,
    encoding::{DecodeContext, WireType, decode_key, encode_key, encode_varint, skip_field},
};

use super::{proto::ModelInferResponse, status};
use crate::{
    bodies::{Lease, Share, encoding::Encoding},
    errors::{Cause, ENCODINGS, Failure},
};

/// The bytes before a message.
const HEAD_BYTES: usize = 5;

/// Most fields of a message, not counting those inside of them: each takes memory that its few
/// bytes do not show.
const MAX_FIELDS: usize = 4_096;

/// The messages of a request.
pub(super) struct Messages {
    body: Body,
    /// The budget, of which each message takes a share of its own.
    share: Arc<Share>,
    /// How messages are encoded that say that they are.
    encoding: Option<Encoding>,
    /// What has come and is of no message yet; at most a frame.
    rest: Bytes,
}

impl Messages {
    /// Those of a request with these headers; refuses an encoding that is not read.
    pub(super) fn new(headers: &HeaderMap, body: Body, share: Arc<Share>) -> Result<Self, Failure> {
        let encoding = headers.get("grpc-encoding").map_or(Ok(None), |name| {
            Encoding::named(name.to_str().unwrap_or("?")).map_err(|()| {
                let why = format!("`grpc-encoding` is none that is read: {ENCODINGS}");
                Failure::new(Cause::UnknownEncoding, why).of_field("grpc-encoding")
            })
        });
        Ok(Self {
            body,
            share,
            encoding: encoding?,
            rest: Bytes::new(),
        })
    }

    /// The next message, with what it has of the budget; `None` when the client has sent all.
    pub(super) async fn next<M: Message + Default>(
        &mut self,
    ) -> Result<Option<(M, Arc<Share>)>, Failure> {
        let share = self.share.another();
        let mut lease = share.lease();
        let Some(mut head) = self.take(HEAD_BYTES, &mut lease).await? else {
            return Ok(None);
        };
        let (flags, length) = (head.get_u8(), head.get_u32() as usize);
        let encoding = match (flags, self.encoding) {
            (0, _) => None,
            (1, Some(encoding)) => Some(encoding),
            _ => {
                let why = "the message is compressed, and `grpc-encoding` does not say how";
                return Err(Failure::new(Cause::BadRequest, why));
            }
        };
        share.check(length)?;
        let mut lease = share.lease();
        let bytes = match length {
            0 => Bytes::new(),
            length => self.take(length, &mut lease).await?.ok_or_else(cut_short)?,
        };
        let mut bytes = lease.keeps(bytes);
        if let Some(encoding) = encoding {
            bytes = share.decode(bytes, encoding).await?;
        }
        let name = std::any::type_name::<M>().rsplit(':').next();
        let wrong = |why: &dyn std::fmt::Display| {
            let message = format!("the message is no {}: {why}", name.unwrap_or_default());
            Failure::new(Cause::BadRequest, message)
        };
        let fields = count_fields(bytes.clone()).map_err(|error| wrong(&error))?;
        if fields > MAX_FIELDS {
            return Err(wrong(&format_args!(
                "it has {fields} fields, at most {MAX_FIELDS} are read"
            )));
        }
        let message = M::decode(bytes).map_err(|error| wrong(&error))?;
        Ok(Some((message, share)))
    }

    /// The only message, with what it has of the budget.
    pub(super) async fn only<M: Message + Default>(mut self) -> Result<(M, Arc<Share>), Failure> {
        let Some(read) = self.next().await? else {
            let why = "the request has no message";
            return Err(Failure::new(Cause::BadRequest, why));
        };
        let mut lease = self.share.lease();
        if self.take(1, &mut lease).await?.is_some() {
            let why = "the request has more than one message";
            return Err(Failure::new(Cause::BadRequest, why));
        }
        Ok(read)
    }

    /// So many bytes; `None` where the client has sent all before the first.
    async fn take(&mut self, bytes: usize, lease: &mut Lease) -> Result<Option<Bytes>, Failure> {
        // Mostly all of it is in one frame, which is not copied.
        if self.rest.is_empty() && !self.more().await? {
            return Ok(None);
        }
        if self.rest.len() >= bytes {
            lease.take(bytes)?;
            return Ok(Some(self.rest.split_to(bytes)));
        }
        let mut parts = Parts::default();
        loop {
            let part = self.rest.split_to(self.rest.len().min(bytes - parts.bytes));
            lease.take(part.len())?;
            parts.push(part);
            if parts.bytes == bytes {
                return Ok(Some(parts.join()));
            }
            if !self.more().await? {
                return Err(cut_short());
            }
        }
    }

    /// Waits for more; false where there is no more.
    async fn more(&mut self) -> Result<bool, Failure> {
        while self.rest.is_empty() {
            let Some(frame) = self.body.frame().await else {
                return Ok(false);
            };
            let frame = frame.map_err(|error| {
                Failure::new(
                    Cause::BadRequest,
                    format!("the body could not be read: {error}"),
                )
            })?;
            // Trailers say nothing.
            self.rest = frame.into_data().unwrap_or_default();
        }
        Ok(true)
    }
}

/// Shorter parts of a message are copied as they come: each that is kept takes memory besides its
/// bytes.
const SHORT_BYTES: usize = 1 << 10;

/// The parts of a message, which are copied once, when all have come: how long it is, is only what
/// the client says.
#[derive(Default)]
struct Parts {
    long: Vec<Bytes>,
    /// Short ones behind these.
    short: BytesMut,
    bytes: usize,
}

impl Parts {
    fn push(&mut self, part: Bytes) {
        self.bytes += part.len();
        if part.len() < SHORT_BYTES {
            self.short.extend_from_slice(&part);
        } else {
            self.keep_short();
            self.long.push(part);
        }
    }

    fn keep_short(&mut self) {
        if !self.short.is_empty() {
            self.long.push(self.short.split().freeze());
        }
    }

    fn join(mut self) -> Bytes {
        self.keep_short();
        let mut whole = BytesMut::with_capacity(self.bytes);
        for part in self.long {
            whole.extend_from_slice(&part);
        }
        whole.freeze()
    }
}

fn cut_short() -> Failure {
    Failure::new(Cause::BadRequest, "the request ends inside of a message")
}

/// How many fields a message has, which are skipped.
fn count_fields(mut bytes: Bytes) -> Result<usize, prost::DecodeError> {
    let mut fields = 0;
    while bytes.has_remaining() {
        let (tag, wire_type) = decode_key(&mut bytes)?;
        skip_field(wire_type, tag, &mut bytes, DecodeContext::default())?;
        fields += 1;
    }
    Ok(fields)
}

/// A message as it is on the wire.
pub(super) fn encode(message: &impl Message) -> Bytes {
    encode_before(message, 0).freeze()
}

/// The head of a message and these fields of it, which `more` bytes of other fields follow.
fn encode_before(message: &impl Message, more: usize) -> BytesMut {
    let length = message.encoded_len();
    let mut bytes = BytesMut::with_capacity(HEAD_BYTES + length);
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(length + more).unwrap_or(u32::MAX));
    // Vectors of bytes have room for everything.
    let _ = message.encode(&mut bytes);
    bytes
}

/// A part of an answer's body.
pub(super) type Part = Result<Frame<Bytes>, Infallible>;

/// An answer of such parts.
pub(super) fn response(parts: impl futures_util::Stream<Item = Part> + Send + 'static) -> Response {
    let mut response = Response::new(Body::new(StreamBody::new(parts)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, status::MEDIA_TYPE);
    let read = HeaderValue::from_static("identity,gzip,deflate");
    headers.insert("grpc-accept-encoding", read);
    response
}

/// From this size on, tensors are parts of the body by themselves, which are not copied.
const LONG_BYTES: usize = 64 << 10;

/// The number of the field `raw_output_contents`.
const RAW_OUTPUT_CONTENTS: u32 = 6;

/// An answer of one message with tensors.
pub(super) fn tensors(mut answer: ModelInferResponse) -> Response {
    if answer
        .raw_output_contents
        .iter()
        .all(|it| it.len() < LONG_BYTES)
    {
        return reply(&answer);
    }
    // Fields can follow each other in any order: tensors come last, each behind its key.
    let tensors = std::mem::take(&mut answer.raw_output_contents);
    let keyed = tensors.into_iter().map(|tensor| {
        let mut key = BytesMut::new();
        encode_key(RAW_OUTPUT_CONTENTS, WireType::LengthDelimited, &mut key);
        encode_varint(tensor.len() as u64, &mut key);
        [key.freeze(), tensor]
    });
    let behind: Vec<Bytes> = keyed.flatten().collect();
    let more = behind.iter().map(Bytes::len).sum();
    let before = encode_before(&answer, more).freeze();
    let data = std::iter::once(before).chain(behind).map(Frame::data);
    let trailers = Frame::trailers(status::trailers(None));
    let parts: Vec<Part> = data.chain([trailers]).map(Ok).collect();
    response(futures_util::stream::iter(parts))
}

/// An answer of one message.
pub(super) fn reply(message: &impl Message) -> Response {
    let trailers: HeaderMap = status::trailers(None);
    let parts = [Frame::data(encode(message)), Frame::trailers(trailers)];
    response(futures_util::stream::iter(parts.map(Ok)))
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;
    use crate::{
        bodies::Bodies,
        grpc::{convert, proto::ModelInferRequest},
    };

    /// A request with a tensor of so many bytes, in frames of so many.
    fn request(bytes: usize, frame: usize) -> (Vec<Bytes>, Body) {
        let mut request = ModelInferRequest::default();
        request
            .inputs
            .push(crate::grpc::proto::model_infer_request::InferInputTensor {
                name: "x".to_owned(),
                datatype: "UINT8".to_owned(),
                shape: vec![bytes as i64],
                ..Default::default()
            });
        let data: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
        request.raw_input_contents.push(data.into());
        let wire = encode(&request);
        let frames: Vec<Bytes> = wire.chunks(frame).map(Bytes::copy_from_slice).collect();
        let body = stream::iter(frames.clone().into_iter().map(Ok::<_, Infallible>));
        (frames, Body::from_stream(body))
    }

    async fn tensor(body: Body) -> Bytes {
        let bodies = Bodies::new(8 << 20, 8 << 20, &graphmill_engine::Executors::new());
        let messages = Messages::new(&HeaderMap::new(), body, bodies.share_of(None, None))
            .expect("no encoding");
        let (message, _): (ModelInferRequest, _) = messages.only().await.expect("a message");
        let tensors = convert::tensors(message.inputs, message.raw_input_contents);
        let (_, tensor) = tensors.expect("a tensor").remove(0);
        tensor.data().clone()
    }

    #[tokio::test]
    async fn a_tensor_that_comes_in_one_frame_is_not_copied() {
        let (frames, body) = request(4 << 20, usize::MAX);
        let data = tensor(body).await;
        assert!(frames[0].as_ptr_range().contains(&data.as_ptr()));
    }

    #[tokio::test]
    async fn a_tensor_that_comes_in_many_frames_is_copied_once_into_the_message() {
        let (_, body) = request(4 << 20, 16 << 10);
        let bodies = Bodies::new(8 << 20, 8 << 20, &graphmill_engine::Executors::new());
        let mut messages = Messages::new(&HeaderMap::new(), body, bodies.share_of(None, None))
            .expect("no encoding");
        let mut lease = bodies.share_of(None, None).lease();
        let head = messages.take(HEAD_BYTES, &mut lease).await.expect("a head");
        let length = head.expect("a head").slice(1..).get_u32() as usize;
        // The frames are put together here, and the tensor is a part of what comes of that.
        let whole = messages.take(length, &mut lease).await.expect("a message");
        let whole = whole.expect("a message");
        let message = ModelInferRequest::decode(whole.clone()).expect("a request");
        let tensors = convert::tensors(message.inputs, message.raw_input_contents);
        let (_, tensor) = tensors.expect("a tensor").remove(0);
        assert_eq!(tensor.data().len(), 4 << 20);
        assert!(whole.as_ptr_range().contains(&tensor.data().as_ptr()));
    }

    #[tokio::test]
    async fn a_tensor_in_frames_of_any_length_is_what_was_sent() {
        for frame in [1, 7, SHORT_BYTES - 1, SHORT_BYTES, 16 << 10] {
            let (_, body) = request(40_000, frame);
            let data = tensor(body).await;
            assert!(
                data.iter().enumerate().all(|(at, byte)| *byte == at as u8),
                "{frame}"
            );
            assert_eq!(data.len(), 40_000);
        }
    }
}
