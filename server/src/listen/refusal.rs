//! Answers of the listener itself, to connections that do not become a request.

use std::{
    io::{self, Read as _, Write as _},
    sync::Arc,
    time::Duration,
};

use axum::http::StatusCode;
use graphmill_calculators::http::dialect;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
    sync::Semaphore,
    time::timeout,
};

use crate::errors::{Cause, Failure, Retry};

/// Connections that are being refused at the same time: each has a descriptor and a task for up to
/// [`COURTESY`]. More are told at once, whether or not they can read it.
pub(super) const AT_ONCE: usize = 64;

/// How long a client may take to read why its connection ends.
const COURTESY: Duration = Duration::from_secs(1);

/// Says that there are too many connections, in one of [`AT_ONCE`] places.
pub(super) fn refuse(places: &Arc<Semaphore>, stream: TcpStream) {
    let full = answer(&too_many());
    if let Ok(place) = Arc::clone(places).try_acquire_owned() {
        tokio::spawn(async move {
            say(stream, &full, true).await;
            drop(place);
        });
    } else if let Ok(mut stream) = stream.into_std() {
        // What came so far is read first: closing on it would be a reset. The socket does not block:
        // whatever cannot be done now is left undone.
        let _ = stream.read(&mut [0; 4 << 10]);
        let _ = stream.write(full.as_bytes());
    }
}

/// Says that a head did not come in time.
pub(super) async fn refuse_late_head(stream: impl AsyncRead + AsyncWrite + Unpin) {
    let why = "the request's head was not complete in time";
    say(
        stream,
        &answer(&Failure::new(Cause::LateRequest, why)),
        false,
    )
    .await;
}

/// Says the last words to a client and closes its connection. One that may still be `sending` is
/// listened to until it ends, as closing on what was not read would be a reset, which takes back
/// what was said.
pub(super) async fn say(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    words: &str,
    sending: bool,
) {
    let closing = async {
        stream.write_all(words.as_bytes()).await?;
        stream.shutdown().await?;
        let mut scratch = [0; 4 << 10];
        while sending && stream.read(&mut scratch).await? > 0 {}
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
    let row = failure.row();
    let body = dialect::error(&failure.view(None)).to_string();
    let status: StatusCode = row.status;
    let retry = match row.retry {
        Retry::After(seconds) => format!("retry-after: {seconds}\r\n"),
        _ => String::new(),
    };
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n{retry}\r\n{body}",
        body.len()
    )
}
