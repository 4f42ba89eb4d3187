//! Questions about prompts, asked of the shipped chat graph: what the model would see, without an
//! answer of the model.

use super::{Chat, GRAPH, body, script};
use graphmill_calculators::payload::HttpResponse;
use graphmill_engine::Kind;
use serde_json::{Value, json};

/// The answer to a question, which the model has no part in.
fn asked(chat: &Chat, uri: &str, request: &Value) -> Value {
    let before = chat.model.engine().status();
    let answer = body(&chat.ask(uri, request));
    let after = chat.model.engine().status();
    assert_eq!(
        (before.generated_tokens, before.prompt_tokens),
        (after.generated_tokens, after.prompt_tokens),
        "{uri} computed something"
    );
    answer
}

fn conversation(text: &str) -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": text}]})
}

#[test]
fn a_text_is_tokenized_as_in_a_completion() {
    let chat = Chat::new(&script(&[]));
    // the scripted model's tokens are bytes
    let answer = asked(
        &chat,
        "/v3/tokenize",
        &json!({"model": "m", "text": "Hi <|im_end|>"}),
    );
    let bytes: Vec<u8> = "Hi <|im_end|>".bytes().collect();
    assert_eq!(answer["tokens"], json!(bytes));
    assert_eq!(answer["count"], bytes.len());
    assert_eq!(
        answer["max_model_len"],
        chat.model.engine().context_length()
    );
    let completion = body(&chat.ask(
        "/v3/completions",
        &json!({"model": "m", "prompt": "Hi <|im_end|>", "max_tokens": 1}),
    ));
    assert_eq!(completion["usage"]["prompt_tokens"], bytes.len());
}

#[test]
fn several_texts_have_a_list_each_cut_or_filled_to_a_length() {
    let chat = Chat::new(&script(&[]));
    let tokens = |extra: Value| {
        let mut request = json!({"model": "m", "text": ["abcd", "e"]});
        let fields = request.as_object_mut().expect("an object");
        fields.extend(extra.as_object().expect("an object").clone());
        asked(&chat, "/v1/tokenize", &request)["tokens"].clone()
    };
    let pad = chat.model.vocab().pad().expect("a token to fill with");
    assert_eq!(tokens(json!({})), json!([[97, 98, 99, 100], [101]]));
    assert_eq!(
        tokens(json!({"max_length": 3})),
        json!([[97, 98, 99], [101]])
    );
    assert_eq!(
        tokens(json!({"max_length": 3, "pad_to_max_length": true})),
        json!([[97, 98, 99], [101, pad, pad]])
    );
    assert_eq!(
        tokens(json!({"max_length": 3, "pad_to_max_length": true, "padding_side": "left"})),
        json!([[97, 98, 99], [pad, pad, 101]])
    );
    assert_eq!(tokens(json!({"text": ["e"]})), json!([[101]]));
}

#[test]
fn the_spellings_of_other_servers_are_understood() {
    let chat = Chat::new(&script(&[]));
    let special = chat.model.vocab().eos().expect("a token that ends");
    // llama-server: special tokens are read, pieces are listed
    let answer = asked(
        &chat,
        "/tokenize",
        &json!({"content": "a<|im_end|>é", "with_pieces": true}),
    );
    assert_eq!(
        answer["tokens"],
        json!([
            {"id": 97, "piece": "a"}, {"id": special, "piece": "<|im_end|>"},
            {"id": 0xC3, "piece": [0xC3]}, {"id": 0xA9, "piece": [0xA9]},
        ])
    );
    // vLLM: a text, or a conversation
    let answer = asked(
        &chat,
        "/tokenize",
        &json!({"model": "m", "prompt": "ab", "return_token_strs": true}),
    );
    assert_eq!(answer["token_strs"], json!(["a", "b"]));
    let of_chat = asked(&chat, "/tokenize", &conversation("Hi"));
    let rendered = asked(&chat, "/v1/chat/completions/render", &conversation("Hi"));
    assert_eq!(of_chat["tokens"], rendered["token_ids"]);
}

#[test]
fn tokens_become_the_text_they_are_of() {
    let chat = Chat::new(&script(&[]));
    let tokens = asked(
        &chat,
        "/tokenize",
        &json!({"content": "<|im_start|>Grüße 🙂"}),
    )["tokens"]
        .clone();
    let answer = asked(&chat, "/v3/detokenize", &json!({"tokens": tokens}));
    assert_eq!(answer["prompt"], "<|im_start|>Grüße 🙂");
    assert_eq!(answer["content"], answer["prompt"]);
    assert_eq!(
        asked(&chat, "/detokenize", &json!({"tokens": []}))["prompt"],
        ""
    );
}

#[test]
fn a_rendered_conversation_is_the_prompt_that_is_computed() {
    let chat = Chat::new(&script(&[("", "Yes.")]));
    let prompt = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
    for path in ["/v1/chat/completions/render", "/v3/apply-template"] {
        let answer = asked(&chat, path, &conversation("Hi"));
        assert_eq!(answer["prompt"], prompt);
        let again = asked(
            &chat,
            "/detokenize",
            &json!({"tokens": answer["token_ids"]}),
        );
        assert_eq!(again["content"], prompt);
        let usage = body(&chat.ask("/v1/chat/completions", &conversation("Hi")))["usage"].clone();
        assert_eq!(answer["count"], usage["prompt_tokens"]);
    }
    let several = asked(
        &chat,
        "/v1/completions/render",
        &json!({"model": "m", "prompt": ["a", "bc"]}),
    );
    let texts: Vec<&Value> = several["prompts"]
        .as_array()
        .expect("prompts")
        .iter()
        .map(|prompt| &prompt["prompt"])
        .collect();
    assert_eq!(texts, ["a", "bc"]);
}

#[test]
fn an_explanation_says_what_the_request_would_take() {
    let chat = Chat::new(&script(&[("", "A long enough answer.")]));
    let mut request = conversation("What is there to say about prefixes?");
    request["max_tokens"] = json!(4);
    let first = asked(&chat, "/v3/chat/completions?explain=1", &request);
    assert_eq!(first["prompts"][0]["cached_tokens"], 0);
    let usage = body(&chat.ask("/v3/chat/completions", &request))["usage"].clone();
    assert_eq!(first["prompts"][0]["count"], usage["prompt_tokens"]);
    assert_eq!(
        first["prompts"][0]["kv_cells"]["most"],
        usage["prompt_tokens"].as_u64().expect("a count") + 4
    );
    chat.wait_until_idle();
    // what was computed before is known, and what the explanation says comes true
    let second = asked(&chat, "/v3/chat/completions?explain=1", &request);
    let cached = second["prompts"][0]["cached_tokens"].clone();
    assert!(cached.as_u64() > Some(16), "{second:#}");
    let usage = body(&chat.ask("/v3/chat/completions", &request))["usage"].clone();
    assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], cached);
}

#[test]
fn an_explanation_says_who_set_each_value() {
    let graph = GRAPH.replacen(
        r#"output_stream: "PARAMS:params""#,
        r#"output_stream: "PARAMS:params"
           node_options: { [type.googleapis.com/graphmill.OpenAIRequestCalculatorOptions] { temperature: 0.5 top_k: 7 } }"#,
        1,
    );
    let chat = Chat::with_graph(&graph, &script(&[]));
    let request = json!({"model": "m", "prompt": "a", "top_k": 3});
    let answer = asked(&chat, "/v1/completions?explain=true", &request);
    let parameters = &answer["parameters"];
    assert_eq!(
        parameters["top_k"],
        json!({"value": 3, "source": "request"})
    );
    assert_eq!(
        parameters["temperature"],
        json!({"value": 0.5, "source": "graph"})
    );
    assert_eq!(
        parameters["min_p"],
        json!({"value": 0.0, "source": "default"})
    );
    let context = chat.model.engine().context_length();
    assert_eq!(
        parameters["max_tokens"],
        json!({"value": context, "source": "model"})
    );
}

#[test]
fn what_cannot_be_answered_is_refused_by_name() {
    let chat = Chat::new(&script(&[]));
    for (uri, request, field) in [
        ("/tokenize", json!({}), Some("text")),
        ("/tokenize", json!({"text": 1}), Some("text")),
        ("/tokenize", json!({"text": []}), Some("text")),
        ("/tokenize", json!({"text": ["a", 1]}), Some("text[1]")),
        (
            "/tokenize",
            json!({"text": "a", "prompt": "b"}),
            Some("prompt"),
        ),
        (
            "/tokenize",
            json!({"text": "a", "max_length": 0}),
            Some("max_length"),
        ),
        (
            "/tokenize",
            json!({"text": "a", "pad_to_max_length": true}),
            Some("max_length"),
        ),
        (
            "/tokenize",
            json!({"text": "a", "padding_side": "top"}),
            Some("padding_side"),
        ),
        (
            "/tokenize",
            json!({"text": "a", "add_special_tokens": "no"}),
            Some("add_special_tokens"),
        ),
        ("/detokenize", json!({}), Some("tokens")),
        (
            "/detokenize",
            json!({"tokens": [97, -1]}),
            Some("tokens[1]"),
        ),
        (
            "/detokenize",
            json!({"tokens": [97, 1_000_000]}),
            Some("tokens[1]"),
        ),
        (
            "/tokenize",
            json!({"text": vec!["a"; 1024], "max_length": 1000, "pad_to_max_length": true}),
            Some("max_length"),
        ),
        ("/apply-template", json!({"model": "m"}), Some("messages")),
        (
            "/apply-template",
            json!({"messages": [{"role": "user", "content": "a"}], "stream_options": {"include_usage": true}}),
            Some("stream_options"),
        ),
        (
            "/v1/chat/completions/render",
            json!({"model": "m", "messages": [{"role": "user", "content": "a"}], "priority": 11}),
            Some("priority"),
        ),
        (
            "/v1/completions/render",
            json!({"model": "m", "prompt": "a", "stop_token_ids": [1_000_000]}),
            Some("stop_token_ids"),
        ),
        (
            "/v1/completions/render",
            json!({"model": "m", "prompt": [97, 1_000_000]}),
            Some("prompt"),
        ),
        (
            "/v1/completions?explain=maybe",
            json!({"model": "m", "prompt": "a"}),
            Some("explain"),
        ),
        (
            "/v1/completions?explain=1",
            json!({"model": "m", "prompt": "a", "logit_bias": {"99999": 1}}),
            Some("logit_bias"),
        ),
    ] {
        let error = chat.refusal(uri, &request);
        assert_eq!(
            error.kind,
            Kind::InvalidArgument,
            "{uri} {request}: {error}"
        );
        assert_eq!(error.field.as_deref(), field, "{uri} {request}: {error}");
    }
    let context = chat.model.engine().context_length();
    let long = json!({"model": "m", "prompt": "x".repeat(context)});
    let error = chat.refusal("/v1/completions?explain=1", &long);
    assert_eq!(error.code.as_deref(), Some("context_length_exceeded"));
}

#[test]
fn a_graph_without_the_node_answers_no_questions() {
    let graph = GRAPH
        .replace("  output_stream: \"QUESTION:question\"\n", "")
        .replace("  input_stream: \"REPORT:report\"\n", "");
    let node = graph
        .find("node {\n  name: \"prompt_report\"")
        .expect("the node");
    let end = node + graph[node..].find("\n}\n").expect("its end") + 3;
    let graph = format!("{}{}", &graph[..node], &graph[end..]);
    let chat = Chat::with_graph(&graph, &script(&[("", "Yes.")]));
    let error = chat.refusal("/v3/tokenize", &json!({"model": "m", "text": "a"}));
    assert_eq!(
        (error.kind, error.code.as_deref()),
        (Kind::NotFound, Some("unknown_endpoint"))
    );
    let answer = chat.ask("/v3/chat/completions", &conversation("Hi"));
    assert!(matches!(answer[..], [HttpResponse::Body { .. }]));
}
