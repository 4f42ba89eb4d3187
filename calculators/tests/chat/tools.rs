//! Tool calls and reasoning, from requests to answers, in the formats of several models.

use graphmill_calculators::payload::HttpResponse;
use serde_json::{Value, json};

use super::{Chat, body, events};

/// A model that answers with a text and whose chat template shows that it knows a mark.
fn model(mark: &str, reply: &str) -> Value {
    let template = format!(
        "{{# {mark} #}}{{% for message in messages %}}<|im_start|>{{{{ message.role }}}}\n{{{{ message.content }}}}<|im_end|>\n{{% endfor %}}{{{{ '<|im_start|>assistant\n' }}}}"
    );
    json!({"chat_template": template, "replies": [{"text": reply}]})
}

fn request(extra: Value) -> Value {
    let function = json!({"name": "f", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}});
    let mut request = json!({
        "model": "m",
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [{"type": "function", "function": function}, {"type": "function", "function": {"name": "g"}}],
    });
    let (Value::Object(fields), Value::Object(extra)) = (&mut request, extra) else {
        panic!("both are objects");
    };
    fields.extend(extra);
    request
}

/// The message and the finish reason of the whole answer; those of the stream are the same.
fn answer(chat: &Chat, request: &Value) -> (Value, String) {
    let whole = body(&chat.ask("/v1/chat/completions", request));
    let mut choice = whole["choices"][0].clone();
    let mut streaming = request.clone();
    streaming["stream"] = true.into();
    let out = chat.ask("/v1/chat/completions", &streaming);
    assert_eq!(out.last(), Some(&HttpResponse::Done));
    let streamed = joined(&events(&out));
    let message = &mut choice["message"];
    // Made up anew for each answer.
    let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
    for call in calls.into_iter().flatten() {
        let id = call.as_object_mut().and_then(|call| call.remove("id"));
        assert!(id.is_some_and(|id| id.as_str().is_some_and(|id| id.len() >= 9)));
    }
    assert_eq!(
        streamed["content"],
        message["content"].as_str().unwrap_or_default()
    );
    assert_eq!(
        streamed["reasoning_content"],
        message["reasoning_content"].as_str().unwrap_or_default()
    );
    let calls = message
        .get("tool_calls")
        .cloned()
        .unwrap_or_else(|| json!([]));
    assert_eq!(streamed["tool_calls"], calls);
    assert_eq!(streamed["finish_reason"], choice["finish_reason"]);
    let reason = choice["finish_reason"]
        .as_str()
        .expect("a reason")
        .to_owned();
    (choice["message"].take(), reason)
}

/// The message that the chunks of a stream make, as clients put it together.
fn joined(events: &[Value]) -> Value {
    let (mut content, mut reasoning) = (String::new(), String::new());
    let mut calls: Vec<Value> = Vec::new();
    let mut reason = Value::Null;
    for choice in events.iter().map(|event| &event["choices"][0]) {
        let delta = &choice["delta"];
        content += delta["content"].as_str().unwrap_or_default();
        reasoning += delta["reasoning_content"].as_str().unwrap_or_default();
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            let index = call["index"].as_u64().expect("an index") as usize;
            let function = &call["function"];
            if index == calls.len() {
                assert!(call["id"].is_string() && call["type"] == "function");
                calls.push(json!({"type": "function", "function": {"name": function["name"], "arguments": ""}}));
            } else {
                assert!(call.get("id").is_none() && function.get("name").is_none());
            }
            let arguments = calls[index]["function"]["arguments"]
                .as_str()
                .unwrap_or_default();
            let arguments =
                arguments.to_owned() + function["arguments"].as_str().unwrap_or_default();
            calls[index]["function"]["arguments"] = arguments.into();
        }
        if !choice["finish_reason"].is_null() {
            reason = choice["finish_reason"].clone();
        }
    }
    json!({"content": content, "reasoning_content": reasoning, "tool_calls": calls, "finish_reason": reason})
}

fn call(name: &str, arguments: &str) -> Value {
    json!({"type": "function", "function": {"name": name, "arguments": arguments}})
}

#[test]
fn every_format_gives_the_same_message() {
    for (mark, reply) in [
        (
            "<tool_call></tool_call>",
            "Ok.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\":1}}\n</tool_call>",
        ),
        (
            "<|python_tag|>",
            "Ok.<|python_tag|>{\"name\": \"f\", \"parameters\": {\"x\":1}}",
        ),
        (
            "[TOOL_CALLS]",
            "Ok.[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"x\":1}}]",
        ),
        (
            "functools",
            "Ok. functools[{\"name\": \"f\", \"arguments\": {\"x\":1}}]",
        ),
        (
            "<function= <parameter=",
            "Ok.\n<tool_call>\n<function=f>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>",
        ),
        (
            "<|channel|>",
            "<|channel|>commentary<|message|>Ok.<|end|><|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"x\":1}<|call|>",
        ),
        (
            "<｜tool▁call▁begin｜>",
            "Ok.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"x\":1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        ),
    ] {
        let chat = Chat::new(&model(mark, reply));
        let (message, reason) = answer(&chat, &request(json!({})));
        assert_eq!(message["content"], "Ok.", "{mark}");
        assert_eq!(
            message["tool_calls"],
            json!([call("f", "{\"x\":1}")]),
            "{mark}"
        );
        assert_eq!(reason, "tool_calls");
    }
}

#[test]
fn a_message_of_nothing_but_calls_has_no_content() {
    let reply = "{\"name\": \"g\", \"arguments\": {}}";
    let (message, reason) = answer(&Chat::new(&model("", reply)), &request(json!({})));
    assert_eq!(message["content"], Value::Null);
    assert_eq!(message["tool_calls"], json!([call("g", "{}")]));
    assert_eq!(reason, "tool_calls");
}

#[test]
fn text_stays_text_where_nothing_can_be_called() {
    let reply = "<tool_call>{\"name\": \"f\"}</tool_call>";
    let chat = Chat::new(&model("<tool_call></tool_call>", reply));
    for extra in [json!({"tools": null}), json!({"tool_choice": "none"})] {
        let (message, reason) = answer(&chat, &request(extra));
        assert_eq!(
            (message["content"].as_str(), &*reason),
            (Some(reply), "stop")
        );
        assert!(message.get("tool_calls").is_none());
    }
}

#[test]
fn one_call_at_a_time_ends_the_generation() {
    let call_text = "<tool_call>{\"name\": \"g\"}</tool_call>";
    let mut script = model("<tool_call></tool_call>", call_text);
    script["replies"][0]["then"] = "repeat".into();
    script["step_micros"] = 100.into();
    let chat = Chat::new(&script);
    let asked = request(json!({"parallel_tool_calls": false, "max_tokens": 2000}));
    let (message, reason) = answer(&chat, &asked);
    assert_eq!(message["tool_calls"], json!([call("g", "{}")]));
    assert_eq!(reason, "tool_calls");
    chat.wait_until_idle();
}

#[test]
fn an_answer_that_is_cut_says_so_even_after_a_call() {
    let reply = "<tool_call>{\"name\": \"g\"}</tool_call> and so on";
    let chat = Chat::new(&model("<tool_call></tool_call>", reply));
    let (message, reason) = answer(&chat, &request(json!({"max_tokens": 40})));
    assert_eq!(message["tool_calls"], json!([call("g", "{}")]));
    assert_eq!(reason, "length");
}

#[test]
fn reasoning_is_no_content() {
    let reply = "<think>\nHm.\n</think>\n\nYes.<tool_call>{\"name\": \"g\"}</tool_call>";
    let chat = Chat::new(&model("<think></think> <tool_call></tool_call>", reply));
    let (message, _) = answer(&chat, &request(json!({})));
    assert_eq!(message["reasoning_content"], "Hm.");
    assert_eq!(message["content"], "Yes.");
    assert_eq!(message["tool_calls"], json!([call("g", "{}")]));
    let (message, reason) = answer(&chat, &request(json!({"max_tokens": 10})));
    assert_eq!(message["reasoning_content"], "Hm");
    assert_eq!((&message["content"], &*reason), (&json!(""), "length"));
}

#[test]
fn nodes_can_be_told_the_format_or_to_leave_the_text_alone() {
    let reply = "<think>Hm.</think>[TOOL_CALLS]g{}";
    let with = |tools: &str, reasoning: &str| {
        let options = |name: &str, field: &str, value: &str| {
            format!(
                "calculator: \"{name}\"\n  node_options {{ [type.googleapis.com/graphmill.{name}Options] {{ {field}: \"{value}\" }} }}"
            )
        };
        let graph = super::GRAPH
            .replace(
                "calculator: \"ToolParserCalculator\"",
                &options("ToolParserCalculator", "tool_parser", tools),
            )
            .replace(
                "calculator: \"ReasoningParserCalculator\"",
                &options("ReasoningParserCalculator", "reasoning_parser", reasoning),
            );
        answer(
            &Chat::with_graph(&graph, &model("", reply)),
            &request(json!({})),
        )
        .0
    };
    let message = with("mistral", "qwen3");
    assert_eq!(message["tool_calls"], json!([call("g", "{}")]));
    assert_eq!(message["reasoning_content"], "Hm.");
    assert_eq!(with("none", "none")["content"], reply);
}
