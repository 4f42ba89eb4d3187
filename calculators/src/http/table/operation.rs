//! Fields about how a request is run, and who sent it.

use super::super::fields::code::{TYPE, VALUE};
use super::{BOTH, Field, Form, field, refused};

pub(super) const FIELDS: &[Field] = &[
    field("model", BOTH, Form::Own("a string"), "The name of the graph that answers.").refusing(&[
        refused(r#"{"model": null}"#, "model", "missing_required_parameter"),
        refused(r#"{"model": 5}"#, "model", TYPE),
        refused(r#"{"model": ["m"]}"#, "model", TYPE),
        refused(r#"{"model": ""}"#, "model", VALUE),
    ]),
    field("stream", BOTH, Form::Boolean, "Sends the answer as a stream of events."),
    field(
        "stream_options",
        BOTH,
        Form::Object,
        "With `stream`: `include_usage` ends the stream with token counts, `continuous_usage_stats` has them in every event. \
         `include_obfuscation` has no effect.",
    )
    .refusing(&[
        refused(r#"{"stream_options": {"include_usage": true}}"#, "stream_options", VALUE),
        refused(r#"{"stream": true, "stream_options": {"include_usage": 1}}"#, "stream_options.include_usage", TYPE),
        refused(r#"{"stream": true, "stream_options": {"continuous_usage_stats": "yes"}}"#, "stream_options.continuous_usage_stats", TYPE),
        refused(r#"{"stream": true, "stream_options": {"include_obfuscation": []}}"#, "stream_options.include_obfuscation", TYPE),
        refused(r#"{"stream": true, "stream_options": {"something": true}}"#, "stream_options.something", "unsupported_parameter"),
    ]),
    field("timeout", BOTH, Form::Above(0.0), "Seconds after which the request fails with status 504, or with an event where the stream has begun. The header `x-request-timeout-ms` says the same in milliseconds; the shorter counts."),
    field("priority", BOTH, Form::Integer(i32::MIN as i64, i32::MAX as i64), "Who goes first when not all can: the higher. From -10 to 10, unless the graph says otherwise."),
    field("cache_salt", BOTH, Form::Text, "What was computed is shared only with requests of the same salt.")
        .refusing(&[refused(r#"{"cache_salt": ""}"#, "cache_salt", VALUE)]),
    field("num_assistant_tokens", BOTH, Form::Integer(0, 32), "Most tokens drafted in a step; 0 drafts none."),
    field("max_ngram_size", BOTH, Form::Integer(1, 8), "Longest run of tokens that prompt lookup searches for."),
    field("assistant_confidence_threshold", BOTH, Form::Number(0.0, 1.0), "A draft model's less likely tokens are not drafted.").refusing(&[
        refused(r#"{"assistant_confidence_threshold": 0.5, "num_assistant_tokens": 3}"#, "assistant_confidence_threshold", VALUE),
        refused(r#"{"assistant_confidence_threshold": 0.5, "max_ngram_size": 3}"#, "assistant_confidence_threshold", VALUE),
    ]),
    field("store", BOTH, Form::Only(&["false"]), "Nothing is stored."),
    field("service_tier", BOTH, Form::Only(&[r#""auto""#, r#""default""#]), "There is one tier; `priority` says who goes first."),
    field("user", BOTH, Form::Text, "Without effect."),
    field("safety_identifier", BOTH, Form::Text, "Without effect."),
    field("prompt_cache_key", BOTH, Form::Text, "Without effect: prompts that begin alike are found without it."),
    field("prompt_cache_retention", BOTH, Form::Text, "Without effect: `prefix_cache_size` of the graph says how much is kept."),
    field("metadata", BOTH, Form::Object, "Without effect."),
    field("request_id", BOTH, Form::Text, "Without effect: the header `x-request-id` names a request."),
    field("cache_prompt", BOTH, Form::Boolean, "Without effect: what was computed is the same wherever it came from."),
    field("kv_transfer_params", BOTH, Form::Only(&["{}"]), "Nothing is transferred."),
];
