//! Fields of Triton's `generate`. Those from `max_tokens` on are in `parameters` or beside
//! `text_input`.

use super::super::fields::code::{MISSING, TYPE, UNSUPPORTED, VALUE};
use super::{Field, Form, GENERATE, GENERATE_STREAM, field, refused};

const EACH: &[&str] = &[GENERATE, GENERATE_STREAM];

pub(super) const FIELDS: &[Field] = &[
    field("text_input", EACH, Form::Own("a string"), "What the text goes on from, as in `prompt` of completions.").refusing(&[
        refused(r#"{"text_input": null}"#, "text_input", MISSING),
        refused(r#"{"text_input": 5}"#, "text_input", TYPE),
        refused(r#"{"text_input": ["a"]}"#, "text_input", TYPE),
        refused(r#"{"text_input": ""}"#, "text_input", VALUE),
    ]),
    field("id", EACH, Form::Text, "Is repeated in the answer."),
    field(
        "parameters",
        EACH,
        Form::Object,
        "Holds the fields below and any other of completions; they can be beside `text_input`, too, but not in both places. \
         Refused are `prompt`, `logprobs`, `echo`, and more than one choice.",
    )
    .refusing(&[
        refused(r#"{"parameters": {"temperature": "hot"}}"#, "temperature", TYPE),
        refused(r#"{"parameters": {"max_tokens": 0}}"#, "max_tokens", VALUE),
        refused(r#"{"parameters": {"text_input": "a"}}"#, "parameters.text_input", VALUE),
        refused(r#"{"max_tokens": 5, "parameters": {"max_tokens": 5}}"#, "parameters.max_tokens", VALUE),
        refused(r#"{"parameters": {"n": 2}}"#, "n", UNSUPPORTED),
        refused(r#"{"parameters": {"prompt": "a"}}"#, "prompt", UNSUPPORTED),
        refused(r#"{"parameters": {"logprobs": 1}}"#, "logprobs", UNSUPPORTED),
        refused(r#"{"parameters": {"echo": true}}"#, "echo", UNSUPPORTED),
    ]),
    field("max_tokens", EACH, Form::Limit(1), "Most tokens of the text; 20 where it is left out."),
    field("temperature", EACH, Form::Number(0.0, 2.0), "As in completions."),
    field("top_p", EACH, Form::Number(0.0, 1.0), "As in completions."),
    field("top_k", EACH, Form::Integer(-1, i32::MAX as i64), "As in completions."),
    field("seed", EACH, Form::Integer(0, i64::MAX), "As in completions."),
    field("stop_words", EACH, Form::Own("a string or an array of strings"), "The same as `stop`, as models of TensorRT-LLM have it.")
        .refusing(&[
            refused(r#"{"stop_words": 5}"#, "stop", TYPE),
            refused(r#"{"stop_words": "a", "stop": "b"}"#, "stop_words", VALUE),
        ]),
    field("bad_words", EACH, Form::Only(&[r#""""#, "[]"]), "No words are kept from coming."),
    field("details", EACH, Form::Boolean, "Has the answer say in `details.finish_reason` why the text ended: `length`, `eos_token` or `stop_sequence`."),
    field("stream", &[GENERATE], Form::Only(&["false"]), "The path says whether the answer is a stream."),
    field("stream", &[GENERATE_STREAM], Form::Only(&["true"]), "The path says whether the answer is a stream."),
];
