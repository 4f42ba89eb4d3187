//! OpenAI's error object, as an answer and as an event.

use axum::{
    Json,
    http::{HeaderName, HeaderValue, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use crate::{
    http::encoding,
    rescue::{Cause, Failure, Retry},
};

/// `{"error": {"message", "type", "param", "code"}}`, with the node that failed under `error.graph`.
pub(crate) fn object(failure: &Failure) -> Value {
    let mut error = json!({
        "message": failure.message,
        "type": failure.row().kind,
        "param": failure.param,
        "code": failure.code(),
    });
    if let Some(node) = &failure.node {
        error["graph"] = json!({ "node": &**node });
    }
    json!({ "error": error })
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let row = self.row();
        let mut response = (row.status, Json(object(&self))).into_response();
        match row.retry {
            Retry::Implied => {}
            Retry::After(seconds) => {
                response
                    .headers_mut()
                    .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
            }
            Retry::Never => {
                let name = HeaderName::from_static("x-should-retry");
                response
                    .headers_mut()
                    .insert(name, HeaderValue::from_static("false"));
            }
        }
        if self.cause == Cause::UnknownEncoding {
            let read = HeaderValue::from_static(encoding::READ);
            response.headers_mut().insert(header::ACCEPT_ENCODING, read);
        }
        // For layers that tell it in another form.
        response.extensions_mut().insert(self);
        response
    }
}
