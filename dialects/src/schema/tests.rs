use graphmill_engine::Error;
use serde_json::{Value, json};

use crate::{Fields, bodies, json::JsonBody, schema};

fn read(endpoint: &str, body: &Value) -> Result<Fields, Error> {
    let json = JsonBody::from_value(body).expect("an object");
    Fields::read(schema::endpoint(endpoint).expect("an endpoint"), &json)
}

#[test]
fn what_does_not_fit_is_refused_with_its_path_and_code() {
    let text = |part: Value| json!({ "messages": [{ "role": "user", "content": [part] }] });
    for (body, path, code) in [
        (
            json!({ "temperature": "hot" }),
            "temperature",
            "invalid_type",
        ),
        (
            json!({ "temperature": 2.5 }),
            "temperature",
            "invalid_value",
        ),
        (json!({ "top_k": 1.5 }), "top_k", "invalid_type"),
        (
            json!({ "min_tokens": 1e300 }),
            "min_tokens",
            "invalid_value",
        ),
        (json!({ "max_tokens": 0 }), "max_tokens", "invalid_value"),
        (json!({ "stop": ["a", ""] }), "stop[1]", "invalid_value"),
        (
            json!({ "logit_bias": { "a": 1 } }),
            "logit_bias.a",
            "invalid_value",
        ),
        (
            json!({ "logit_bias": [[5, true]] }),
            "logit_bias[0]",
            "invalid_type",
        ),
        (
            json!({ "stream_options": { "other": 1 } }),
            "stream_options.other",
            "unsupported_parameter",
        ),
        (
            json!({ "use_beam_search": true }),
            "use_beam_search",
            "unsupported_parameter",
        ),
        (
            json!({ "response_format": {} }),
            "response_format.type",
            "missing_required_parameter",
        ),
        (json!({ "suffix": "x" }), "suffix", "unsupported_parameter"),
        (json!({ "user": 5 }), "user", "invalid_type"),
        (
            text(json!({ "type": "text" })),
            "messages[0].content[0].text",
            "missing_required_parameter",
        ),
        (
            text(json!({ "type": "x" })),
            "messages[0].content[0].type",
            "unsupported_parameter",
        ),
    ] {
        let error = read(bodies::CHAT, &body).expect_err("it is refused");
        let found = (error.field.as_deref(), error.code.as_deref());
        assert_eq!(found, (Some(path), Some(code)), "{body}: {}", error.message);
    }
}

#[test]
fn structs_take_what_was_checked() {
    let body = json!({
        "top_k": 16.0, "dry_multiplier": 1, "dry_penalty_last_n": -1, "mirostat": 2, "mirostat_eta": 0.5,
        "repeat_penalty": 1.5, "logit_bias": [[5.0, false]], "seed": null, "new": [1],
        "max_completion_tokens": -1.0,
    });
    let mut fields = read(bodies::CHAT, &body).expect("it fits");
    assert_eq!(fields.unknown, ["new"]);
    let length: bodies::length::Length = fields.take().expect("length");
    assert_eq!(length.max_completion_tokens, Some(-1));
    let sampling: graphmill_llm::SamplingParams = fields.take().expect("sampling");
    assert_eq!((sampling.top_k, sampling.seed), (16, None));
    assert!((sampling.repetition_penalty - 1.5).abs() < f32::EPSILON);
    let dry = sampling.dry.expect("it is on");
    assert_eq!(
        (dry.allowed_length, dry.last_tokens, dry.breakers.len()),
        (2, None, 4)
    );
    let mirostat = sampling.mirostat.expect("it is on");
    assert!((mirostat.tau - 5.0).abs() < f32::EPSILON && (mirostat.eta - 0.5).abs() < f32::EPSILON);
    assert_eq!(*sampling.logit_bias, [(5, f32::NEG_INFINITY)]);
}

#[test]
fn every_field_is_described_and_says_what_it_takes() {
    for endpoint in schema::endpoints() {
        for (name, field) in &endpoint.fields {
            let about = field["description"].as_str().unwrap_or_default();
            let words = schema::words(field);
            assert!(
                about.ends_with('.') && !words.is_empty(),
                "{} {name}: {words}",
                endpoint.name
            );
        }
    }
}
