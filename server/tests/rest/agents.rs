//! Requests as coding agents send them: tools of all kinds, and conversations that have to be summed
//! up.

use serde_json::{Value, json};

use crate::rest::support::{CHAT, Reply, Setup, TestServer, question, read};

/// Writes messages and tools as they are, for a model that calls tools as Hermes does.
pub(crate) const AS_JSON: &str = "{# <tool_call></tool_call> <think></think> #}\
    {% for message in messages %}<|im_start|>{{ message.role }}\n{{ message | tojson }}<|im_end|>\n{% endfor %}\
    <|im_start|>tools\n{{ tools | tojson }}<|im_end|>\n{{ '<|im_start|>assistant\n' }}";

/// A server of a model with this template that answers a prompt with the first of these texts whose
/// mark is in it.
pub(crate) async fn server(template: &str, replies: &[(&str, &str)]) -> TestServer {
    let reply = |(when, text): &(&str, &str)| json!({ "when": when, "text": text });
    let replies: Vec<Value> = replies.iter().map(reply).collect();
    let script = json!({
        "chat_template": template, "replies": replies, "context": 16_384, "cells": 65_536,
    });
    Setup::new()
        .graph("chat", CHAT)
        .script(&script)
        .start()
        .await
}

pub(crate) async fn ask(server: &TestServer, path: &str, mut body: Value) -> Reply {
    body["model"] = json!("chat");
    if path.contains("messages") {
        body["max_tokens"] = json!(500);
    }
    read(server.post(path, body.to_string())).await
}

pub(crate) async fn respond(server: &TestServer, body: Value) -> Reply {
    let reply = ask(server, "/v1/responses", body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply
}

/// The named events of a stream.
pub(crate) fn events(reply: &Reply) -> Vec<Value> {
    let events = reply.text.split_terminator("\n\n");
    let data = events.filter_map(|event| event.split_once("\ndata: "));
    data.map(|(_, data)| serde_json::from_str(data).expect("JSON"))
        .collect()
}

fn user(text: &str) -> Value {
    json!({ "type": "message", "role": "user", "content": [{ "type": "input_text", "text": text }] })
}

fn function(name: &str) -> Value {
    let parameters = json!({ "type": "object", "properties": { "x": { "type": "integer" } } });
    json!({ "type": "function", "name": name, "description": "does", "strict": false, "parameters": parameters })
}

fn patch() -> Value {
    json!({
        "type": "custom", "name": "apply_patch", "description": "Edits files.",
        "format": { "type": "grammar", "syntax": "lark", "definition": "start: /.+/" },
    })
}

#[tokio::test]
async fn tools_of_the_provider_are_left_out_and_named() {
    let server = server(
        AS_JSON,
        &[("web_search", "It is offered."), ("shell_2", "Ok.")],
    )
    .await;
    let tools = json!([
        function("shell_2"), { "type": "web_search", "external_web_access": true },
        { "type": "image_generation", "output_format": "png" }, { "type": "local_shell" },
        { "type": "tool_search" }, { "type": "web_search_preview_2025_03_11" },
    ]);
    let reply = respond(&server, json!({ "input": "Hi", "tools": tools })).await;
    assert_eq!(
        reply.header("x-ignored-fields"),
        Some(
            "tools[1]:web_search, tools[2]:image_generation, tools[3]:local_shell, \
             tools[4]:tool_search, tools[5]:web_search_preview_2025_03_11"
        )
    );
    assert_eq!(reply.json()["output"][0]["content"][0]["text"], "Ok.");
    let message = json!({
        "messages": [{ "role": "user", "content": "Hi" }],
        "tools": [
            { "name": "shell_2", "input_schema": { "type": "object" } },
            { "type": "web_search_20250305", "name": "web_search", "max_uses": 8 },
            { "type": "bash_20250124", "name": "bash" },
        ],
    });
    let reply = ask(&server, "/v1/messages?beta=true", message.clone()).await;
    assert_eq!(
        reply.header("x-ignored-fields"),
        Some("tools[1]:web_search_20250305, tools[2]:bash_20250124")
    );
    assert_eq!(reply.json()["content"][0]["text"], "Ok.");
    let counted = ask(&server, "/v1/messages/count_tokens?beta=true", message).await;
    assert_eq!(counted.status, 200, "{}", counted.text);
    // Without other tools there are none.
    let only = json!({ "input": "Hi shell_2", "tools": [{ "type": "web_search" }], "tool_choice": "auto" });
    respond(&server, only).await;
}

#[tokio::test]
async fn a_tool_of_a_namespace_is_called_in_its_namespace() {
    let called = r#"<tool_call>{"name": "mcp__demo__echo", "arguments": {"x": 1}}</tool_call>"#;
    let server = server(
        AS_JSON,
        &[
            (
                r#""name": "mcp__demo__echo", "arguments": {"x": 1}"#,
                "Done.",
            ),
            (r#""name": "mcp__demo__echo", "description""#, called),
        ],
    )
    .await;
    let tools = json!([{ "type": "namespace", "name": "mcp__demo", "description": "demo", "tools": [function("echo")] }]);
    for choice in [
        json!("auto"),
        json!({ "type": "function", "name": "echo", "namespace": "mcp__demo" }),
        json!({ "type": "allowed_tools", "mode": "auto", "tools": [{ "type": "function", "name": "echo", "namespace": "mcp__demo" }] }),
    ] {
        let is_named = choice["type"] == "function";
        let mut request = json!({
            "input": [user("Hi")], "tools": tools, "tool_choice": choice, "temperature": 0,
        });
        let mut output = respond(&server, request.clone()).await.json()["output"].clone();
        let call = &output[0];
        assert_eq!(
            (&call["type"], &call["namespace"], &call["name"]),
            (&json!("function_call"), &json!("mcp__demo"), &json!("echo")),
            "{call}"
        );
        request["stream"] = json!(true);
        let streamed = respond(&server, request.clone()).await;
        let done = events(&streamed).into_iter();
        let mut done = done.filter(|event| event["type"] == "response.output_item.done");
        let item = done.next().expect("an item")["item"].clone();
        assert_eq!(
            (&item["namespace"], &item["name"]),
            (&call["namespace"], &call["name"])
        );
        if is_named {
            continue;
        }
        let id = call["call_id"].clone();
        let items = output.as_array_mut().expect("items");
        items.insert(0, user("Hi"));
        items.push(json!({ "type": "function_call_output", "call_id": id, "output": "1" }));
        let again = json!({ "input": items, "tools": tools });
        let answer = respond(&server, again).await.json();
        assert_eq!(
            answer["output"][0]["content"][0]["text"], "Done.",
            "{answer}"
        );
    }
}

#[tokio::test]
async fn a_tool_that_takes_a_text_is_a_function_of_one_for_the_model() {
    let called = r#"<tool_call>{"name": "apply_patch", "arguments": {"input": "*** Begin\n+é"}}</tool_call>"#;
    let server = server(
        AS_JSON,
        &[
            (r#""arguments": {"input": "*** Begin\n+é"}"#, "Done."),
            (r"Matches this grammar in Lark:\nstart: /.+/", called),
        ],
    )
    .await;
    let mut request = json!({ "input": [user("Hi")], "tools": [patch()] });
    let reply = respond(&server, request.clone()).await;
    assert_eq!(reply.header("x-ignored-fields"), Some("tools[0].format"));
    let call = reply.json()["output"][0].clone();
    assert_eq!(
        (
            &call["type"],
            &call["name"],
            &call["input"],
            call.get("arguments")
        ),
        (
            &json!("custom_tool_call"),
            &json!("apply_patch"),
            &json!("*** Begin\n+é"),
            None
        )
    );
    let mut demanded = request.clone();
    demanded["tool_choice"] = json!({ "type": "custom", "name": "apply_patch" });
    demanded["max_output_tokens"] = json!(400);
    let reply = respond(&server, demanded).await;
    assert_eq!(reply.header("x-ignored-fields"), None);
    let held = reply.json()["output"][0].clone();
    assert_eq!(held["type"], "custom_tool_call", "{held}");
    let input = held["input"].as_str().expect("a text");
    assert!(!input.is_empty() && !input.contains('\n'), "{input}");
    request["stream"] = json!(true);
    let events = events(&respond(&server, request.clone()).await);
    let of = |kind: &str| events.iter().find(|event| event["type"] == kind).cloned();
    let delta = of("response.custom_tool_call_input.delta").expect("a delta");
    assert_eq!(delta["delta"], call["input"]);
    let done = of("response.custom_tool_call_input.done").expect("the end");
    assert_eq!(done["input"], call["input"]);
    let item = of("response.output_item.done").expect("an item");
    assert_eq!(
        (&item["item"]["input"], &item["item"]["type"]),
        (&call["input"], &call["type"])
    );
    assert!(of("response.function_call_arguments.delta").is_none());
    let output =
        json!({ "type": "custom_tool_call_output", "call_id": call["call_id"], "output": "ok" });
    let answer = respond(
        &server,
        json!({ "input": [user("Hi"), call, output], "tools": [patch()] }),
    );
    let answer = answer.await.json();
    assert_eq!(
        answer["output"][0]["content"][0]["text"], "Done.",
        "{answer}"
    );
}

#[tokio::test]
async fn a_broken_format_of_a_tool_is_refused_where_it_stands() {
    let server = server(AS_JSON, &[("", "Ok.")]).await;
    let mut request = json!({ "input": "Hi" });
    for (syntax, definition, said) in [
        ("lark", "start: (((", "expected `)`"),
        ("lark", "", "there is no rule `start`"),
        ("lark", "start: nix", "there is no rule `nix`"),
        ("regex", "[0-9", "unclosed character class"),
    ] {
        request["tools"] = json!([patch()]);
        let format = &mut request["tools"][0]["format"];
        format["syntax"] = syntax.into();
        format["definition"] = definition.into();
        for choice in ["auto", "required"] {
            request["tool_choice"] = choice.into();
            let reply = ask(&server, "/v1/responses", request.clone()).await;
            let error = reply.json()["error"].clone();
            assert_eq!(
                (reply.status, &error["param"]),
                (400, &json!("tools[0].format.definition")),
                "{error}"
            );
            let message = error["message"].as_str().expect("a message");
            assert!(message.contains(said), "{said} in {message}");
        }
    }
    // One that texts cannot be held to is named where a call is demanded.
    request["tools"][0]["format"]["definition"] = json!("(?<=a)b");
    let reply = ask(&server, "/v1/responses", request.clone()).await;
    let error = reply.json()["error"].clone();
    assert_eq!(error["param"], "tools[0].format.definition", "{error}");
    request["tool_choice"] = json!("auto");
    let reply = respond(&server, request).await;
    let ignored = reply.header("x-ignored-fields");
    assert_eq!(ignored, Some("tools[0].format"));
}

#[tokio::test]
async fn tools_within_the_input_join_the_others() {
    let called =
        r#"<tool_call>{"name": "functions__exec", "arguments": {"input": "ls"}}</tool_call>"#;
    let server = server(AS_JSON, &[(r#""name": "functions__exec""#, called)]).await;
    let exec = json!({ "type": "custom", "name": "exec", "description": "runs" });
    let tools = json!([{ "type": "namespace", "name": "functions", "tools": [exec] }, { "type": "web_search" }]);
    let more = json!({ "type": "additional_tools", "role": "developer", "tools": tools });
    let request = json!({ "input": [more, user("Hi"), more], "tools": [function("shell")] });
    let reply = respond(&server, request).await;
    let call = reply.json()["output"][0].clone();
    assert_eq!(
        (
            &call["type"],
            &call["namespace"],
            &call["name"],
            &call["input"]
        ),
        (
            &json!("custom_tool_call"),
            &json!("functions"),
            &json!("exec"),
            &json!("ls")
        )
    );
    assert_eq!(
        reply.header("x-ignored-fields"),
        Some("input[0].tools[1]:web_search, input[2].tools[1]:web_search")
    );
}

#[tokio::test]
async fn a_chat_takes_what_responses_take() {
    // A model that thinks would think without end here.
    let template = AS_JSON.replace("<think></think>", "");
    let server = server(&template, &[(r#""name": "g""#, "No."), ("", "Ok.")]).await;
    let tool = |name: &str| json!({ "type": "function", "function": { "name": name } });
    for extra in [
        json!({ "verbosity": "low", "store": true, "service_tier": "flex" }),
        json!({ "tools": [tool("f"), tool("g")], "tool_choice": { "type": "allowed_tools", "allowed_tools": { "mode": "auto", "tools": [tool("f")] } } }),
    ] {
        let mut body = question("chat", "Hi");
        for (name, value) in extra.as_object().expect("an object") {
            body[name] = value.clone();
        }
        let reply = server.chat(&body).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        assert_eq!(
            reply.json()["choices"][0]["message"]["content"],
            "Ok.",
            "{extra}"
        );
    }
    let mut body = question("chat", "Hi");
    body["tools"] = json!([tool("f"), tool("g")]);
    for (choice, finish) in [
        (tool("f"), "stop"),
        (json!("required"), "tool_calls"),
        (
            json!({ "type": "allowed_tools", "allowed_tools": { "mode": "required", "tools": [tool("f")] } }),
            "tool_calls",
        ),
    ] {
        body["tool_choice"] = choice;
        body["parallel_tool_calls"] = json!(false);
        let answer = server.chat(&body).await.json();
        let choice = &answer["choices"][0];
        assert_eq!(choice["finish_reason"], finish, "{answer}");
        if body["tool_choice"] != "required" {
            assert_eq!(choice["message"]["tool_calls"][0]["function"]["name"], "f");
        }
    }
}

#[tokio::test]
async fn a_conversation_is_summed_up_to_an_item_that_stands_for_it() {
    let server = server(
        AS_JSON,
        &[
            ("The user likes tea.", "Tea it is."),
            ("Sum up", "The user likes tea."),
        ],
    )
    .await;
    let call = json!({ "type": "function_call", "call_id": "c", "name": "f", "arguments": "{}" });
    let output = json!({ "type": "function_call_output", "call_id": "c", "output": "no coffee" });
    let asked = json!({ "input": [user("Make some."), call, output], "instructions": "Be kind.", "tools": [function("f")], "stream": true });
    for path in ["/v1/responses/compact", "/v3/responses/compact"] {
        let reply = ask(&server, path, asked.clone()).await;
        let answer = reply.json();
        assert_eq!(
            (reply.status, &answer["object"]),
            (200, &json!("response.compaction"))
        );
        assert!(answer["usage"]["output_tokens"].as_u64() > Some(0));
        let mut items = answer["output"].as_array().expect("items").clone();
        let kinds: Vec<&Value> = items.iter().map(|item| &item["type"]).collect();
        assert_eq!(kinds, ["message", "compaction"]);
        let said = &items[0];
        assert_eq!(
            (&said["role"], &said["status"]),
            (&json!("user"), &json!("completed"))
        );
        assert_eq!(
            said["content"][0],
            json!({ "type": "input_text", "text": "Make some." })
        );
        let id = said["id"].as_str();
        assert!(
            id.is_some_and(|id| id.starts_with("msg_") && id.ends_with("_0")),
            "{said}"
        );
        items.push(user("And now?"));
        let answer = respond(&server, json!({ "input": items })).await.json();
        assert_eq!(answer["output"][0]["content"][0]["text"], "Tea it is.");
    }
    // What others wrote is secret.
    let foreign = json!({ "type": "compaction", "encrypted_content": "gAAAA" });
    let reply = respond(&server, json!({ "input": [foreign, user("Sum up")] })).await;
    assert_eq!(
        reply.header("x-ignored-fields"),
        Some("input[0]:compaction")
    );
}
