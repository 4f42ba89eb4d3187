//! Failures as gRPC statuses, which are in the trailers of an answer, or in its head if it has no
//! body.

use axum::{
    body::Body,
    extract::Request,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use tonic::{Code, Status};

use crate::errors::{Cause, Failure};

/// The media type of answers, and how those of requests begin.
pub(super) const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/grpc");

/// The code of a failure: where KServe's clients know what OpenVINO Model Server and Triton answer,
/// the same.
pub(super) fn code(cause: Cause) -> Code {
    match cause {
        Cause::BadRequest | Cause::ContextLength => Code::InvalidArgument,
        Cause::UnknownModel | Cause::NotFound => Code::NotFound,
        Cause::UnknownRoute | Cause::WrongMethod | Cause::UnknownEncoding | Cause::Unsupported => {
            Code::Unimplemented
        }
        Cause::BodyTooLarge | Cause::QueueFull | Cause::RateLimited => Code::ResourceExhausted,
        Cause::NoKey => Code::Unauthenticated,
        Cause::Forbidden | Cause::ForeignHost | Cause::ForeignOrigin => Code::PermissionDenied,
        Cause::LateRequest | Cause::Deadline => Code::DeadlineExceeded,
        // The same request fails again until an operator intervenes.
        Cause::GraphFailed => Code::FailedPrecondition,
        Cause::Loading
        | Cause::Draining
        | Cause::Unavailable
        | Cause::BodiesFull
        | Cause::NoMemory
        | Cause::TooManyConnections => Code::Unavailable,
        Cause::Cancelled => Code::Cancelled,
        Cause::NodeFailed | Cause::NoAnswer | Cause::Panic => Code::Internal,
    }
}

/// The trailers of an answer that ends so.
pub(super) fn trailers(failure: Option<&Failure>) -> HeaderMap {
    let status = match failure {
        None => Status::ok(""),
        Some(failure) => Status::new(code(failure.cause), failure.message.as_str()),
    };
    let mut trailers = HeaderMap::new();
    // Fails for metadata that is no header, and there is none.
    let _ = status.add_header(&mut trailers);
    trailers
}

/// Turns every failure into a gRPC status, in whatever layer it arose; refuses other requests.
pub(crate) async fn layer(request: Request, next: Next, rest_port: u16) -> Response {
    let media_type = request.headers().get(header::CONTENT_TYPE);
    let is_grpc = media_type.is_some_and(|it| it.as_bytes().starts_with(MEDIA_TYPE.as_bytes()));
    if !is_grpc {
        let why =
            format!("this port speaks gRPC; the REST API is at port {rest_port} (`--rest_port`)\n");
        return (StatusCode::UNSUPPORTED_MEDIA_TYPE, why).into_response();
    }
    let response = next.run(request).await;
    let Some(failure) = response.extensions().get::<Failure>() else {
        return response;
    };
    let trailers = trailers(Some(failure));
    let (mut parts, _) = response.into_parts();
    parts.status = StatusCode::OK;
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.insert(header::CONTENT_TYPE, MEDIA_TYPE);
    parts.headers.extend(trailers);
    Response::from_parts(parts, Body::empty())
}
