//! Answers of the listener itself, to connections that do not become a request: fixed bytes.

use std::{
    io::{Read as _, Write as _},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use axum::http::StatusCode;
use bytes::Bytes;
use graphmill_calculators::http::dialect;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::errors::{Cause, Failure, Retry};

/// Connections that are being refused at the same time: each has a descriptor and a task for up to
/// [`COURTESY`]. More are told at once, whether or not they can read it.
const AT_ONCE: usize = 64;

/// How long a client may take to read that it is refused.
const COURTESY: Duration = Duration::from_secs(1);

/// The answers.
pub(super) struct Refusals {
    /// To a head that is not complete in time.
    pub(super) late_head: Bytes,
    full: Bytes,
    refusing: AtomicUsize,
}

impl Refusals {
    pub(super) fn new() -> Self {
        Self {
            late_head: answer(&Failure::new(
                Cause::LateRequest,
                "the request's head was not complete in time",
            )),
            full: answer(&too_many()),
            refusing: AtomicUsize::new(0),
        }
    }

    /// Says that there are too many connections.
    pub(super) fn refuse(self: &Arc<Self>, mut stream: TcpStream) {
        if self.refusing.load(Relaxed) >= AT_ONCE {
            self.dismiss(stream);
            return;
        }
        self.refusing.fetch_add(1, Relaxed);
        let this = Arc::clone(self);
        tokio::spawn(async move {
            let refusal = async {
                stream.write_all(&this.full).await?;
                stream.shutdown().await?;
                let mut scratch = [0; 4 << 10];
                // Closing on what was not read would be a reset, which takes the answer back.
                while stream.read(&mut scratch).await? > 0 {}
                std::io::Result::Ok(())
            };
            // However it ends, the client had its chance.
            let _ = timeout(COURTESY, refusal).await;
            this.refusing.fetch_sub(1, Relaxed);
        });
    }

    /// The same without waiting. What came so far is read first: closing on it would be a reset.
    fn dismiss(&self, stream: TcpStream) {
        if let Ok(mut stream) = stream.into_std() {
            // The socket does not block: whatever cannot be done now is left undone.
            let _ = stream.read(&mut [0; 4 << 10]);
            let _ = stream.write(&self.full);
        }
    }
}

/// Why there is no place for a request or a connection.
pub(super) fn too_many() -> Failure {
    Failure::new(
        Cause::TooManyConnections,
        "the server has as many connections or requests as it can hold",
    )
}

fn answer(failure: &Failure) -> Bytes {
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
    .into()
}
