//! Fields of OpenAI's transcriptions, which come as a form or as JSON. Those of chat that have no
//! row here (`max_tokens`, `seed`, `top_p` ...) can be used as well.

use super::super::fields::code::{MISSING, TYPE, UNSUPPORTED};
use super::{Field, Form, TRANSCRIPTIONS, field, refused};

const EACH: &[&str] = &[TRANSCRIPTIONS];

pub(super) const FIELDS: &[Field] = &[
    field("file", EACH, Form::Own("a file"), "The sound: a WAV, MP3 or FLAC file. In JSON, its bytes as Base64.").refusing(&[
        refused(r#"{"file": null}"#, "file", MISSING),
        refused(r#"{"file": 5}"#, "file", TYPE),
        refused(r#"{"file": "A*A="}"#, "file", "invalid_audio"),
        refused(r#"{"file": "AAAA"}"#, "file", "invalid_audio"),
    ]),
    field("language", EACH, Form::Text, "The language of the sound, which the model is told."),
    field("prompt", EACH, Form::Text, "What the model is told besides: names, or what was said before."),
    field(
        "response_format",
        EACH,
        Form::Only(&[r#""json""#, r#""text""#]),
        "`text` has the transcript as the body of the answer. When something was said is not known, so there is no `verbose_json`, `srt` or `vtt`.",
    )
    .refusing(&[
        refused(r#"{"response_format": "verbose_json"}"#, "response_format", UNSUPPORTED),
        refused(r#"{"response_format": "srt"}"#, "response_format", UNSUPPORTED),
    ]),
    field("temperature", EACH, Form::Number(0.0, 2.0), "As in chat."),
    field("stream", EACH, Form::Boolean, "Sends the transcript as events, while it is generated."),
    field("timestamp_granularities", EACH, Form::Only(&["[]"]), "When something was said is not known."),
    field("include", EACH, Form::Only(&["[]"]), "Chat has log probabilities."),
    field("chunking_strategy", EACH, Form::Only(&[r#""auto""#]), "The model's projector says how a sound is cut."),
];
