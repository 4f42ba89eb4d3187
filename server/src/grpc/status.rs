//! Failures as gRPC statuses, which are sent in the trailers of an answer, or in its head if it has
//! no body.

use std::{error::Error as _, sync::Arc};

use axum::{
    body::Body,
    extract::Request,
    http::{HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use tonic::{Code, Status};

use crate::errors::{Cause, Failure};

/// Media type of answers, and prefix of the media type of requests.
const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/grpc");

/// Returns the gRPC code of a cause. Where OpenVINO Model Server and Triton have a code for it,
/// this is the same.
fn code(cause: Cause) -> Code {
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

impl From<Failure> for Status {
    fn from(failure: Failure) -> Self {
        let mut status = Self::new(code(failure.cause), failure.message.as_str());
        status.set_source(Arc::new(failure));
        status
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        read(&status).unwrap_or_else(|| Self::new(Cause::BadRequest, status.message()))
    }
}

/// Returns the failure in a status: one of this server, or one of tonic about a message.
fn read(status: &Status) -> Option<Failure> {
    let source = status.source().and_then(|source| source.downcast_ref());
    let cause = match status.code() {
        _ if source.is_some() => return source.cloned(),
        Code::Internal => Cause::BadRequest,
        Code::ResourceExhausted => {
            let why = format!("{} (--max_body_bytes)", status.message());
            return Some(Failure::new(Cause::BodyTooLarge, why));
        }
        Code::Unimplemented => Cause::UnknownEncoding,
        _ => return None,
    };
    Some(Failure::new(cause, status.message()))
}

/// Converts failures of all layers into gRPC statuses, and refuses requests that are not gRPC.
pub(crate) async fn layer(request: Request, next: Next, rest_port: u16) -> Response {
    let media_type = request.headers().get(header::CONTENT_TYPE);
    let is_grpc = media_type.is_some_and(|it| it.as_bytes().starts_with(MEDIA_TYPE.as_bytes()));
    if !is_grpc {
        let why =
            format!("this port speaks gRPC; the REST API is at port {rest_port} (`--rest_port`)\n");
        return (StatusCode::UNSUPPORTED_MEDIA_TYPE, why).into_response();
    }
    let mut response = next.run(request).await;
    if let Some(failure) = response.extensions().get().and_then(read) {
        response = failure.into_response();
    }
    let Some(failure) = response.extensions().get::<Failure>() else {
        return response;
    };
    let status = Status::from(failure.clone());
    let (mut parts, _) = response.into_parts();
    parts.status = StatusCode::OK;
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.insert(header::CONTENT_TYPE, MEDIA_TYPE);
    // Fails for metadata that is not a valid header, but there is none.
    let _ = status.add_header(&mut parts.headers);
    Response::from_parts(parts, Body::empty())
}
