//! The HTTP client of tests.

use rustls::crypto::ring;

/// Returns a client with connections of its own.
pub(crate) fn client() -> reqwest::Client {
    // Fails where it is installed already.
    let _ = ring::default_provider().install_default();
    reqwest::Client::new()
}
