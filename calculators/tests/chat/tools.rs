//! Tool calls and reasoning, from requests to answers, in the formats of several models.

use graphmill_calculators::payload::HttpResponse;
use serde_json::{Value, json};

use super::{Chat, body, events};

/// A model that answers with a text and whose chat template shows that it knows a mark.
pub(super) fn model(mark: &str, reply: &str) -> Value {
    let template = format!(
        "{{# {mark} #}}{{% for message in messages %}}<|im_start|>{{{{ message.role }}}}\n{{{{ message.content }}}}<|im_end|>\n{{% endfor %}}{{{{ '<|im_start|>assistant\n' }}}}"
    );
    json!({"chat_template": template, "replies": [{"text": reply}]})
}

pub(super) fn request(extra: Value) -> Value {
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
pub(super) fn answer(chat: &Chat, request: &Value) -> (Value, String) {
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

pub(super) fn call(name: &str, arguments: &str) -> Value {
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
        (
            "<|tool_call>call:",
            "Ok.<|tool_call>call:f{x:1}<tool_call|>",
        ),
        (
            "<arg_key> <arg_value>",
            "Ok.\n<tool_call>f\n<arg_key>x</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
        ),
        (
            "<|tool_calls_section_begin|>",
            "Ok.<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"x\":1}<|tool_call_end|><|tool_calls_section_end|>",
        ),
        (
            "<minimax:tool_call>",
            "Ok.\n<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"x\">1</parameter>\n</invoke>\n</minimax:tool_call>",
        ),
        (
            "<|tool_list_start|>",
            "Ok.<|tool_call_start|>[f(x=1)]<|tool_call_end|>",
        ),
        (
            "DSML function_calls",
            "Ok.\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"x\" string=\"false\">1</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
        ),
        (
            "<|START_ACTION|>",
            "Ok.<|START_ACTION|>[\n{\"tool_call_id\": \"0\", \"tool_name\": \"f\", \"parameters\": {\"x\":1}}\n]<|END_ACTION|>",
        ),
        (
            "<atem:function_calls>",
            " to=user<|message|>Ok.<|eom|><|start|>assistant to=f<|message|><atem:function_calls>\n<atem:invoke name=\"f\">\n<atem:parameter name=\"x\">1</atem:parameter>\n</atem:invoke>\n</atem:function_calls><|eom|>",
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
fn functions_are_the_form_that_tools_had_before() {
    let reply = "<tool_call>{\"name\": \"f\", \"arguments\": {\"x\":1}}</tool_call>";
    let chat = Chat::new(&model("<tool_call></tool_call>", reply));
    let function = json!({"name": "f", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}});
    for choice in [json!(null), json!("auto"), json!({"name": "f"})] {
        let mut request = json!({
            "model": "m", "messages": [{"role": "user", "content": "Hi"}],
            "functions": [function], "function_call": choice, "temperature": 0,
        });
        let whole = body(&chat.ask("/v1/chat/completions", &request));
        let answered = &whole["choices"][0];
        let call = &answered["message"]["function_call"];
        let arguments_of_call = call["arguments"].as_str().expect("text");
        // A call that is demanded is held to a form, and this model knows another.
        assert!(choice.is_object() || arguments_of_call == "{\"x\":1}");
        assert_eq!(call["name"], "f");
        assert_eq!(answered["message"]["content"], Value::Null);
        assert_eq!(answered["message"].get("tool_calls"), None);
        assert_eq!(answered["finish_reason"], "function_call");

        request["stream"] = true.into();
        let events = events(&chat.ask("/v1/chat/completions", &request));
        let (mut name, mut arguments) = (String::new(), String::new());
        for delta in events.iter().map(|event| &event["choices"][0]["delta"]) {
            assert_eq!(delta.get("tool_calls"), None);
            let call = &delta["function_call"];
            name += call["name"].as_str().unwrap_or_default();
            arguments += call["arguments"].as_str().unwrap_or_default();
        }
        assert_eq!(
            (name.as_str(), arguments.as_str()),
            ("f", arguments_of_call)
        );
        let last = events.last().expect("an event");
        assert_eq!(last["choices"][0]["finish_reason"], "function_call");
    }
    // What is not a call is an answer as always.
    let text = Chat::new(&model("<tool_call></tool_call>", "No."));
    let request = json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}], "functions": [function]});
    let whole = body(&text.ask("/v1/chat/completions", &request));
    assert_eq!(whole["choices"][0]["message"]["content"], "No.");
    assert_eq!(whole["choices"][0]["message"].get("function_call"), None);
    assert_eq!(whole["choices"][0]["finish_reason"], "stop");
    let none = json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}], "functions": [function], "function_call": "none"});
    let whole = body(&chat.ask("/v1/chat/completions", &none));
    assert_eq!(whole["choices"][0]["message"]["content"], reply);
}

#[test]
fn calls_of_functions_in_the_history_are_those_of_tools() {
    let template = "{% for message in messages %}{{ message | tojson }}\n{% endfor %}";
    let chat = Chat::new(&json!({"chat_template": template, "replies": [{"text": "Yes."}]}));
    let rendered = |messages: Value| {
        let request = json!({"model": "m", "messages": messages});
        body(&chat.ask("/v1/chat/completions/render", &request))["prompt"].clone()
    };
    let old = rendered(json!([
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{\"x\": 1}"}},
        {"role": "function", "name": "f", "content": "2"},
    ]));
    let new = rendered(json!([
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": null, "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1}"}}]},
        {"role": "tool", "name": "f", "content": "2", "tool_call_id": "call_1"},
    ]));
    assert_eq!(old, new);
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

#[test]
fn a_budget_ends_the_reasoning_and_not_the_answer() {
    let reply = "<think>abcdefgh</think>Yes.";
    let chat = Chat::new(&model("<think></think>", reply));
    for (extra, reasoning) in [
        (json!({"thinking_token_budget": 3}), Some("abc")),
        (
            json!({"thinking": {"type": "enabled", "budget_tokens": 5}}),
            Some("abcde"),
        ),
        (json!({"reasoning_budget": 0}), None),
        (json!({"reasoning_budget": -1}), Some("abcdefgh")),
        (json!({"thinking_budget": 50}), Some("abcdefgh")),
    ] {
        let (message, reason) = answer(&chat, &request(extra.clone()));
        assert_eq!(message["reasoning_content"].as_str(), reasoning, "{extra}");
        assert_eq!(reason, "stop");
    }
}

#[test]
fn a_graph_without_the_models_formats_refuses_what_needs_them() {
    let graph = super::GRAPH.replace(
        "input_stream: \"PARAMS:formatted_params\"\n  output_stream: \"PARAMS:constrained",
        "input_stream: \"PARAMS:params\"\n  output_stream: \"PARAMS:constrained",
    );
    let chat = Chat::with_graph(&graph, &model("<think></think>", "Yes."));
    for (extra, field) in [
        (json!({"tool_choice": "required"}), "tool_choice"),
        (json!({"thinking_token_budget": 5}), "thinking_token_budget"),
    ] {
        let error = chat.refusal("/v1/chat/completions", &request(extra));
        assert_eq!(error.field.as_deref(), Some(field));
    }
}

#[test]
fn special_tokens_are_seen_by_the_parsers_and_not_by_the_client() {
    let reply = "Ok.[TOOL_CALLS] [{\"name\": \"g\"}]";
    let mut script = model("[TOOL_CALLS]", reply);
    script["special_tokens"] = json!(["[TOOL_CALLS]", "<|note|>"]);
    let chat = Chat::new(&script);
    let (message, _) = answer(&chat, &request(json!({})));
    assert_eq!(message["content"], "Ok.");
    assert_eq!(message["tool_calls"], json!([call("g", "{}")]));
    let mut gemma = model(
        "<|tool_call>",
        "Ok.<|tool_call>call:g{a:<|\"|>b<|\"|>}<tool_call|>",
    );
    gemma["special_tokens"] = json!(["<|tool_call>", "<tool_call|>", "<|\"|>"]);
    let (message, _) = answer(&Chat::new(&gemma), &request(json!({})));
    assert_eq!(message["tool_calls"], json!([call("g", "{\"a\":\"b\"}")]));
    script["replies"] = json!([{"text": "a<|note|>b"}]);
    let chat = Chat::new(&script);
    assert_eq!(answer(&chat, &request(json!({}))).0["content"], "ab");
    let kept = request(json!({"skip_special_tokens": false}));
    assert_eq!(answer(&chat, &kept).0["content"], "a<|note|>b");
}
