//! Accepts connections, or refuses them, and survives all errors.

use std::{
    io::{
        self,
        ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted},
        Read as _, Write as _,
    },
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use axum::{Router, http::StatusCode};
use graphmill_calculators::http::dialect;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpSocket, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};

use super::{
    connections::Connections,
    serve::{serve, spawn},
    socket::Stream,
    tls::Tls,
};
use crate::{
    errors::{Cause, Failure, Retry},
    owner::Peer,
};

/// Connections that may wait to be accepted, if the system allows as many (`net.core.somaxconn`).
/// One that finds no place tries again after a second.
const BACKLOG: u32 = 4_096;

/// The first and the longest pause after the system could not give a connection.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

/// Connections that are being refused at the same time: each has a descriptor and a task for up to
/// [`COURTESY`]. More are told at once, whether or not they can read it.
pub(super) const REFUSED_AT_ONCE: usize = 64;

/// Longest time that a client may take to read why its connection ends.
const COURTESY: Duration = Duration::from_secs(1);

/// As [`TcpListener::bind`], which has room for 128 that wait.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    // A server can be started again while connections of the last one end. Elsewhere this means
    // that two may listen.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// A source of connections.
pub(crate) trait Listener: Send + Sync + 'static {
    /// A connection.
    type Stream: Stream + 'static;

    /// The next connection, and its client.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Stream, Peer)>> + Send;

    /// Closes a connection with what can be said without waiting.
    fn refuse_at_once(stream: Self::Stream) {
        drop(stream);
    }
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, Peer)> {
        let (stream, client) = Self::accept(self).await?;
        // Tokens are small writes: waiting to fill a segment would hold each back.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!("TCP_NODELAY: {error}");
        }
        Ok((stream, client.into()))
    }

    fn refuse_at_once(stream: TcpStream) {
        if let Ok(mut stream) = stream.into_std() {
            // What came so far is read first: closing on it would be a reset. The socket does not
            // block: whatever cannot be done now is left undone.
            let _ = stream.read(&mut [0; 4 << 10]);
            let _ = stream.write(answer(&too_many()).as_bytes());
        }
    }
}

/// Serves the connections of a listener for as long as this is polled. They go on when it is
/// dropped.
pub(crate) async fn accept<L: Listener>(
    listener: L,
    tls: Option<Arc<Tls>>,
    connections: Arc<Connections>,
    service: Router,
) {
    let (first, longest) = PAUSES;
    let mut pause = first;
    loop {
        match listener.accept().await {
            Ok((stream, client)) => {
                pause = first;
                let acceptor = tls.as_ref().map(|tls| tls.acceptor());
                match connections.admit(client) {
                    Some((place, ends)) => {
                        spawn(ends, serve(stream, acceptor, place, service.clone()));
                    }
                    None if acceptor.is_none() => refuse::<L>(&connections.refusing, stream),
                    // To say why would take a handshake, which is what there is no room for.
                    None => drop(stream),
                }
            }
            // The client left before it was accepted.
            Err(error)
                if matches!(
                    error.kind(),
                    ConnectionAborted | ConnectionReset | ConnectionRefused | Interrupted
                ) => {}
            Err(error) => {
                // Mostly no descriptors or no memory: others have to give some back first.
                if pause == first {
                    tracing::warn!("a connection could not be accepted: {error}");
                }
                connections.free_descriptor();
                sleep(pause).await;
                pause = (pause * 2).min(longest);
            }
        }
    }
}

/// Says that there are too many connections, in one of [`REFUSED_AT_ONCE`] places.
fn refuse<L: Listener>(places: &Arc<Semaphore>, stream: L::Stream) {
    if let Ok(place) = Arc::clone(places).try_acquire_owned() {
        tokio::spawn(async move {
            close(stream, Some(too_many()), true).await;
            drop(place);
        });
    } else {
        L::refuse_at_once(stream);
    }
}

/// Closes a connection, and says why. A client that may still be sending is listened to until it
/// ends: closing on what was not read would be a reset, which takes back what was said.
pub(super) async fn close(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    why: Option<Failure>,
    is_sending: bool,
) {
    let closing = async {
        let words = why.as_ref().map(answer).unwrap_or_default();
        stream.write_all(words.as_bytes()).await?;
        stream.shutdown().await?;
        let mut scratch = [0; 4 << 10];
        while is_sending && stream.read(&mut scratch).await? > 0 {}
        io::Result::Ok(())
    };
    // However it ends, the client had its chance.
    let _ = timeout(COURTESY, closing).await;
}

/// Returns why there is no place for a request or a connection.
pub(super) fn too_many() -> Failure {
    Failure::new(
        Cause::TooManyConnections,
        "the server has as many connections or requests as it can hold",
    )
}

fn answer(failure: &Failure) -> String {
    let body = dialect::error(&failure.view(None)).to_string();
    let status: StatusCode = failure.row().status;
    let retry = match failure.row().retry {
        Retry::After(seconds) => format!("retry-after: {seconds}\r\n"),
        _ => String::new(),
    };
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n{retry}\r\n{body}",
        body.len()
    )
}
