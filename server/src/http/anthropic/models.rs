//! Models as Anthropic's clients read them.

use chrono::{DateTime, SecondsFormat};
use serde_json::{Value, json};

use crate::http::openai::models::Model;

/// All models, which are one page.
pub(in crate::http) fn list(models: &[Model<'_>]) -> Value {
    json!({
        "data": models.iter().map(object).collect::<Vec<_>>(),
        "has_more": false,
        "first_id": models.first().map(Model::id),
        "last_id": models.last().map(Model::id),
    })
}

pub(in crate::http) fn object(model: &Model<'_>) -> Value {
    let since = DateTime::from_timestamp(model.since.cast_signed(), 0).unwrap_or_default();
    json!({
        "type": "model",
        "id": model.id(),
        "display_name": model.id(),
        "created_at": since.to_rfc3339_opts(SecondsFormat::Secs, true),
    })
}
