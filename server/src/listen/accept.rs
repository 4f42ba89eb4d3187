//! Accepts connections, and survives all errors.

use std::{io, sync::Arc, time::Duration};

use axum::Router;
use tokio::{
    net::{TcpListener, TcpSocket},
    time::sleep,
};

use super::{
    connections::Connections,
    refusal::refuse,
    serve::{serve, spawn},
    tls::Tls,
};

/// Connections that may wait to be accepted, if the system allows as many (`net.core.somaxconn`).
/// One that finds no place tries again after a second.
const BACKLOG: u32 = 4_096;

/// The first and the longest pause after the system could not give a connection.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

/// As [`TcpListener::bind`], which has room for 128 that wait.
pub(crate) fn listen(address: std::net::SocketAddr) -> io::Result<TcpListener> {
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

/// Serves the connections of a listener for as long as this is polled. They go on when it is
/// dropped.
pub(crate) async fn accept(
    listener: TcpListener,
    tls: Option<Arc<Tls>>,
    connections: Arc<Connections>,
    service: Router,
) {
    let (first, longest) = PAUSES;
    let mut pause = first;
    loop {
        let error = match listener.accept().await {
            Ok((stream, client)) => {
                pause = first;
                let acceptor = tls.as_ref().map(|tls| tls.acceptor());
                match connections.admit(client.into()) {
                    Some((place, ends)) => {
                        spawn(ends, serve(stream, acceptor, place, service.clone()));
                    }
                    None if acceptor.is_none() => refuse(&connections.refusing, stream),
                    // To say why would take a handshake, which is what there is no room for.
                    None => drop(stream),
                }
                continue;
            }
            Err(error) => error,
        };
        if is_of_the_client(&error) {
            continue;
        }
        // Mostly no descriptors or no memory: others have to give some back first.
        if pause == first {
            tracing::warn!("a connection could not be accepted: {error}");
        }
        connections.free_descriptor();
        sleep(pause).await;
        pause = (pause * 2).min(longest);
    }
}

/// Whether the client left before it was accepted.
fn is_of_the_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}
