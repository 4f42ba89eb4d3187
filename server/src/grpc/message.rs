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
    encoding::{DecodeContext, decode_key, skip_field},
};

use super::status;
use crate::{
    http::{
        bodies::{Bodies, Lease},
        encoding::Encoding,
    },
    rescue::{Cause, ENCODINGS, Failure},
};

/// The bytes before a message.
const HEAD_BYTES: usize = 5;

/// Most fields of a message, not counting those inside of them: each takes memory that its few
/// bytes do not show.
const MAX_FIELDS: usize = 4_096;

/// The messages of a request.
pub(super) struct Messages {
    body: Body,
    bodies: Arc<Bodies>,
    /// How messages are encoded that say that they are.
    encoding: Option<Encoding>,
    /// What has come and is of no message yet; at most a frame.
    rest: Bytes,
}

impl Messages {
    /// Those of a request with these headers; refuses an encoding that is not read.
    pub(super) fn new(
        headers: &HeaderMap,
        body: Body,
        bodies: &Arc<Bodies>,
    ) -> Result<Self, Failure> {
        let encoding = headers.get("grpc-encoding").map_or(Ok(None), |name| {
            Encoding::named(name.to_str().unwrap_or("?")).map_err(|()| {
                let why = format!("`grpc-encoding` is none that is read: {ENCODINGS}");
                Failure::new(Cause::UnknownEncoding, why).of_field("grpc-encoding")
            })
        });
        Ok(Self {
            body,
            bodies: Arc::clone(bodies),
            encoding: encoding?,
            rest: Bytes::new(),
        })
    }

    /// The next message; `None` when the client has sent all.
    pub(super) async fn next<M: Message + Default>(&mut self) -> Result<Option<M>, Failure> {
        let mut lease = self.bodies.lease();
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
        self.bodies.check(length)?;
        let mut lease = self.bodies.lease();
        let bytes = match length {
            0 => Bytes::new(),
            length => self.take(length, &mut lease).await?.ok_or_else(cut_short)?,
        };
        let mut bytes = lease.keeps(bytes);
        if let Some(encoding) = encoding {
            bytes = self.bodies.decode(bytes, encoding).await?;
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
        Ok(Some(message))
    }

    /// The only message.
    pub(super) async fn only<M: Message + Default>(mut self) -> Result<M, Failure> {
        let Some(message) = self.next().await? else {
            let why = "the request has no message";
            return Err(Failure::new(Cause::BadRequest, why));
        };
        let mut lease = self.bodies.lease();
        if self.take(1, &mut lease).await?.is_some() {
            let why = "the request has more than one message";
            return Err(Failure::new(Cause::BadRequest, why));
        }
        Ok(message)
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
        let mut whole = BytesMut::new();
        loop {
            let part = self.rest.split_to(self.rest.len().min(bytes - whole.len()));
            lease.take(part.len())?;
            whole.extend_from_slice(&part);
            if whole.len() == bytes {
                return Ok(Some(whole.freeze()));
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
    let length = message.encoded_len();
    let mut bytes = BytesMut::with_capacity(HEAD_BYTES + length);
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    // Vectors of bytes have room for everything.
    let _ = message.encode(&mut bytes);
    bytes.freeze()
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

/// An answer of one message.
pub(super) fn reply(message: &impl Message) -> Response {
    let trailers: HeaderMap = status::trailers(None);
    let parts = [Frame::data(encode(message)), Frame::trailers(trailers)];
    response(futures_util::stream::iter(parts.map(Ok)))
}
