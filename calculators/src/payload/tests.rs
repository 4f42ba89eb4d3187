use graphmill_engine::codec;
use serde_json::{Value, json};

#[test]
fn what_is_read_is_written_again() {
    for (name, value) in [
        (
            "http_request",
            json!({"method": "POST", "uri": "/v3/completions", "headers": {"a": "b"}, "body": {"model": "m"}}),
        ),
        (
            "http_request",
            json!({"method": "GET", "uri": "/", "headers": {}, "body": "plain"}),
        ),
        (
            "http_response",
            json!({"body": {"id": 1}, "content_type": "application/json"}),
        ),
        ("http_response", json!({"event": {"choices": []}})),
        ("http_response", json!("done")),
        (
            "prompts",
            json!([{"text": "a"}, {"templated": "b"}, {"gap": {"before": "c", "after": "d"}}, {"tokens": [1, 2]}]),
        ),
        ("token_prompts", json!([[1, 2], [3]])),
        (
            "token_chunk",
            json!({
                "index": 1, "tokens": [5], "finish": null,
                "usage": {"prompt_tokens": 2, "cached_tokens": 0, "generated_tokens": 1},
                "echo": {"tokens": [3, 4], "logprobs": [{"token": 4, "logprob": -1.5}]},
                "logprobs": [{"token": 5, "logprob": -0.25, "top": [[5, -0.25], [6, null]]}],
            }),
        ),
    ] {
        let packet = codec::decode(&value, Some(name), &[]).expect("a value");
        assert_eq!(codec::encode(&packet), Some(value));
    }
    let written = |name: &str, value: Value| {
        let packet = codec::decode(&value, Some(name), &[]).expect("a value");
        codec::encode(&packet).expect("registered")
    };
    let usage = json!({"prompt_tokens": 0, "cached_tokens": 0, "generated_tokens": 3});
    assert_eq!(
        written(
            "text_chunk",
            json!({"text": "a", "finish": "stop", "usage": {"generated_tokens": 3}})
        ),
        json!({"index": 0, "text": "a", "finish": "stop", "usage": usage})
    );
    let call = json!({"index": 0, "arguments": "{}", "id": "call_1", "name": "f"});
    assert_eq!(
        written(
            "text_chunk",
            json!({"reasoning": "so", "tool_calls": [call], "finish": "tool_calls", "usage": usage})
        ),
        json!({"index": 0, "text": "", "finish": "tool_calls", "usage": usage, "reasoning": "so", "tool_calls": [call]})
    );
    assert_eq!(
        written(
            "token_chunk",
            json!({"index": 1, "tokens": [5], "usage": usage})
        ),
        json!({"index": 1, "tokens": [5], "finish": null, "usage": usage})
    );
    let usage = json!({
        "prompt_tokens": 5, "cached_tokens": 0, "generated_tokens": 3, "drafts": {"accepted": 2, "rejected": 1},
    });
    assert_eq!(
        written("token_chunk", json!({"tokens": [5, 6, 7], "usage": usage}))["usage"],
        usage
    );
    let unknown = codec::decode(&json!({"uri": "/", "boddy": 1}), Some("http_request"), &[]);
    assert!(unknown.is_err_and(|why| why.contains("boddy")));
}
