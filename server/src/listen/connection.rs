//! One connection: a task that speaks HTTP/1 or HTTP/2, whichever the client begins with.

use std::{
    convert::Infallible,
    future::{Future, poll_fn},
    io,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    task::Poll,
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::Body,
    extract::Request,
    http::{HeaderMap, HeaderValue, Response, header},
    response::IntoResponse as _,
};
use hyper::{body::Incoming, rt::Executor, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto,
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tower::Service as _;

use super::{
    body::{Download, Guard, Upload},
    connections::Place,
    deadline::time_allowed,
    limits::HEAD_BYTES,
    refusal::too_many,
    socket::Socket,
    stream::Stream,
    watch::{Exchange, Patience, Verdict},
};
use crate::errors::{Cause, Failure};

/// Requests of one HTTP/2 connection at the same time: a proxy has few connections for many
/// clients.
const STREAMS: u32 = 256;
/// What a client of HTTP/2 may send of bodies before they are read, for each stream and for all of
/// a connection.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;
/// What a stream of HTTP/2 may have to send before the client takes it.
const STREAM_BUFFER_BYTES: usize = 64 << 10;
/// A client of HTTP/2 that leaves a ping unanswered for as long again is gone.
const PING_INTERVAL: Duration = Duration::from_secs(20);

/// When the first byte of the request came in whose extensions it is.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Arrival(pub(crate) Instant);

/// Serves a connection, over TLS where there is an acceptor.
pub(super) fn spawn(
    stream: TcpStream,
    acceptor: Option<TlsAcceptor>,
    place: Place,
    service: Router,
) {
    // Tokens are small writes: waiting to fill a segment would hold each back.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!("TCP_NODELAY: {error}");
    }
    tokio::spawn(async move {
        match acceptor {
            None => serve(Stream::Plain(stream), place, service).await,
            Some(acceptor) => match shake_hands(stream, &acceptor, &place).await {
                Ok(stream) => serve(Stream::Tls(Box::new(stream)), place, service).await,
                Err(error) => tracing::debug!("a TLS handshake failed: {error}"),
            },
        }
    });
}

/// Begins TLS. It may take as long as a connection may be silent.
async fn shake_hands(
    stream: TcpStream,
    acceptor: &TlsAcceptor,
    place: &Place,
) -> io::Result<TlsStream<TcpStream>> {
    let connection = &place.connection;
    let mut shaking = pin!(acceptor.accept(stream));
    poll_fn(|cx| {
        connection.wakes(cx.waker());
        match connection.verdict() {
            Verdict::Serve => shaking.as_mut().poll(cx),
            _ => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
        }
    })
    .await
}

async fn serve(stream: Stream, place: Place, service: Router) {
    let connection = Arc::clone(&place.connection);
    let refusals = Arc::clone(&place.connections.refusals);
    let socket = Socket::new(stream, Arc::clone(&connection), refusals);
    let streams = Streams(Arc::new(Slot::default()));
    let builder = builder(&streams);
    let answering = service_fn(|mut request: Request<Incoming>| {
        request.extensions_mut().insert(connection.client);
        answer(request, &place, &streams, &service)
    });
    let mut serving = pin!(builder.serve_connection(TokioIo::new(socket), answering));
    let mut finishing = false;
    let served = poll_fn(|cx| {
        connection.wakes(cx.waker());
        match connection.verdict() {
            Verdict::Cut => return Poll::Ready(Ok(())),
            Verdict::Finish if !finishing => {
                finishing = true;
                serving.as_mut().graceful_shutdown();
            }
            // A late head is told so where it is read.
            _ => {}
        }
        serving.as_mut().poll(cx)
    });
    if let Err(error) = served.await {
        tracing::debug!("a connection failed: {error}");
    }
}

fn builder(streams: &Streams) -> auto::Builder<Streams> {
    let mut builder = auto::Builder::new(streams.clone());
    builder
        .http1()
        // The watch counts the time of heads, apart from that between requests.
        .header_read_timeout(None)
        // A head has to fit into the buffer, where bodies and answers pass through in parts.
        .max_buf_size(HEAD_BYTES);
    // Streams that are reset at once, or that reset by their errors, are limited by the library: 20
    // and 1,024.
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

/// Answers a request, watched from here to the end of its answer.
fn answer(
    request: Request<Incoming>,
    place: &Place,
    streams: &Streams,
    service: &Router,
) -> impl Future<Output = Result<Response<Download>, Infallible>> + use<> {
    let (connection, connections) = (&place.connection, &place.connections);
    let (exchange, arrived) = connection.begin();
    streams.0.put(&exchange);
    let room = connections.request_begins(connection.client);
    let is_room = room.is_some();
    let guard = Guard {
        _place: room,
        connection: Arc::clone(connection),
        exchange: Arc::clone(&exchange),
    };
    let limits = &connections.limits;
    let (body_limit, limit) = (limits.body, limits.write);
    let upload_of = Arc::clone(connection);
    let mut service = service.clone();
    let (mut parts, body) = request.into_parts();
    let refusal = if is_room {
        unclear_coding(&parts.headers)
    } else {
        Some(too_many().into_response())
    };
    let answer = if let Some(refusal) = refusal {
        Err(refusal)
    } else {
        let deadline = head_deadline(&parts.headers, arrived);
        let upload = Upload::new(body, upload_of, Arc::clone(&exchange), body_limit, deadline);
        parts.extensions.insert(Arrival(arrived));
        parts.extensions.insert(exchange);
        Ok(service.call(Request::from_parts(parts, Body::new(upload))))
    };
    async move {
        let response = match answer {
            Ok(answer) => answer.await?,
            Err(refusal) => refusal,
        };
        let mut patience = Patience::new(limit);
        // The library asks for no body before the client of HTTP/2 has room for some of it.
        patience.ask(0, &guard.connection.clock, &guard.exchange);
        Ok(response.map(|body| Download {
            body,
            guard,
            patience,
        }))
    }
}

/// Refuses codings that another server on the way may read in another way: the only one is `chunked`,
/// once.
fn unclear_coding(headers: &HeaderMap) -> Option<Response<Body>> {
    let mut given = headers.get_all(header::TRANSFER_ENCODING).iter();
    let is_chunked = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"chunked");
    if given.next().is_none_or(is_chunked) && given.next().is_none() {
        return None;
    }
    let why = "`transfer-encoding` is not what is read: expected `chunked`, once";
    let mut response = Failure::new(Cause::BadRequest, why)
        .of_field("transfer-encoding")
        .into_response();
    // Where the body ends is not sure.
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
    Some(response)
}

/// When the answer becomes worthless, as far as the head says so.
fn head_deadline(headers: &HeaderMap, arrived: Instant) -> Option<tokio::time::Instant> {
    // What is no time is refused when the body has been read.
    let patience = time_allowed(headers).ok().flatten()?;
    arrived.checked_add(patience).map(Into::into)
}

/// Runs the streams of an HTTP/2 connection, each in a task that can be ended alone.
#[derive(Clone)]
struct Streams(Arc<Slot>);

/// The request that is about to become a stream's task: the library makes the one of the other
/// before it takes the next.
#[derive(Default)]
struct Slot(Mutex<Option<Arc<Exchange>>>);

impl Slot {
    fn put(&self, exchange: &Arc<Exchange>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(exchange));
    }

    fn take(&self) -> Option<Arc<Exchange>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<F> Executor<F> for Streams
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let task = tokio::spawn(stream).abort_handle();
        if let Some(exchange) = self.0.take() {
            exchange.is_task(task);
        }
    }
}
