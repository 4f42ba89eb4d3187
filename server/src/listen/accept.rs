//! Accepts connections or refuses them, and survives all errors.

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

/// Maximum number of connections that wait to be accepted, if the system allows it
/// (`net.core.somaxconn`). A client above it tries again after a second.
const BACKLOG: u32 = 4_096;

/// First and longest pause after the system failed to accept a connection.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

/// Maximum number of connections being refused at the same time. Each needs a descriptor and a task
/// for up to [`COURTESY`]. Further ones are refused without waiting for the client.
pub(super) const REFUSED_AT_ONCE: usize = 64;

/// Maximum time for a client to read why its connection is closed.
const COURTESY: Duration = Duration::from_secs(1);

/// Listens like [`TcpListener::bind`], but with a longer queue than 128.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    // Allows a restart while connections of the last server are closing. On other systems it would
    // let two servers listen.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// A source of connections, such as a TCP listener.
pub(crate) trait Listener: Send + Sync + 'static {
    /// Connection: over TCP, or over a Unix socket.
    type Stream: Stream + 'static;

    /// Waits for the next connection. Returns it with its client.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Stream, Peer)>> + Send;

    /// Closes a connection after sending what fits without waiting.
    fn refuse_at_once(stream: Self::Stream) {
        drop(stream);
    }
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, Peer)> {
        let (stream, client) = Self::accept(self).await?;
        // Tokens are small writes. Waiting for a full segment would delay each.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!("TCP_NODELAY: {error}");
        }
        Ok((stream, client.into()))
    }

    fn refuse_at_once(stream: TcpStream) {
        if let Ok(mut stream) = stream.into_std() {
            // Received bytes are read first, as closing would reset the connection otherwise. The
            // socket does not block; the rest is left undone.
            let _ = stream.read(&mut [0; 4 << 10]);
            let _ = stream.write(answer(&too_many()).as_bytes());
        }
    }
}

/// Accepts the connections of a listener until it is dropped. Accepted connections continue after
/// that.
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
                    // An explanation would need a TLS handshake, for which there are no resources.
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
                // Usually out of descriptors or memory, which other connections must release first.
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

/// Refuses a connection with an explanation, in one of [`REFUSED_AT_ONCE`] places.
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

/// Closes a connection with an explanation. If the client may still be sending, its bytes are read
/// to the end: unread bytes would reset the connection, and the explanation would be lost.
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
    // The client had its time, no matter how this ends.
    let _ = timeout(COURTESY, closing).await;
}

/// Returns the failure for a request or connection above the limit.
pub(super) fn too_many() -> Failure {
    let why = "the server has reached its limit of connections or requests";
    Failure::new(Cause::TooManyConnections, why)
}

fn answer(failure: &Failure) -> String {
    let body = dialect::error(&failure.view(None)).to_string();
    let status: StatusCode = failure.row().status;
    let retry = match failure.row().retry {
        Retry::After(seconds) => format!("retry-after: {seconds}\r\n"),
        _ => String::new(),
    };
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n{retry}\r\n{body}"
    )
}
