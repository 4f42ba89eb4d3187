//! Fields of OpenAI's transcriptions, which come as a form or as JSON. Fields of chat can be used, too.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::schema::Plain;

/// Fields of `audio/transcriptions` requests.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Transcriptions {
    /// Sound as a WAV, MP3 or FLAC file. In JSON, its bytes in Base64.
    #[schemars(extend("x-words" = "a file", "contentEncoding" = "base64"))]
    pub file: Option<String>,
    /// Language of the sound, which is passed to the model.
    pub language: String,
    /// Context for the model, such as names or the earlier transcript.
    pub prompt: String,
}

/// Fields of chat that are also listed here.
pub const LISTED: &[&str] = &["temperature", "stream"];
/// Fields of chat that transcriptions do not have.
pub const WITHOUT: &[&str] = &["messages", "tools", "tool_choice", "n"];

/// Fields of transcriptions that need no reading.
pub const PLAIN: &[Plain] = &plain! {
    /// With `text`, the body of the answer is the transcript. The times of words are unknown, so there is no `verbose_json`, `srt` or `vtt`.
    "response_format": Only(&[r#""json""#, r#""text""#]),
    /// The times of words are unknown.
    "timestamp_granularities": Only(&["[]"]),
    /// Log probabilities are available in `chat/completions`.
    "include": Only(&["[]"]),
    /// The model's projector decides how a sound is cut.
    "chunking_strategy": Only(&[r#""auto""#]),
};
