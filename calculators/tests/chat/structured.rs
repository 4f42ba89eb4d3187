//! Structured output through the chat graph: every field that asks for it, alone and with others.

use serde_json::{Value, json};

use super::{Chat, GRAPH, body, contents, events, script};

/// What the model says to anything that is free.
const REPLY: &str = "{\"n\": 12} is what I say";

fn schema() -> Value {
    json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false})
}

fn request(more: &Value) -> Value {
    let mut request = json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}], "temperature": 0, "max_tokens": 40});
    for (name, value) in more.as_object().expect("fields") {
        request[name] = value.clone();
    }
    request
}

#[test]
fn each_field_that_asks_for_structure_gets_it() {
    let chat = Chat::new(&script(&[("", REPLY)]));
    let named = json!({"name": "number", "schema": schema(), "strict": true});
    for (fields, expected) in [
        (json!({"response_format": {"type": "text"}}), REPLY),
        (json!({"response_format": null, "guided_json": null}), REPLY),
        (
            json!({"response_format": {"type": "json_object"}}),
            "{\"n\": 12}",
        ),
        (
            json!({"response_format": {"type": "json_schema", "json_schema": named}}),
            "{\"n\": 12}",
        ),
        (
            json!({"response_format": {"type": "json_schema", "json_schema": {"schema": schema()}}}),
            "{\"n\": 12}",
        ),
        (
            json!({"response_format": {"type": "json_object", "schema": schema()}}),
            "{\"n\": 12}",
        ),
        (json!({"guided_json": schema()}), "{\"n\": 12}"),
        (json!({"guided_json": schema().to_string()}), "{\"n\": 12}"),
        (json!({"json_schema": schema()}), "{\"n\": 12}"),
        (json!({"guided_regex": r#"\{"n": \d\d\}"#}), "{\"n\": 12}"),
        (
            json!({"guided_regex": r#"^\{"n": \d\d\} is$"#}),
            "{\"n\": 12} is",
        ),
        (json!({"guided_choice": ["{}", "{\"n\": 1"]}), "{\"n\": 1"),
        (
            json!({"guided_grammar": r#"root ::= "{" [^}]+ "}""#}),
            "{\"n\": 12}",
        ),
        (
            json!({"guided_grammar": r#"start: "{" /[^}]+/ "}""#}),
            "{\"n\": 12}",
        ),
        (
            json!({"grammar": r#"root ::= "{" [^}]+ "}""#}),
            "{\"n\": 12}",
        ),
        (
            json!({"structured_outputs": {"json": schema()}}),
            "{\"n\": 12}",
        ),
        (
            json!({"structured_outputs": {"json_object": true, "regex": null}}),
            "{\"n\": 12}",
        ),
        (
            json!({"structured_outputs": {"choice": ["{}", "{\"n\": 1"]}}),
            "{\"n\": 1",
        ),
        (
            json!({"structured_outputs": {"regex": "[^ ]{5}"}}),
            "{\"n\":",
        ),
        (
            json!({"structured_outputs": {"grammar": r#"root ::= "{" [^}]+ "}""#}}),
            "{\"n\": 12}",
        ),
    ] {
        let whole = body(&chat.ask("/v3/chat/completions", &request(&fields)));
        let choice = &whole["choices"][0];
        assert_eq!(choice["message"]["content"], expected, "{fields}");
        assert_eq!(choice["finish_reason"], "stop", "{fields}");

        let mut streamed = request(&fields);
        streamed["stream"] = true.into();
        let chunks = events(&chat.ask("/v3/chat/completions", &streamed));
        assert_eq!(contents(&chunks), expected, "{fields}");

        let mut completion = fields.clone();
        completion["model"] = "m".into();
        completion["prompt"] = "<|im_start|>assistant\n".into();
        completion["max_tokens"] = 40.into();
        completion["temperature"] = 0.into();
        let answer = body(&chat.ask("/v3/completions", &completion));
        assert!(answer["choices"][0]["text"].is_string(), "{answer}");
    }
}

#[test]
fn every_choice_matches_and_other_fields_apply() {
    let chat = Chat::new(&script(&[("", REPLY)]));
    let fields = json!({"guided_choice": ["red", "green", "blue"], "n": 6, "temperature": 1, "seed": 4, "min_tokens": 2});
    let answer = body(&chat.ask("/v3/chat/completions", &request(&fields)));
    let choices = answer["choices"].as_array().expect("choices");
    assert_eq!(choices.len(), 6);
    for choice in choices {
        let content = choice["message"]["content"].as_str().expect("text");
        assert!(["red", "green", "blue"].contains(&content), "{content}");
    }
    // The token `b`, then `g`, made all but impossible.
    let fields =
        json!({"guided_choice": ["red", "green", "blue"], "logit_bias": {"98": -100, "103": -100}});
    let answer = body(&chat.ask("/v3/chat/completions", &request(&fields)));
    assert_eq!(answer["choices"][0]["message"]["content"], "red");
    let fields = json!({"guided_json": schema(), "max_tokens": 4});
    let answer = body(&chat.ask("/v3/chat/completions", &request(&fields)));
    assert_eq!(answer["choices"][0]["finish_reason"], "length");
}

#[test]
fn a_stop_string_ends_a_text_only_where_it_matches() {
    let chat = Chat::new(&script(&[("", REPLY)]));
    for (fields, expected) in [
        (
            json!({"guided_json": schema(), "stop": [" ", "n", "}"]}),
            "{\"n\": 12}",
        ),
        (
            json!({"guided_json": schema(), "stop": "}", "include_stop_str_in_output": true}),
            "{\"n\": 12}",
        ),
        (
            json!({"guided_regex": r#"\{"n": [0-9]+\} is[a-z ]*"#, "stop": [":", " w"]}),
            "{\"n\": 12} is",
        ),
        (
            json!({"guided_regex": r#"\{"n": [0-9]+\}.*"#, "stop": [" ", "}"]}),
            "{\"n\": 12}",
        ),
    ] {
        let answer = body(&chat.ask("/v3/chat/completions", &request(&fields)));
        let choice = &answer["choices"][0];
        assert_eq!(choice["message"]["content"], expected, "{fields}");
        assert_eq!(choice["finish_reason"], "stop", "{fields}");
    }
}

#[test]
fn a_graph_that_cannot_hold_a_text_to_it_refuses() {
    let mut graph = GRAPH.replace("PARAMS:constrained_params", "PARAMS:params");
    let start = graph.find("  name: \"constraint\"").expect("the node");
    let start = graph[..start].rfind("node {").expect("its beginning");
    let end = start + graph[start..].find("\n}\n").expect("its end") + 3;
    graph.replace_range(start..end, "");
    let chat = Chat::with_graph(&graph, &script(&[("", REPLY)]));
    let error = chat.refusal(
        "/v3/chat/completions",
        &request(&json!({"response_format": {"type": "json_object"}})),
    );
    assert_eq!(error.field.as_deref(), Some("response_format"));
    assert_eq!(error.code.as_deref(), Some("unsupported_parameter"));
    let free = body(&chat.ask("/v3/chat/completions", &request(&json!({}))));
    assert_eq!(free["choices"][0]["message"]["content"], REPLY);
}
