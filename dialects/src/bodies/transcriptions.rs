//! Fields of OpenAI's transcriptions, which come as a form or as JSON, beside which those of chat
//! can be used.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::schema::Plain;

/// Fields of transcriptions.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Transcriptions {
    /// The sound: a WAV, MP3 or FLAC file. In JSON, its bytes as Base64.
    #[schemars(extend("x-words" = "a file", "contentEncoding" = "base64"))]
    pub file: Option<String>,
    /// The language of the sound, which the model is told.
    pub language: String,
    /// Context for the model: names, or what was said before.
    pub prompt: String,
}

/// Fields of chat that are listed here, too.
pub const LISTED: &[&str] = &["temperature", "stream"];
/// Fields of chat that it does not have.
pub const WITHOUT: &[&str] = &["messages", "tools", "tool_choice", "n"];

/// The others of that kind.
pub const PLAIN: &[Plain] = &plain! {
    /// `text` has the transcript as the body of the answer. When something was said is not known,
    /// so there is no `verbose_json`, `srt` or `vtt`.
    "response_format": Only(&[r#""json""#, r#""text""#]),
    /// When something was said is not known.
    "timestamp_granularities": Only(&["[]"]),
    /// Chat has log probabilities.
    "include": Only(&["[]"]),
    /// The model's projector says how a sound is cut.
    "chunking_strategy": Only(&[r#""auto""#]),
};
