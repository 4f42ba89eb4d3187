//! The task of a connection, which speaks HTTP/1 or HTTP/2, as the client begins.

use std::{
    convert::Infallible,
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::Body,
    extract::Request,
    http::{HeaderMap, HeaderValue, Response, header},
    response::IntoResponse as _,
};
use futures_util::future::{AbortHandle, AbortRegistration, Abortable};
use hyper::{body::Incoming, rt::Executor, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto,
};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;
use tower::Service as _;

use super::{
    accept::{close, too_many},
    body::{Download, Upload},
    connections::Place,
    limits::{HEAD_BYTES, time_allowed},
    socket::{Socket, Stream},
};
use crate::errors::{Cause, Failure};

/// Maximum number of concurrent requests on an HTTP/2 connection. Proxies use few connections for
/// many clients.
const STREAMS: u32 = 256;
/// Number of body bytes that an HTTP/2 client may send before they are read, per stream and per
/// connection.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;
/// Maximum number of buffered bytes that an HTTP/2 stream waits to send.
const STREAM_BUFFER_BYTES: usize = 64 << 10;
/// Interval of HTTP/2 pings. A client that does not answer one within the same time is gone.
const PING_INTERVAL: Duration = Duration::from_secs(20);

tokio::task_local! {
    /// Aborts the answering task: of an HTTP/2 stream, or of a connection.
    static TASK: AbortHandle;
}

/// Spawns a task that can be aborted through its registration.
pub(super) fn spawn(ends: AbortRegistration, future: impl Future<Output: Send> + Send + 'static) {
    let task = ends.handle();
    tokio::spawn(TASK.scope(task, Abortable::new(future, ends)));
}

/// Executor of HTTP/2 streams, each in its own task that can be aborted by itself.
#[derive(Clone)]
struct Streams;

impl<F: Future<Output: Send> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        spawn(AbortHandle::new_pair().1, stream);
    }
}

/// Serves a connection, over TLS if there is an acceptor.
pub(super) async fn serve(
    stream: impl Stream + 'static,
    acceptor: Option<TlsAcceptor>,
    place: Place,
    service: Router,
) {
    let connection = &place.connection;
    let stream: Box<dyn Stream> = match acceptor {
        None => Box::new(stream),
        Some(acceptor) => tokio::select! {
            // The handshake may take as long as a new connection may be silent.
            () = connection.told.notified() => return,
            shaken = acceptor.accept(stream) => match shaken {
                Ok(stream) => Box::new(stream),
                Err(error) => return tracing::debug!("a TLS handshake failed: {error}"),
            },
        },
    };
    let (owner, after) = oneshot::channel();
    let socket = Socket {
        stream,
        connection: Arc::clone(connection),
        is_http2: None,
        blocked: false,
        owner: Some(owner),
    };
    let answering = service_fn(|request| answer(request, &place, &service));
    let builder = builder();
    let mut serving = Box::pin(builder.serve_connection(TokioIo::new(socket), answering));
    let is_late = loop {
        tokio::select! {
            biased;
            () = connection.told.notified() => {
                if connection.is_late() {
                    break true;
                }
                serving.as_mut().graceful_shutdown();
            }
            served = serving.as_mut() => {
                if let Err(error) = served {
                    tracing::debug!("a connection failed: {error}");
                }
                break false;
            }
        }
    };
    drop(serving);
    if let Ok(stream) = after.await {
        if is_late {
            let why = "the head of the request did not arrive in time";
            close(stream, Some(Failure::new(Cause::LateRequest, why)), false).await;
        } else if connection.may_be_sending() {
            close(stream, None, true).await;
        }
    }
}

fn builder() -> auto::Builder<Streams> {
    let mut builder = auto::Builder::new(Streams);
    builder
        .http1()
        // [`super::connection`] limits heads separately from the time between requests.
        .header_read_timeout(None)
        // A head must fit into the buffer. Bodies and answers pass through it in parts.
        .max_buf_size(HEAD_BYTES);
    // The library limits streams that are reset at once to 20, and those reset because of errors to
    // 1,024.
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_INTERVAL)
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEAD_BYTES as u32)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(STREAM_BUFFER_BYTES);
    builder
}

/// Answers a request, and watches it to the end of its answer.
fn answer(
    request: Request<Incoming>,
    place: &Place,
    service: &Router,
) -> impl Future<Output = Result<Response<Download>, Infallible>> + use<> {
    let answering = place.begin();
    let mut service = service.clone();
    let (mut parts, body) = request.into_parts();
    let refusal = if answering.place.is_some() {
        unclear_coding(&parts.headers)
    } else {
        Some(too_many().into_response())
    };
    let connection = Arc::clone(&answering.connection);
    let exchange = Arc::clone(&answering.exchange);
    parts.extensions.insert(connection.client);
    parts.extensions.insert(Arc::clone(&exchange));
    // An invalid time is refused after reading the body.
    let allowed = time_allowed(&parts.headers).ok().flatten();
    let upload = Upload {
        body,
        deadline: allowed.and_then(|allowed| exchange.arrived.checked_add(allowed)),
        connection,
        exchange,
        began: None,
        came: 0,
        ended: false,
        timer: None,
    };
    async move {
        answering.exchange.lock().task = Some(TASK.get());
        let response = if let Some(refusal) = refusal {
            refusal
        } else {
            let request = Request::from_parts(parts, Body::new(upload));
            service.call(request).await?
        };
        // The library does not poll the body until the HTTP/2 client has a window for it.
        answering.exchange.record_wait(0, Instant::now());
        Ok(response.map(|body| Download { body, answering }))
    }
}

/// Refuses transfer codings that another server on the way may read differently. Only a single
/// `chunked` is accepted.
fn unclear_coding(headers: &HeaderMap) -> Option<Response<Body>> {
    let mut given = headers.get_all(header::TRANSFER_ENCODING).iter();
    let is_chunked = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"chunked");
    if given.next().is_none_or(is_chunked) && given.next().is_none() {
        return None;
    }
    let why = "unsupported `transfer-encoding`: expected `chunked`, once";
    let failure = Failure::new(Cause::BadRequest, why).with_field("transfer-encoding");
    // The end of the body is not certain.
    Some(([(header::CONNECTION, "close")], failure).into_response())
}
