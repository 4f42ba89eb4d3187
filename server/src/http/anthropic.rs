//! What of the server itself Anthropic's clients read in a form of their own: the list of models.

use axum::http::HeaderMap;
use chrono::{DateTime, SecondsFormat};
use serde_json::{Value, json};

use crate::http::openai::models::Model;

/// Whether a request comes from such a client: all of them say the version that they speak.
pub(super) fn is_asked(headers: &HeaderMap) -> bool {
    headers.contains_key("anthropic-version")
}

/// All models, which are one page.
pub(super) fn list(models: &[Model<'_>]) -> Value {
    json!({
        "data": models.iter().map(object).collect::<Vec<_>>(),
        "has_more": false,
        "first_id": models.first().map(Model::id),
        "last_id": models.last().map(Model::id),
    })
}

pub(super) fn object(model: &Model<'_>) -> Value {
    let since = DateTime::from_timestamp(model.since.cast_signed(), 0).unwrap_or_default();
    json!({
        "type": "model",
        "id": model.id(),
        "display_name": model.id(),
        "created_at": since.to_rfc3339_opts(SecondsFormat::Secs, true),
    })
}
