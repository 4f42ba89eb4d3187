//! The HTTP client of the program, for images of requests, keys of issuers, models of a hub, and
//! servers that the command line queries.

use std::{error::Error, io, iter::successors};

use reqwest::{Certificate, ClientBuilder, Url, redirect::Policy};
use rustls::crypto::ring;

/// Creates the builder of a client that follows no redirects and uses no proxy. For https it trusts
/// the certificates of the system, or the ones in `SSL_CERT_FILE`.
pub(crate) fn builder() -> ClientBuilder {
    plain_builder().no_proxy()
}

fn plain_builder() -> ClientBuilder {
    // Fails if a program that embeds this server has installed another provider.
    let _ = ring::default_provider().install_default();
    ClientBuilder::new().redirect(Policy::none())
}

/// Creates the builder of a client for one URL. It loads the system's certificates only for https.
pub(crate) fn builder_for(url: &Url) -> ClientBuilder {
    trusting(builder(), url)
}

/// Creates the builder of a client that uses the proxies in `HTTPS_PROXY`, `HTTP_PROXY` and
/// `NO_PROXY`, for downloads from the Internet.
pub(crate) fn builder_through_proxies(url: &Url) -> ClientBuilder {
    trusting(plain_builder(), url)
}

fn trusting(builder: ClientBuilder, url: &Url) -> ClientBuilder {
    if url.scheme() == "https" {
        builder
    } else {
        builder.tls_certs_only(None::<Certificate>)
    }
}

/// Returns true if the certificate of a server was refused.
pub(crate) fn refuses_certificate(error: &reqwest::Error) -> bool {
    let mut causes = successors(error.source(), |&cause| cause.source());
    causes.any(|cause| {
        let cause = innermost(cause).downcast_ref();
        matches!(cause, Some(rustls::Error::InvalidCertificate(_)))
    })
}

/// Returns the error inside of IO errors, which do not report it as their source.
fn innermost<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let inner = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref);
    inner.map_or(error, |inner| innermost(inner))
}

/// Formats the causes of an error, without the URL, which callers add where it helps.
pub(crate) fn reason(error: &reqwest::Error) -> String {
    let causes = successors(error.source(), |&cause| cause.source());
    let mut causes: Vec<String> = causes.map(ToString::to_string).collect();
    // The place in the library is less useful than its cause.
    if causes.len() > 1 {
        causes.retain(|cause| !cause.starts_with("client error"));
    }
    if causes.is_empty() {
        error.to_string()
    } else {
        causes.join(": ")
    }
}
