//! Message by message reading of request bodies. tonic reads each message from a body of its own,
//! so that no buffer outlives a message of a stream. Received bytes are charged to the budget of
//! all bodies, until nothing refers to them.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::{body::Body, extract::Request, http::HeaderValue};
use bytes::{Buf as _, Bytes};
use hyper::body::{Body as HttpBody, Frame};
use parking_lot::Mutex;
use tonic::{
    Status, Streaming,
    codec::{Codec as _, CompressionEncoding},
};

use crate::{
    app::state::App,
    bodies::{Lease, Share},
    errors::{Cause, Failure},
    kserve::{
        codec::Codec,
        proto::{ModelInferRequest, ModelInferResponse},
    },
    run::RequestContext,
};

/// Length of the prefix of a message, which contains its compression flag and its length.
pub(super) const HEAD_BYTES: usize = 5;

/// Maximum ratio of decompressed to compressed bytes.
const MAX_RATIO: usize = 1_032;

/// A request being read, shared by its handler and its message bodies.
pub(super) struct GrpcCall {
    pub(super) who: RequestContext,
    encoding: Option<CompressionEncoding>,
    /// Maximum size of a message in bytes.
    most: usize,
    source: Mutex<MessageSource>,
}

/// A message whose payloads hold its part of the budget.
pub(super) trait Charged: prost::Message + Default + 'static {
    /// Returns the payloads of the message.
    fn parts(&mut self) -> impl Iterator<Item = &mut Bytes>;
}

impl Charged for ModelInferRequest {
    fn parts(&mut self) -> impl Iterator<Item = &mut Bytes> {
        self.raw_input_contents.iter_mut()
    }
}

/// The received bytes of a client.
struct MessageSource {
    body: Body,
    /// Received bytes that belong to no message yet; at most a frame.
    rest: Bytes,
    /// Lease for the message being read.
    lease: Lease,
    /// True if the message is compressed. It is charged for the maximum decompressed size.
    is_compressed: bool,
}

impl GrpcCall {
    /// Starts reading a request of a single message.
    pub(super) fn begin(app: &App, request: Request) -> Result<Request<MessageBody>, Failure> {
        let (mut parts, body) = request.into_parts();
        let encoding = parts.headers.get("grpc-encoding");
        let call = Arc::new(Self {
            who: RequestContext::read(&app.runner, &parts.extensions, &parts.headers)?,
            encoding: match encoding.map(HeaderValue::as_bytes) {
                Some(b"gzip") => Some(CompressionEncoding::Gzip),
                Some(b"deflate") => Some(CompressionEncoding::Deflate),
                _ => None,
            },
            most: app.options.max_body_bytes,
            source: Mutex::new(MessageSource {
                body,
                rest: Bytes::new(),
                lease: app.bodies.share(&parts.extensions).lease(),
                is_compressed: false,
            }),
        });
        parts.extensions.insert(Arc::clone(&call));
        Ok(Request::from_parts(parts, MessageBody::new(call, true)))
    }

    /// Reads the next message of a stream, with its share of the budget; `None` after the last
    /// message.
    pub(super) async fn next<M: Charged>(
        self: &Arc<Self>,
    ) -> Result<Option<(M, Arc<Share>)>, Failure> {
        let decoder = Codec::<ModelInferResponse, M>::default().decoder();
        let body = MessageBody::new(Arc::clone(self), false);
        let mut streaming = Streaming::new_request(decoder, body, self.encoding, Some(self.most));
        let message = streaming.message().await?;
        Ok(message.map(|mut message| {
            let share = self.charge(&mut message);
            (message, share)
        }))
    }

    /// Attaches the leased bytes to the payloads of a message that was read.
    pub(super) fn charge<M: Charged>(&self, message: &mut M) -> Arc<Share> {
        let mut source = self.source.lock();
        let mut lease = source.lease.next();
        if source.is_compressed {
            lease.shrink(message.encoded_len());
        }
        lease.keeps_all(message.parts())
    }
}

/// A body that contains one message.
pub(super) struct MessageBody {
    call: Arc<GrpcCall>,
    /// True if the request must have exactly this one message.
    is_only: bool,
    /// Length of the message in bytes; `None` before its prefix was read.
    length: Option<usize>,
    /// Bytes of the message, or of its prefix, that have not been read.
    left: usize,
}

impl MessageBody {
    fn new(call: Arc<GrpcCall>, is_only: bool) -> Self {
        Self {
            call,
            is_only,
            length: None,
            left: HEAD_BYTES,
        }
    }

    /// Polls for the next part of the message, or for its prefix, which is not charged.
    fn poll_part(
        &mut self,
        source: &mut MessageSource,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, Failure>> {
        let wrong = |why: &str| Poll::Ready(Err(Failure::new(Cause::BadRequest, why)));
        let needed = self.length.map_or(HEAD_BYTES, |_| 1);
        while source.rest.len() < needed {
            match ready!(Pin::new(&mut source.body).poll_frame(context)) {
                // Trailers have no data.
                Some(Ok(frame)) => {
                    let data = frame.into_data().unwrap_or_default();
                    source.rest = if source.rest.is_empty() {
                        data
                    } else {
                        [source.rest.as_ref(), &data].concat().into()
                    };
                }
                Some(Err(error)) => return wrong(&format!("the body could not be read: {error}")),
                None if !source.rest.is_empty() || (self.length.is_some() && self.left > 0) => {
                    return wrong("the request ends within a message");
                }
                None if self.length.is_none() && self.is_only => {
                    return wrong("the request has no message");
                }
                None => return Poll::Ready(Ok(None)),
            }
        }
        if self.left == 0 {
            return wrong("the request has more than one message");
        }
        let part = source.rest.split_to(self.left.min(source.rest.len()));
        if let Some(length) = self.length {
            source.lease.take(part.len())?;
            self.left -= part.len();
            if self.left == 0 && source.is_compressed {
                let stands_for = length.saturating_mul(MAX_RATIO).min(self.call.most);
                source.lease.take(stands_for.saturating_sub(length))?;
            }
        } else {
            let mut head = &*part;
            source.is_compressed = head.get_u8() != 0;
            self.left = head.get_u32() as usize;
            self.length = Some(self.left);
            source.lease.check(self.left)?;
        }
        Poll::Ready(Ok(Some(part)))
    }
}

impl HttpBody for MessageBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.left == 0 && !self.is_only {
            return Poll::Ready(None);
        }
        let call = Arc::clone(&self.call);
        let part = ready!(self.poll_part(&mut call.source.lock(), context));
        let part = part.transpose().map(|part| Ok(Frame::data(part?)));
        Poll::Ready(part)
    }
}
