//! Sends spans over HTTP. The thread that batches spans has no runtime, but the HTTP client needs
//! one.

use std::{fmt, future::Future, pin::Pin, time::Duration};

use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response, hyper::HyperClient};
use tokio::runtime::Handle;

/// A client whose requests run on the server's runtime.
pub(super) struct SpanClient {
    client: HyperClient,
    runtime: Handle,
}

impl SpanClient {
    /// Creates a client in the runtime of the caller.
    pub(super) fn new(timeout: Duration) -> Self {
        Self {
            client: HyperClient::with_default_connector(timeout, None),
            runtime: Handle::current(),
        }
    }
}

impl fmt::Debug for SpanClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpanClient").finish_non_exhaustive()
    }
}

impl HttpClient for SpanClient {
    fn send_bytes<'client, 'answer>(
        &'client self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'answer>>
    where
        'client: 'answer,
        Self: 'answer,
    {
        let client = self.client.clone();
        let sending = async move { client.send_bytes(request).await };
        let sent = self.runtime.spawn(sending);
        Box::pin(async move { sent.await? })
    }
}
