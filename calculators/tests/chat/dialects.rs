//! OpenAI's responses and Anthropic's messages, asked of the shipped chat graph.

use super::{Chat, body, events, script, wire};
use graphmill_engine::Kind;
use serde_json::{Value, json};

fn rendered(chat: &Chat, uri: &str, request: &Value) -> String {
    let answer = body(&chat.ask(&format!("{uri}?explain=1"), request));
    let prompt = &answer["prompts"][0]["prompt"];
    prompt.as_str().expect("a prompt").to_owned()
}

#[test]
fn a_response_has_the_answer_and_what_was_asked() {
    let chat = Chat::new(&script(&[("", "Hello there.")]));
    let request = json!({
        "model": "m", "input": "Hi", "instructions": "Be kind.", "temperature": 0.0,
        "metadata": {"a": "b"}, "store": true, "max_output_tokens": 40,
    });
    let answer = body(&chat.ask("/v1/responses", &request));
    assert_eq!(answer["object"], "response");
    assert_eq!(answer["status"], "completed");
    assert_eq!(answer["instructions"], "Be kind.");
    assert_eq!(answer["max_output_tokens"], 40);
    assert_eq!(answer["metadata"], json!({"a": "b"}));
    assert_eq!(answer["store"], false);
    let item = &answer["output"][0];
    assert_eq!(
        (&item["type"], &item["role"]),
        (&json!("message"), &json!("assistant"))
    );
    assert_eq!(
        item["content"],
        json!([{"type": "output_text", "text": "Hello there.", "annotations": [], "logprobs": []}])
    );
    let usage = &answer["usage"];
    assert_eq!(usage["output_tokens"], "Hello there.".len() + 1);
    assert_eq!(
        rendered(&chat, "/v1/responses", &request),
        "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    );
}

#[test]
fn a_streamed_response_tells_its_parts_in_order() {
    let chat = Chat::new(&script(&[("", "Hé🙂")]));
    let request = json!({"model": "m", "input": "Hi", "stream": true});
    let out = chat.ask("/v3/responses", &request);
    insta::assert_snapshot!(wire(&out), @r#"
    response.created {"response":{"id":"*0","object":"response","created_at":*2,"model":"m","error":null,"status":"in_progress","incomplete_details":null,"output":[],"usage":null,"instructions":null,"max_output_tokens":null,"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":null,"summary":null},"background":false,"store":false,"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"top_logprobs":0,"truncation":"disabled","user":null,"metadata":{},"service_tier":"default","temperature":1.0,"top_p":1.0},"type":"response.created","sequence_number":0}
    response.in_progress {"response":{"id":"*0","object":"response","created_at":*2,"model":"m","error":null,"status":"in_progress","incomplete_details":null,"output":[],"usage":null,"instructions":null,"max_output_tokens":null,"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":null,"summary":null},"background":false,"store":false,"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"top_logprobs":0,"truncation":"disabled","user":null,"metadata":{},"service_tier":"default","temperature":1.0,"top_p":1.0},"type":"response.in_progress","sequence_number":1}
    response.output_item.added {"output_index":0,"item":{"id":"*1","type":"message","role":"assistant","content":[],"status":"in_progress"},"type":"response.output_item.added","sequence_number":2}
    response.content_part.added {"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]},"item_id":"*1","output_index":0,"content_index":0,"type":"response.content_part.added","sequence_number":3}
    response.output_text.delta {"delta":"H","item_id":"*1","output_index":0,"content_index":0,"logprobs":[],"type":"response.output_text.delta","sequence_number":4}
    response.output_text.delta {"delta":"é","item_id":"*1","output_index":0,"content_index":0,"logprobs":[],"type":"response.output_text.delta","sequence_number":5}
    response.output_text.delta {"delta":"🙂","item_id":"*1","output_index":0,"content_index":0,"logprobs":[],"type":"response.output_text.delta","sequence_number":6}
    response.output_text.done {"text":"Hé🙂","logprobs":[],"item_id":"*1","output_index":0,"content_index":0,"type":"response.output_text.done","sequence_number":7}
    response.content_part.done {"part":{"type":"output_text","text":"Hé🙂","annotations":[],"logprobs":[]},"item_id":"*1","output_index":0,"content_index":0,"type":"response.content_part.done","sequence_number":8}
    response.output_item.done {"output_index":0,"item":{"id":"*1","type":"message","role":"assistant","content":[{"type":"output_text","text":"Hé🙂","annotations":[],"logprobs":[]}],"status":"completed"},"type":"response.output_item.done","sequence_number":9}
    response.completed {"response":{"id":"*0","object":"response","created_at":*2,"model":"m","error":null,"status":"completed","incomplete_details":null,"output":[{"id":"*1","type":"message","role":"assistant","content":[{"type":"output_text","text":"Hé🙂","annotations":[],"logprobs":[]}],"status":"completed"}],"usage":{"input_tokens":21,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":8,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":29},"instructions":null,"max_output_tokens":null,"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":null,"summary":null},"background":false,"store":false,"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"top_logprobs":0,"truncation":"disabled","user":null,"metadata":{},"service_tier":"default","temperature":1.0,"top_p":1.0},"type":"response.completed","sequence_number":10}
    End
    "#);
    let events = events(&out);
    let last = &events.last().expect("events")["response"];
    let mut whole = body(&chat.ask("/v3/responses", &json!({"model": "m", "input": "Hi"})));
    let mut streamed = last.clone();
    for answer in [&mut whole, &mut streamed] {
        for different in ["id", "created_at", "usage"] {
            answer[different] = Value::Null;
        }
        answer["output"][0]["id"] = Value::Null;
    }
    assert_eq!(streamed, whole);
}

#[test]
fn an_answer_that_was_cut_off_says_so() {
    let chat = Chat::new(&script(&[("", "A long answer.")]));
    let request = json!({"model": "m", "input": "Hi", "max_output_tokens": 3});
    let answer = body(&chat.ask("/v1/responses", &request));
    assert_eq!(answer["status"], "incomplete");
    assert_eq!(
        answer["incomplete_details"],
        json!({"reason": "max_output_tokens"})
    );
    assert_eq!(answer["output"][0]["status"], "incomplete");
    let request =
        json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 3});
    let answer = body(&chat.ask("/v1/messages", &request));
    assert_eq!(answer["stop_reason"], "max_tokens");
}

#[test]
fn a_message_has_the_answer_in_blocks() {
    let chat = Chat::new(&script(&[("", "Hello there.")]));
    let request = json!({
        "model": "m", "max_tokens": 40, "system": [{"type": "text", "text": "Be kind."}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]}],
    });
    let answer = body(&chat.ask("/v1/messages", &request));
    assert_eq!(
        (&answer["type"], &answer["role"]),
        (&json!("message"), &json!("assistant"))
    );
    assert_eq!(answer["content"][0]["text"], "Hello there.");
    assert_eq!(answer["stop_reason"], "end_turn");
    assert_eq!(answer["stop_sequence"], Value::Null);
    assert_eq!(answer["usage"]["output_tokens"], "Hello there.".len() + 1);
    let prompt = rendered(&chat, "/v1/messages", &request);
    assert_eq!(
        prompt,
        "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    );
    let count = body(&chat.ask("/v1/messages/count_tokens", &request));
    let usage = &answer["usage"];
    let input = |name: &str| usage[name].as_u64().expect("a count");
    let input_tokens = input("input_tokens") + input("cache_read_input_tokens");
    assert_eq!(count, json!({ "input_tokens": input_tokens }));
}

#[test]
fn a_last_message_of_the_assistant_without_text_is_continued_too() {
    let chat = Chat::new(&script(&[("", "Yes.")]));
    for content in [json!(""), json!([])] {
        let request = json!({"model": "m", "messages": [
            {"role": "user", "content": "Hi"}, {"role": "assistant", "content": content},
        ]});
        let answer = body(&chat.ask("/v1/messages", &request));
        assert_eq!(answer["content"][0]["text"], "Yes.");
    }
}

#[test]
fn a_streamed_message_tells_its_blocks_in_order() {
    let chat = Chat::new(&script(&[("", "a b c")]));
    let request = json!({
        "model": "m", "max_tokens": 40, "stream": true, "stop_sequences": ["zz", " c"],
        "messages": [{"role": "user", "content": "Hi"}],
    });
    insta::assert_snapshot!(wire(&chat.ask("/v1/messages", &request)), @r#"
    message_start {"type":"message_start","message":{"id":"*0","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":21,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0}}}
    ping {"type":"ping"}
    content_block_start {"type":"content_block_start","content_block":{"type":"text","text":""},"index":0}
    content_block_delta {"type":"content_block_delta","delta":{"type":"text_delta","text":"a"},"index":0}
    content_block_delta {"type":"content_block_delta","delta":{"type":"text_delta","text":" b"},"index":0}
    content_block_stop {"type":"content_block_stop","index":0}
    message_delta {"type":"message_delta","delta":{"stop_reason":"stop_sequence","stop_sequence":" c"},"usage":{"input_tokens":21,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":5}}
    message_stop {"type":"message_stop"}
    End
    "#);
}

#[test]
fn calls_and_their_results_reach_the_template() {
    let chat = Chat::new(&script(&[]));
    let chat_form = json!({"model": "m", "messages": [
        {"role": "user", "content": "How warm is it?"},
        {"role": "assistant", "content": "", "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "warmth", "arguments": "{\"place\": \"here\"}"}},
        ]},
        {"role": "tool", "tool_call_id": "c1", "content": "21"},
        {"role": "user", "content": "And now?"},
    ]});
    let expected = rendered(&chat, "/v1/chat/completions", &chat_form);
    let as_items = json!({"model": "m", "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "How warm is it?"}]},
        {"type": "function_call", "call_id": "c1", "name": "warmth", "arguments": "{\"place\": \"here\"}"},
        {"type": "function_call_output", "call_id": "c1", "output": "21"},
        {"type": "message", "role": "user", "content": "And now?"},
    ]});
    assert_eq!(rendered(&chat, "/v1/responses", &as_items), expected);
    let as_blocks = json!({"model": "m", "max_tokens": 1, "messages": [
        {"role": "user", "content": "How warm is it?"},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "c1", "name": "warmth", "input": {"place": "here"}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "21"}]},
            {"type": "text", "text": "And now?"},
        ]},
    ]});
    assert_eq!(rendered(&chat, "/v1/messages", &as_blocks), expected);
}

#[test]
fn what_cannot_be_honored_is_refused_in_the_words_of_the_dialect() {
    let chat = Chat::new(&script(&[]));
    let responses = |extra: Value| ("/v1/responses", json!({"model": "m", "input": "Hi"}), extra);
    let messages = |extra: Value| {
        let least =
            json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]});
        ("/v1/messages", least, extra)
    };
    for ((uri, mut request, extra), field) in [
        (responses(json!({"input": null})), "input"),
        (responses(json!({"input": []})), "input"),
        (responses(json!({"input": 3})), "input"),
        (responses(json!({"input": ["Hi"]})), "input[0]"),
        (
            responses(json!({"input": [{"role": "nobody", "content": ""}]})),
            "input[0].role",
        ),
        (
            responses(json!({"input": [{"role": "user"}]})),
            "input[0].content",
        ),
        (
            responses(json!({"input": [{"role": "user", "content": [{"type": "input_image"}]}]})),
            "input[0].content[0].image_url",
        ),
        (
            responses(json!({"input": [{"type": "item_reference", "id": "x"}]})),
            "input[0].type",
        ),
        (
            responses(json!({"previous_response_id": "resp_1"})),
            "previous_response_id",
        ),
        (responses(json!({"conversation": "conv_1"})), "conversation"),
        (responses(json!({"background": true})), "background"),
        (responses(json!({"truncation": "auto"})), "truncation"),
        (responses(json!({"store": "yes"})), "store"),
        (
            responses(json!({"max_output_tokens": 0})),
            "max_output_tokens",
        ),
        (responses(json!({"temperature": 9})), "temperature"),
        (
            responses(json!({"tools": [{"type": "something"}]})),
            "tools[0].type",
        ),
        (
            responses(json!({"tools": [{"type": "function"}]})),
            "tools[0].name",
        ),
        (
            responses(json!({"text": {"format": {"type": "xml"}}})),
            "text.format.type",
        ),
        (
            responses(json!({"include": ["message.output_text.logprobs"]})),
            "include[0]",
        ),
        (responses(json!({"n": 2})), "n"),
        (messages(json!({"messages": []})), "messages"),
        (
            messages(json!({"messages": [{"role": "user"}]})),
            "messages[0].content",
        ),
        (
            messages(json!({"messages": [{"role": "tool", "content": ""}]})),
            "messages[0].role",
        ),
        (
            messages(json!({"messages": [{"role": "user", "content": [{"type": "image"}]}]})),
            "messages[0].content[0].source",
        ),
        (messages(json!({"max_tokens": 0})), "max_tokens"),
        (
            messages(json!({"stop_sequences": [1]})),
            "stop_sequences[0]",
        ),
        (
            messages(json!({"tools": [{"name": "f"}]})),
            "tools[0].input_schema",
        ),
        (
            messages(json!({"tools": [{"type": "something", "name": "f"}]})),
            "tools[0].type",
        ),
        (
            messages(json!({"tool_choice": {"type": "some"}})),
            "tool_choice.type",
        ),
        (
            messages(json!({"thinking": {"type": "deep"}})),
            "thinking.type",
        ),
        (messages(json!({"mcp_servers": [{}]})), "mcp_servers"),
    ] {
        let fields = request.as_object_mut().expect("an object");
        fields.extend(extra.as_object().expect("an object").clone());
        let error = chat.refusal(uri, &request);
        assert_eq!(
            error.kind,
            Kind::InvalidArgument,
            "{uri} {request}: {error}"
        );
        assert_eq!(
            error.field.as_deref(),
            Some(field),
            "{uri} {request}: {error}"
        );
        assert!(error.message.contains(&format!("`{field}`")), "{error}");
    }
}
