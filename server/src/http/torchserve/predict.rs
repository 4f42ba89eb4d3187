//! `POST /predictions/{name}`: runs a graph. The body is its input, or a form or JSON object with
//! the input and parameters. The output is the body of the answer.

use std::io;

use axum::{
    body::Body,
    extract::{Path, State},
    http::{HeaderMap, HeaderName, header},
    response::IntoResponse as _,
};
use bytes::Bytes;
use futures_util::TryStreamExt as _;
use graphmill_calculators::payload::{JsonBody, without_mark};
use graphmill_dialects::json::MAX_FIELDS;
use graphmill_engine::block_on;

use crate::{
    errors::Result,
    http::{
        AppState, HttpResult,
        graph::body::{boundary, parts, too_many_fields},
        request::RequestBody,
        timings::SERVER_TIMING,
    },
    run::RequestContext,
    torchserve::{
        self, PartKind, PredictionBody, PredictionRequest, RequestPart, collect, fields, models,
    },
};

/// Headers that forbid caching, which TorchServe sends with every answer.
const NOT_KEPT: [(HeaderName, &str); 3] = [
    (header::PRAGMA, "no-cache"),
    (
        header::CACHE_CONTROL,
        "no-cache; no-store, must-revalidate, private",
    ),
    (header::EXPIRES, "Thu, 01 Jan 1970 00:00:00 UTC"),
];

pub(super) async fn predict(
    State(app): AppState,
    who: RequestContext,
    Path(path): Path<String>,
    headers: HeaderMap,
    RequestBody { bytes, share }: RequestBody,
) -> HttpResult {
    let (name, version) = models::named(&who, &path);
    let read = move || read(&headers, bytes);
    let request = PredictionRequest {
        name: name.to_owned(),
        version: version.to_owned(),
        parts: share.beside(read, "the body could not be read").await??,
        streams: None,
    };
    let prediction = torchserve::predict(&app, &who, request, &share).await?;
    let timing = [(SERVER_TIMING, who.entry.server_timing())];
    let body = match prediction.body {
        PredictionBody::Whole(bytes) => Body::from(bytes),
        // A truncated body is not a complete text.
        PredictionBody::Pieces(pieces) => {
            Body::from_stream(pieces.map_err(|failure| io::Error::other(failure.message)))
        }
    };
    let content_type = [(header::CONTENT_TYPE, prediction.media_type)];
    Ok((NOT_KEPT, timing, content_type, prediction.headers, body).into_response())
}

/// Splits a body into its parts.
fn read(headers: &HeaderMap, body: Bytes) -> Result<Vec<RequestPart>> {
    let content_type = headers.get(header::CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok());
    let media_type = content_type.unwrap_or_default().split(';').next();
    let media_type = media_type.unwrap_or_default().trim();
    if let Some(boundary) = boundary(headers)? {
        // The whole body is in memory, so this does not block.
        let parts = block_on(parts(body, boundary))?.into_iter();
        let parts = parts.map(|part| RequestPart {
            name: part.name,
            kind: part
                .media_type
                .map_or(PartKind::Text, |it| PartKind::from_media_type(&it)),
            bytes: part.bytes,
        });
        return collect(parts, MAX_FIELDS).ok_or_else(too_many_fields);
    }
    if media_type.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        let fields = form_urlencoded::parse(&body).map(|(name, text)| RequestPart {
            name: name.into_owned(),
            kind: PartKind::Text,
            bytes: text.into_owned().into(),
        });
        return collect(fields, MAX_FIELDS).ok_or_else(too_many_fields);
    }
    let kind = PartKind::from_media_type(media_type);
    if kind == PartKind::Json && without_mark(&body).trim_ascii_start().starts_with(b"{") {
        return Ok(fields(&JsonBody::scan(body.clone())?, &body));
    }
    Ok(vec![RequestPart::body(kind, body)])
}
