//! Conversations as clients send them back: with calls that went wrong, and in forms that a chat
//! template refuses.

use serde_json::{Value, json};

use crate::rest::agents::{AS_JSON, ask, server};
use crate::rest::support::TestServer;

/// What all templates here end with.
const END: &str = "{{ '<|im_start|>assistant\n' }}";

/// Writes each message as a turn, behind what `refuses` says of it.
fn template(refuses: &str) -> String {
    format!(
        "{{% for m in messages %}}{refuses}<|im_start|>{{{{ m.role }}}}\n{{{{ m.thinking }}}}{{{{ m.content }}}}<|im_end|>\n{{% endfor %}}{END}"
    )
}

async fn told(server: &TestServer, path: &str, body: Value) -> String {
    let reply = ask(server, path, body).await;
    assert_eq!(reply.status, 200, "{path}: {}", reply.text);
    let answer = reply.json();
    let texts = [
        "/choices/0/message/content",
        "/output/0/content/0/text",
        "/content/0/text",
    ];
    let text = texts.iter().find_map(|at| answer.pointer(at)?.as_str());
    text.unwrap_or_else(|| panic!("{answer}")).to_owned()
}

#[tokio::test]
async fn arguments_that_are_no_object_are_no_reason_to_refuse() {
    let of_objects = format!(
        "{{% for m in messages %}}{{% for c in m.tool_calls or [] %}}{{% for k, v in c.function.arguments | items %}}{{{{ k }}}}={{{{ v }}}}{{% endfor %}}{{% endfor %}}{{% endfor %}}{END}"
    );
    for template in [AS_JSON, &of_objects] {
        let server = server(template, &[("marked", "Seen."), ("", "Ok.")]).await;
        for arguments in [
            "{\"path\": \"marked/a",
            "{\"q\": \"He said \"marked\"\"}",
            "[\"marked\"]",
            "\"marked\"",
            "{\"q\": \"marked \\ud83d\"}",
            "{\"q\": 1e400, \"r\": \"marked\"}",
            "{'q': 'marked'}",
            "null",
            "",
            "{}",
        ] {
            let function = json!({ "name": "write", "arguments": arguments });
            let chat = json!({ "messages": [
                { "role": "user", "content": "hi" },
                { "role": "assistant", "content": null, "tool_calls": [{ "id": "c", "type": "function", "function": function }] },
                { "role": "tool", "tool_call_id": "c", "content": "not run" },
            ] });
            let response = json!({ "input": [
                { "role": "user", "content": "hi" },
                { "type": "function_call", "call_id": "c", "name": "write", "arguments": arguments },
                { "type": "function_call_output", "call_id": "c", "output": "not run" },
            ] });
            let expected = if arguments.contains("marked") {
                "Seen."
            } else {
                "Ok."
            };
            for (path, body) in [("/v1/chat/completions", chat), ("/v1/responses", response)] {
                assert_eq!(told(&server, path, body).await, expected, "{arguments}");
            }
        }
    }
}

#[tokio::test]
async fn system_messages_that_a_template_does_not_take_are_merged() {
    let refusing = template(
        "{% if m.role == 'system' and not loop.first %}{{ raise_exception('first only') }}{% endif %}",
    );
    let dropping = "{% for m in messages %}{% if m.role != 'system' or loop.first %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endif %}{% endfor %}";
    let dropping = format!("{dropping}{END}");
    let taking = template("");
    let merged = "system\nalpha\n\nbeta<|im_end|>\n<|im_start|>user\nhi";
    for (template, is_merged) in [(&refusing, true), (&dropping, true), (&taking, false)] {
        let server = server(
            template,
            &[(merged, "Merged."), ("beta", "Told."), ("", "No.")],
        )
        .await;
        let expected = if is_merged { "Merged." } else { "Told." };
        let message = |role: &str, text: &str| json!({ "role": role, "content": text });
        let (alpha, beta) = (message("system", "alpha"), message("developer", "beta"));
        let user = message("user", "hi");
        for messages in [
            json!([alpha, beta, user]),
            json!([alpha, user, message("assistant", "x"), beta, user]),
        ] {
            let body = json!({ "messages": messages });
            assert_eq!(told(&server, "/v1/chat/completions", body).await, expected);
        }
        let response = json!({ "instructions": "alpha", "input": [beta, user] });
        assert_eq!(told(&server, "/v1/responses", response).await, expected);
        let within =
            json!({ "system": "alpha", "messages": [user, message("system", "beta"), user] });
        assert_eq!(told(&server, "/v1/messages", within).await, expected);
        if is_merged {
            let later = json!({ "messages": [user, beta, user] });
            assert_eq!(told(&server, "/v1/chat/completions", later).await, "Told.");
        }
    }
}

#[tokio::test]
async fn a_template_with_one_place_for_thoughts_and_words_gets_both_there() {
    let oss = template(
        "{% if m.tool_calls and m.content and m.thinking %}{{ raise_exception('not both') }}{% endif %}",
    );
    let server = server(&oss, &[("I think.\nI say.", "Both."), ("", "No.")]).await;
    let chat = json!({ "messages": [
        { "role": "user", "content": "hi" },
        { "role": "assistant", "content": "I say.", "reasoning_content": "I think.", "tool_calls": [
            { "id": "c", "type": "function", "function": { "name": "f", "arguments": "{}" } },
        ] },
        { "role": "tool", "tool_call_id": "c", "content": "1" },
    ] });
    assert_eq!(told(&server, "/v1/chat/completions", chat).await, "Both.");
    let message = json!({ "messages": [
        { "role": "user", "content": "hi" },
        { "role": "assistant", "content": [
            { "type": "thinking", "thinking": "I think.", "signature": "" }, { "type": "text", "text": "I say." },
            { "type": "tool_use", "id": "c", "name": "f", "input": {} },
        ] },
        { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "c", "content": "1" }] },
    ] });
    assert_eq!(told(&server, "/v1/messages", message).await, "Both.");
}

#[tokio::test]
async fn a_model_that_takes_no_images_is_told_of_those_in_results() {
    let line = "before\n[An image is here, which this model cannot see.]after";
    let taking = template("");
    let server = server(&taking, &[(line, "Told."), ("", "No.")]).await;
    let image = "data:image/png;base64,AAAA";
    let part = json!({ "type": "image_url", "image_url": { "url": image } });
    let text = |text: &str| json!({ "type": "text", "text": text });
    let chat = json!({ "messages": [
        { "role": "user", "content": "hi" },
        { "role": "assistant", "content": null, "tool_calls": [{ "id": "c", "type": "function", "function": { "name": "f", "arguments": "{}" } }] },
        { "role": "tool", "tool_call_id": "c", "content": [text("before\n"), part, text("after")] },
        { "role": "user", "content": "what is it" },
    ] });
    let response = json!({ "input": [
        { "role": "user", "content": "hi" },
        { "type": "function_call", "call_id": "c", "name": "view_image", "arguments": "{}" },
        { "type": "function_call_output", "call_id": "c", "output": [
            { "type": "input_text", "text": "before\n" }, { "type": "input_image", "image_url": image },
            { "type": "input_text", "text": "after" },
        ] },
        { "role": "user", "content": "what is it" },
    ] });
    let source = json!({ "type": "base64", "media_type": "image/png", "data": "AAAA" });
    let message = json!({ "messages": [
        { "role": "user", "content": "hi" },
        { "role": "assistant", "content": [{ "type": "tool_use", "id": "c", "name": "f", "input": {} }] },
        { "role": "user", "content": [
            { "type": "tool_result", "tool_use_id": "c", "content": [text("before\n"), { "type": "image", "source": source }, text("after")] },
            text("what is it"),
        ] },
    ] });
    let render = ask(&server, "/v1/chat/completions/render", chat.clone()).await;
    let prompt = render.json()["prompt"].as_str().map(str::to_owned);
    assert!(
        prompt.is_some_and(|it| it.contains(line)),
        "{}",
        render.text
    );
    for (path, body) in [
        ("/v1/chat/completions", chat),
        ("/v1/responses", response),
        ("/v1/messages", message),
    ] {
        assert_eq!(told(&server, path, body).await, "Told.", "{path}");
    }
    let seen = json!({ "messages": [{ "role": "user", "content": [part] }] });
    let reply = ask(&server, "/v1/chat/completions", seen).await;
    assert_eq!(
        (reply.status, &reply.json()["error"]["param"]),
        (400, &json!("messages[0].content[0]"))
    );
}

#[tokio::test]
async fn blocks_of_messages_are_told_as_text_or_left_out_by_name() {
    let taking = template("");
    let marks = [
        "The sky is green.",
        "The tool `Bash` can be called.",
        "All was said.",
    ];
    let replies: Vec<(&str, &str)> = marks.iter().map(|mark| (*mark, *mark)).collect();
    let server = server(&taking, &replies).await;
    let user = json!({ "role": "user", "content": "hi" });
    let call = json!({ "role": "assistant", "content": [{ "type": "tool_use", "id": "t", "name": "Bash", "input": {} }] });
    let result = |block: Value| {
        let result = json!({ "type": "tool_result", "tool_use_id": "t", "is_error": false, "content": [block] });
        json!({ "messages": [user, call, { "role": "user", "content": [result] }] })
    };
    let said = |blocks: Value| json!({ "messages": [user, { "role": "user", "content": blocks }] });
    let document = json!({ "type": "document", "title": "Colors", "source": { "type": "text", "media_type": "text/plain", "data": "The sky is green." } });
    let parts = json!({ "type": "document", "source": { "type": "content", "content": [{ "type": "text", "text": "The sky is green." }] } });
    let found = json!({ "type": "search_result", "source": "s", "title": "t", "content": [{ "type": "text", "text": "The sky is green." }] });
    let summed_up = json!({ "messages": [user, call, { "role": "assistant", "content": [{ "type": "compaction", "content": "All was said." }] }, user] });
    for (body, expected) in [
        (said(json!([document])), marks[0]),
        (said(json!([parts])), marks[0]),
        (said(json!([found])), marks[0]),
        (result(document), marks[0]),
        (result(found), marks[0]),
        (
            result(json!({ "type": "tool_reference", "tool_name": "Bash" })),
            marks[1],
        ),
        (summed_up, marks[2]),
    ] {
        assert_eq!(
            told(&server, "/v1/messages?beta=true", body).await,
            expected
        );
    }
    let searched = json!([
        { "type": "server_tool_use", "id": "s", "name": "web_search", "input": {} },
        { "type": "web_search_tool_result", "tool_use_id": "s", "content": [] },
        { "type": "text", "text": "z" },
    ]);
    let body = json!({
        "messages": [user, { "role": "assistant", "content": searched }, user],
        "context_management": { "edits": [
            { "type": "clear_thinking_20251015", "keep": "all" }, { "type": "new_20300101", "trigger": {} },
        ] },
    });
    let reply = ask(&server, "/v1/messages", body).await;
    assert_eq!(
        (reply.status, reply.header("x-ignored-fields")),
        (
            200,
            Some(
                "context_management.edits[0]:clear_thinking_20251015, \
                 context_management.edits[1]:new_20300101, \
                 messages[1].content[0]:server_tool_use, messages[1].content[1]:web_search_tool_result"
            )
        ),
        "{}",
        reply.text
    );
    for (edits, ignored) in [
        (json!({}), None),
        (json!({ "edits": [] }), None),
        (json!({ "edit": [] }), Some("context_management.edit")),
    ] {
        let body = json!({ "messages": [user], "context_management": edits });
        let counted = ask(&server, "/v1/messages/count_tokens?beta=true", body.clone()).await;
        assert_eq!(
            (counted.status, counted.header("x-ignored-fields")),
            (200, None)
        );
        let reply = ask(&server, "/v1/messages", body).await;
        assert_eq!(
            (reply.status, reply.header("x-ignored-fields")),
            (200, ignored)
        );
    }
    let responses = json!({ "input": [
        { "role": "user", "content": "hi" },
        { "type": "web_search_call", "id": "w", "status": "completed", "action": { "type": "search", "query": "x" } },
        { "role": "user", "content": "hi" },
    ] });
    let reply = ask(&server, "/v1/responses", responses).await;
    assert_eq!(
        (reply.status, reply.header("x-ignored-fields")),
        (200, Some("input[1]:web_search_call"))
    );
}
