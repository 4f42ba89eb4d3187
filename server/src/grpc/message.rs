//! The bodies of requests, message by message: tonic reads each from a body of its own, so that no
//! buffer outlives a message of a stream. What comes is charged to the budget of all bodies, until
//! nothing refers to it.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use axum::{body::Body, extract::Request};
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame};
use prost::Message as _;
use tonic::{
    Status, Streaming,
    codec::{Codec as _, CompressionEncoding},
};

use super::{
    codec::Codec,
    proto::{ModelInferRequest, ModelInferResponse},
};
use crate::{
    app::state::App,
    bodies::{Lease, Share},
    errors::{Cause, Failure},
    run::RequestContext,
};

/// The bytes before a message, which say whether it is compressed and how long it is.
const HEAD_BYTES: usize = 5;

/// The most bytes that one byte of a compressed message can stand for.
const MAX_RATIO: usize = 1_032;

/// A request that is being read.
pub(super) struct Call {
    pub(super) who: RequestContext,
    encoding: Option<CompressionEncoding>,
    /// Most bytes of a message.
    most: usize,
    source: Mutex<Source>,
}

/// What comes from the client.
struct Source {
    body: Body,
    /// What has come and is of no message yet; at most a frame.
    rest: Bytes,
    /// Charge of the message that is being read.
    lease: Lease,
    /// True if that message is compressed: it is charged for the most that it can stand for.
    is_compressed: bool,
}

impl Call {
    /// Begins to read a request, whose only message the body has that is left in it.
    pub(super) fn begin(app: &App, request: Request) -> Result<Request<MessageBody>, Failure> {
        let (mut parts, body) = request.into_parts();
        let encoding = parts.headers.get("grpc-encoding");
        let call = Arc::new(Self {
            who: RequestContext::read(&app.runner, &parts.extensions, &parts.headers)?,
            encoding: match encoding.map(|it| it.as_bytes()) {
                Some(b"gzip") => Some(CompressionEncoding::Gzip),
                Some(b"deflate") => Some(CompressionEncoding::Deflate),
                _ => None,
            },
            most: app.options.max_body_bytes,
            source: Mutex::new(Source {
                body,
                rest: Bytes::new(),
                lease: app.bodies.share(&parts.extensions).lease(),
                is_compressed: false,
            }),
        });
        parts.extensions.insert(Arc::clone(&call));
        Ok(Request::from_parts(parts, MessageBody::new(call, true)))
    }

    /// Reads the next message of a stream, with its part of the budget; `None` when the client has
    /// sent all.
    pub(super) async fn next(
        self: &Arc<Self>,
    ) -> Result<Option<(ModelInferRequest, Arc<Share>)>, Failure> {
        let decoder = Codec::<ModelInferResponse, _>::default().decoder();
        let body = MessageBody::new(Arc::clone(self), false);
        let mut streaming = Streaming::new_request(decoder, body, self.encoding, Some(self.most));
        let message = streaming.message().await?;
        Ok(message.map(|mut message| {
            let share = self.charge(&mut message);
            (message, share)
        }))
    }

    /// Lets the tensors of a message that was read hold its part of the budget.
    pub(super) fn charge(&self, message: &mut ModelInferRequest) -> Arc<Share> {
        let mut source = self.lock();
        let mut lease = source.lease.next();
        if source.is_compressed {
            lease.shrink(message.encoded_len());
        }
        lease.keeps_all(&mut message.raw_input_contents)
    }

    fn lock(&self) -> MutexGuard<'_, Source> {
        self.source.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The body of one message.
pub(super) struct MessageBody {
    call: Arc<Call>,
    /// True if no other message may follow, and there has to be this one.
    is_only: bool,
    /// What has come of the head, as a number.
    head: u64,
    head_bytes: usize,
    /// The bytes that are still to come, once the head has.
    left: Option<usize>,
}

impl MessageBody {
    fn new(call: Arc<Call>, is_only: bool) -> Self {
        Self {
            call,
            is_only,
            head: 0,
            head_bytes: 0,
            left: None,
        }
    }

    /// Returns what is wrong with a body that ends here.
    fn end(&self) -> Option<&'static str> {
        match self.left {
            Some(0) => None,
            None if self.head_bytes == 0 => self.is_only.then_some("the request has no message"),
            _ => Some("the request ends inside of a message"),
        }
    }

    /// Charges the next part of the message.
    fn part(&mut self, source: &mut Source) -> Result<Bytes, Failure> {
        let wanted = self.left.unwrap_or(HEAD_BYTES - self.head_bytes);
        let part = source.rest.split_to(wanted.min(source.rest.len()));
        if let Some(left) = &mut self.left {
            source.lease.take(part.len())?;
            *left -= part.len();
        } else {
            self.head_bytes += part.len();
            self.head = part
                .iter()
                .fold(self.head, |head, byte| head << 8 | u64::from(*byte));
            if self.head_bytes == HEAD_BYTES {
                let length = self.head as u32 as usize;
                source.lease.check(length)?;
                source.is_compressed = self.head >> 32 != 0;
                self.left = Some(length);
            }
        }
        if self.left == Some(0) && source.is_compressed {
            let length = self.head as u32 as usize;
            let stands_for = length.saturating_mul(MAX_RATIO).min(self.call.most);
            source.lease.take(stands_for.saturating_sub(length))?;
        }
        Ok(part)
    }
}

impl HttpBody for MessageBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.left == Some(0) && !self.is_only {
            return Poll::Ready(None);
        }
        let wrong = |why: String| Some(Err(Failure::new(Cause::BadRequest, why).into()));
        let call = Arc::clone(&self.call);
        let source = &mut *call.lock();
        while source.rest.is_empty() {
            source.rest = match ready!(Pin::new(&mut source.body).poll_frame(context)) {
                // Trailers say nothing.
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
                Some(Err(error)) => {
                    return Poll::Ready(wrong(format!("the body could not be read: {error}")));
                }
                None => return Poll::Ready(self.end().and_then(|why| wrong(why.to_owned()))),
            };
        }
        if self.left == Some(0) {
            return Poll::Ready(wrong("the request has more than one message".to_owned()));
        }
        let part = self.part(source).map(Frame::data);
        Poll::Ready(Some(part.map_err(Status::from)))
    }
}
