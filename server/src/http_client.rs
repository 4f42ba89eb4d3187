//! The HTTP client of the program: for images that requests name, keys of issuers, models of a hub,
//! and servers that the command line asks.

use std::{error::Error, io, iter::successors};

use reqwest::{Certificate, ClientBuilder, Url, redirect::Policy};
use rustls::crypto::ring;

/// Begins a client that goes where it is told and nowhere else: it follows no redirects and uses no
/// proxy. For https it trusts the certificates of the system, or those in `SSL_CERT_FILE`.
pub(crate) fn builder() -> ClientBuilder {
    plain_builder().no_proxy()
}

fn plain_builder() -> ClientBuilder {
    // Fails where a program that this server is a part of has chosen another provider.
    let _ = ring::default_provider().install_default();
    ClientBuilder::new().redirect(Policy::none())
}

/// Begins a client for one address. Certificates of the system are needed for https alone.
pub(crate) fn builder_for(url: &Url) -> ClientBuilder {
    trusting(builder(), url)
}

/// Begins the same through the proxies that `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` say: for what
/// is fetched from the world outside.
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

/// Returns true if the certificate of a server is refused.
pub(crate) fn refuses_certificate(error: &reqwest::Error) -> bool {
    let mut causes = successors(error.source(), |&cause| cause.source());
    causes.any(|cause| {
        let cause = innermost(cause).downcast_ref();
        matches!(cause, Some(rustls::Error::InvalidCertificate(_)))
    })
}

/// The error inside of errors of input and output, which hide it from who asks for their cause.
fn innermost<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let inner = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref);
    inner.map_or(error, |inner| innermost(inner))
}

/// Returns the causes of an error, without the URL, which the reader knows.
pub(crate) fn reason(error: &reqwest::Error) -> String {
    let causes = successors(error.source(), |&cause| cause.source());
    let mut causes: Vec<String> = causes.map(ToString::to_string).collect();
    // The place in the library says less than its cause.
    if causes.len() > 1 {
        causes.retain(|cause| !cause.starts_with("client error"));
    }
    if causes.is_empty() {
        error.to_string()
    } else {
        causes.join(": ")
    }
}
