//! Failures as HTTP responses, in OpenAI's form. The layer of dialects rewrites them for paths with
//! another form.

use axum::{
    Json,
    http::{HeaderName, HeaderValue, header},
    response::{IntoResponse, Response},
};
use graphmill_calculators::http::dialect;

use super::{Cause, ENCODINGS, Failure, Retry};

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let row = self.row();
        let mut response = (row.status, Json(dialect::error(&self.view(None)))).into_response();
        let headers = response.headers_mut();
        match self.retry() {
            Retry::Implied => {}
            Retry::After(seconds) => {
                headers.insert(header::RETRY_AFTER, seconds.into());
            }
            Retry::Never => {
                let name = HeaderName::from_static("x-should-retry");
                headers.insert(name, HeaderValue::from_static("false"));
            }
        }
        if self.cause == Cause::NoKey {
            let scheme = match self.code() {
                Some("invalid_token") => {
                    let why = self.message.replace(['`', '"'], "");
                    format!("Bearer error=\"invalid_token\", error_description=\"{why}\"")
                }
                _ => "Bearer".to_owned(),
            };
            // The header contains no part of the token.
            if let Ok(scheme) = HeaderValue::try_from(scheme) {
                headers.insert(header::WWW_AUTHENTICATE, scheme);
            }
        }
        if self.cause == Cause::UnknownEncoding {
            let read = HeaderValue::from_static(ENCODINGS);
            headers.insert(header::ACCEPT_ENCODING, read);
        }
        // For layers that rewrite it in another form.
        response.extensions_mut().insert(self);
        response
    }
}
