//! The id of a request: the client's `x-request-id` if it is well formed, else a new one. It is
//! always sent back.

use std::{
    hash::{BuildHasher as _, Hasher as _, RandomState},
    sync::Arc,
};

use axum::{
    extract::Request,
    http::{HeaderMap, HeaderName, HeaderValue},
    middleware::Next,
    response::Response,
};

/// Header with the id, in requests and answers.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// Maximum length in bytes of a client's id.
const MAX_BYTES: usize = 128;

/// The id of a request, as an extension of the request.
#[derive(Clone, Debug)]
pub(crate) struct Id {
    pub(crate) text: Arc<str>,
    /// True if the server generated it, so that nobody can guess it.
    pub(crate) is_ours: bool,
}

/// Assigns an id to each request and its answer.
pub(crate) async fn layer(mut request: Request, next: Next) -> Response {
    let given = accepted(request.headers());
    let is_ours = given.is_none();
    let id = given.unwrap_or_else(random);
    request.extensions_mut().insert(Id {
        text: Arc::clone(&id),
        is_ours,
    });
    let mut response = next.run(request).await;
    let value = HeaderValue::from_str(&id).expect("ids are visible ASCII");
    response.headers_mut().insert(HEADER, value);
    response
}

/// Returns the client's id, if it is visible ASCII and not too long.
fn accepted(headers: &HeaderMap) -> Option<Arc<str>> {
    let id = headers.get(HEADER)?.to_str().ok()?;
    let well_formed =
        !id.is_empty() && id.len() <= MAX_BYTES && id.bytes().all(|byte| byte.is_ascii_graphic());
    well_formed.then(|| id.into())
}

/// Generates a unique id of 128 bits, each half from freshly keyed hashing.
fn random() -> Arc<str> {
    let half = || RandomState::new().build_hasher().finish();
    format!("req-{:016x}{:016x}", half(), half()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(id: &str) -> HeaderMap {
        HeaderMap::from_iter([(
            HEADER,
            HeaderValue::from_bytes(id.as_bytes()).expect("a header value"),
        )])
    }

    #[test]
    fn a_well_formed_id_of_the_client_is_kept() {
        assert_eq!(
            accepted(&headers("trace-1:a_b.c")).as_deref(),
            Some("trace-1:a_b.c")
        );
        for malformed in ["", "two words", "é", &"x".repeat(MAX_BYTES + 1)] {
            assert_eq!(accepted(&headers(malformed)), None, "{malformed:?}");
        }
    }

    #[test]
    fn ids_of_ours_differ_and_are_well_formed() {
        let (one, other) = (random(), random());
        assert_ne!(one, other);
        assert!(accepted(&headers(&one)).is_some());
    }
}
