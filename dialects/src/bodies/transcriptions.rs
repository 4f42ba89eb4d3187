//! Fields of OpenAI's transcriptions, which come as a form or as JSON. Those of chat that are not
//! among them (`max_tokens`, `seed`, `top_p` ...) can be used as well.

use schemars::JsonSchema;

use crate::schema::Plain::{self, Only};

/// Fields of transcriptions.
#[derive(Debug, JsonSchema)]
pub struct Transcriptions {
    /// The sound: a WAV, MP3 or FLAC file. In JSON, its bytes as Base64.
    #[schemars(extend("x-own" = true, "x-words" = "a file", "contentEncoding" = "base64"))]
    pub file: String,
    /// The language of the sound, which the model is told.
    pub language: String,
    /// Context for the model: names, or what was said before.
    pub prompt: String,
    /// As in chat.
    #[schemars(range(min = 0, max = 2))]
    pub temperature: f32,
    /// Sends the transcript as events, while it is generated.
    pub stream: bool,
}

/// The others of that kind.
pub const PLAIN: &[Plain] = &[
    Only(
        "response_format",
        &[r#""json""#, r#""text""#],
        "`text` has the transcript as the body of the answer. When something was said is not known, so there is no `verbose_json`, `srt` or `vtt`.",
    ),
    Only(
        "timestamp_granularities",
        &["[]"],
        "When something was said is not known.",
    ),
    Only("include", &["[]"], "Chat has log probabilities."),
    Only(
        "chunking_strategy",
        &[r#""auto""#],
        "The model's projector says how a sound is cut.",
    ),
];
