//! Checks of the `Host` and `Origin` of requests. Without keys, the server trusts requests from its
//! machine or network, but a browser there also sends requests on behalf of foreign pages. Two
//! checks refuse those: after DNS rebinding, the host is not a name of this server; and a request
//! from a page of another site has that site's origin.

mod hosts;
mod origins;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    http::{HeaderName, Method, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

use crate::errors::{Cause, Failure, Result};
use hosts::{Destination, Hosts};
use origins::Origins;
pub(crate) use origins::checked as checked_origin;

/// The hosts and origins that a listener accepts.
#[derive(Debug)]
pub(crate) struct SitePolicy {
    hosts: Hosts,
    origins: Arc<Origins>,
}

impl SitePolicy {
    /// Creates the checks for a listener at `addresses`. `hosts` and `origins` are additional ones
    /// from the command line.
    pub(crate) fn new(addresses: &[SocketAddr], hosts: &[String], origins: &[String]) -> Self {
        let hosts = Hosts::new(addresses, hosts);
        let origins = Arc::new(Origins::new(origins));
        Self { hosts, origins }
    }

    /// Returns the layer that lets pages of allowed sites read answers; `None` if there are no such
    /// sites.
    pub(crate) fn cors(&self) -> Option<CorsLayer> {
        /// Time for which a browser caches the result of a preflight.
        const MAX_AGE: Duration = Duration::from_mins(10);
        if self.origins.is_empty() {
            return None;
        }
        let origins = Arc::clone(&self.origins);
        let allowed = move |origin: &header::HeaderValue, _: &_| {
            origin.to_str().is_ok_and(|origin| origins.allow(origin))
        };
        let readable = [
            "x-request-id",
            "request-id",
            "retry-after",
            "x-should-retry",
            "x-ignored-fields",
            "x-max-tokens",
            "server-timing",
            "x-ratelimit-limit-requests",
            "x-ratelimit-remaining-requests",
            "x-ratelimit-reset-requests",
            "x-ratelimit-limit-tokens",
            "x-ratelimit-remaining-tokens",
            "x-ratelimit-reset-tokens",
        ];
        Some(
            CorsLayer::new()
                .allow_origin(AllowOrigin::predicate(allowed))
                .allow_methods([Method::GET, Method::POST, Method::DELETE])
                .allow_headers(AllowHeaders::mirror_request())
                .allow_private_network(true)
                .expose_headers(readable.map(HeaderName::from_static))
                .max_age(MAX_AGE),
        )
    }

    fn check(&self, request: &Request) -> Result<()> {
        let asked = Destination::from_request(request)?;
        if let Some(foreign) = asked.names().find(|name| !self.hosts.include(name)) {
            let foreign = shown(foreign);
            let why = format!("this server is not `{foreign}`; `--allowed_hosts` adds names");
            return Err(Failure::new(Cause::ForeignHost, why));
        }
        let headers = request.headers();
        let reads = match *request.method() {
            Method::GET | Method::HEAD => true,
            // A preflight asks about the request that its page wants to send.
            Method::OPTIONS => !headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD),
            _ => false,
        };
        let origins = headers.get_all(header::ORIGIN);
        // A page can read an answer only if CORS permits it, and requests that only read do no
        // harm.
        for origin in origins.into_iter().filter(|_| !reads) {
            let origin = origin.to_str().unwrap_or("?");
            if !self.origins.allow(origin) && !asked.is_same_origin(origin) {
                let origin = shown(origin);
                let why = format!(
                    "pages of `{origin}` may not send requests; `--allowed_origins` allows more sites"
                );
                return Err(Failure::new(Cause::ForeignOrigin, why));
            }
        }
        Ok(())
    }
}

/// Shortens a text of a client for a message.
fn shown(text: &str) -> String {
    const CHARACTERS: usize = 64;
    text.chars().take(CHARACTERS).collect()
}

/// Refuses requests for another host, or from a page that is not allowed.
pub(crate) async fn layer(
    State(site): State<Arc<SitePolicy>>,
    request: Request,
    next: Next,
) -> Response {
    match site.check(&request) {
        Ok(()) => next.run(request).await,
        Err(failure) => failure.into_response(),
    }
}
