//! Bodies in; the request, or the field and message of the refusal, out.

use serde_json::{Value, json};

use super::*;
use crate::payload::{ChatInput, JsonBody, Prompt, RequestInput, media_marker};

#[expect(
    clippy::needless_pass_by_value,
    reason = "bodies are written where they are passed"
)]
fn read_body(path: &str, body: Value) -> Result<(TextRequest, GenerationParams)> {
    let payload = HttpRequestPayload {
        json: JsonBody::from_value(&body).ok().map(Arc::new),
        ..HttpRequestPayload::new(path, None)
    };
    let read = read(&payload, &Defaults::default(), &RunCx::new("1"))?;
    Ok((read.request, read.params))
}

/// A chat request with `extra` fields laid over the least that is valid.
fn chat(extra: Value) -> Result<(TextRequest, GenerationParams)> {
    read_body(
        "/v3/chat/completions",
        with(
            json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]}),
            extra,
        ),
    )
}

fn completion(extra: Value) -> Result<(TextRequest, GenerationParams)> {
    read_body(
        "/v1/completions",
        with(json!({"model": "m", "prompt": "hi"}), extra),
    )
}

fn with(mut body: Value, extra: Value) -> Value {
    let (Value::Object(body_fields), Value::Object(extra)) = (&mut body, extra) else {
        panic!("both are objects");
    };
    body_fields.extend(extra);
    body
}

fn chat_input(extra: Value) -> ChatInput {
    match chat(extra).expect("valid").0.input {
        RequestInput::Chat(input) => input,
        RequestInput::Prompts(_) => panic!("a chat"),
    }
}

#[test]
fn the_least_chat_request_gets_defaults() {
    let (request, params) = chat(json!({})).expect("valid");
    assert_eq!(request.dialect.endpoint(), "chat/completions");
    assert_eq!(&*request.id, "chatcmpl-1");
    assert_eq!(&*request.model, "m");
    assert_eq!(request.choices(), 1);
    assert!(!request.stream && !request.include_usage);
    assert_eq!(params.sampling, graphmill_llm::SamplingParams::default());
    assert_eq!((params.max_tokens, params.n), (None, 1));
}

#[test]
fn fields_of_generation_are_read() {
    let (_, params) = chat(json!({
        "temperature": 0.5, "top_p": 0.9, "top_k": 40, "min_p": 0.05, "seed": 7, "presence_penalty": 1, "frequency_penalty": -1,
        "repetition_penalty": 1.1, "logit_bias": {"5": -100, "6": 2.5}, "stop": ["a", "b", "a"], "max_tokens": 9, "max_completion_tokens": 8,
        "ignore_eos": true, "n": 3, "stop_token_ids": [4], "min_tokens": 2, "include_stop_str_in_output": true,
        "cache_salt": "mine",
        "priority": -3,
    }))
    .expect("valid");
    let sampling = &params.sampling;
    assert_eq!(
        (
            sampling.temperature,
            sampling.top_p,
            sampling.top_k,
            sampling.min_p
        ),
        (0.5, 0.9, 40, 0.05)
    );
    assert_eq!(
        (
            sampling.presence_penalty,
            sampling.frequency_penalty,
            sampling.repetition_penalty
        ),
        (1.0, -1.0, 1.1)
    );
    assert_eq!(sampling.seed, Some(7));
    assert_eq!(*sampling.logit_bias, [(5, -100.0), (6, 2.5)]);
    assert_eq!(params.stop, ["a", "b"]);
    assert_eq!(params.max_tokens, Some(8));
    assert_eq!(&*params.cache_salt, "mine");
    assert_eq!(
        (
            params.ignore_eos,
            params.include_stop,
            params.min_tokens,
            params.n,
            params.priority
        ),
        (true, true, 2, 3, -3)
    );
    assert_eq!(*params.stop_tokens, [4]);
}

#[test]
fn fields_of_speculation_are_read() {
    let drafts = |extra| {
        let (_, params) = chat(extra).expect("valid");
        (params.num_assistant_tokens, params.max_ngram_size)
    };
    assert_eq!(drafts(json!({})), (None, None));
    assert_eq!(
        drafts(json!({"num_assistant_tokens": 7, "max_ngram_size": 2})),
        (Some(7), Some(2))
    );
    assert_eq!(drafts(json!({"num_assistant_tokens": 0})), (Some(0), None));
    let (_, params) = chat(json!({"assistant_confidence_threshold": 0.4})).expect("valid");
    assert_eq!(params.assistant_confidence_threshold, Some(0.4));
}

#[test]
fn a_priority_is_an_integer_of_32_bits() {
    for endpoint in [chat, completion] {
        let refusal = endpoint(json!({"priority": 2_147_483_648_u32})).expect_err("too large");
        assert_eq!(refusal.field.as_deref(), Some("priority"));
        let refusal = endpoint(json!({"priority": "high"})).expect_err("not an integer");
        assert_eq!(
            refusal.message,
            "`priority` must be an integer, not a string"
        );
    }
}

#[test]
fn a_null_counts_as_not_given() {
    let names = [
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "seed",
        "presence_penalty",
        "frequency_penalty",
        "repetition_penalty",
        "logit_bias",
        "stop",
        "max_tokens",
        "max_completion_tokens",
        "ignore_eos",
        "n",
        "stop_token_ids",
        "stream",
        "stream_options",
        "tools",
        "tool_choice",
        "response_format",
        "logprobs",
        "top_logprobs",
        "chat_template_kwargs",
        "parallel_tool_calls",
        "best_of",
        "user",
        "cache_salt",
        "functions",
        "num_assistant_tokens",
        "max_ngram_size",
        "assistant_confidence_threshold",
    ];
    for name in names {
        assert!(chat(json!({name: null})).is_ok(), "{name}");
    }
}

#[test]
fn graphs_and_models_set_defaults_that_requests_override() {
    let options = OpenAIRequestOptions {
        temperature: Some(0.2),
        max_tokens: Some(64),
        ..OpenAIRequestOptions::default()
    };
    let model = GenerationConfig {
        temperature: Some(0.6),
        top_k: Some(20),
        ..GenerationConfig::default()
    };
    let defaults = Defaults::new(&options, &model);
    let payload = |body: Value| HttpRequestPayload {
        json: JsonBody::from_value(&body).ok().map(Arc::new),
        ..HttpRequestPayload::new("/v3/completions", None)
    };
    let ReadRequest { params, .. } = read(
        &payload(json!({"model": "m", "prompt": "p"})),
        &defaults,
        &RunCx::new("1"),
    )
    .expect("valid");
    assert_eq!(
        (params.sampling.temperature, params.max_tokens),
        (0.2, Some(64))
    );
    assert_eq!(params.sampling.top_k, 20);
    let ReadRequest { params, .. } = read(
        &payload(json!({"model": "m", "prompt": "p", "temperature": 1, "max_tokens": 5})),
        &defaults,
        &RunCx::new("1"),
    )
    .expect("valid");
    assert_eq!(
        (params.sampling.temperature, params.max_tokens),
        (1.0, Some(5))
    );
}

#[test]
fn refusals_name_the_field() {
    let cases = [
        (json!({"messages": null}), "messages"),
        (json!({"messages": []}), "messages"),
        (json!({"messages": "hi"}), "messages"),
        (json!({"messages": ["hi"]}), "messages[0]"),
        (json!({"messages": [{}]}), "messages[0].role"),
        (json!({"messages": [{"role": 1}]}), "messages[0].role"),
        (
            json!({"messages": [{"role": "user", "content": 1}]}),
            "messages[0].content",
        ),
        (
            json!({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
            "messages[0].content[0].image_url",
        ),
        (
            json!({"messages": [{"role": "user", "content": [{"type": "text"}]}]}),
            "messages[0].content[0].text",
        ),
        (
            json!({"messages": [{"role": "assistant", "tool_calls": [{}]}]}),
            "messages[0].tool_calls[0].function",
        ),
        (
            json!({"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": 1}}]}]}),
            "messages[0].tool_calls[0].function.arguments",
        ),
        (json!({"model": 1}), "model"),
        (json!({"stream": "yes"}), "stream"),
        (
            json!({"stream_options": {"include_usage": true}}),
            "stream_options",
        ),
        (
            json!({"stream": true, "stream_options": {"include_usage": 1}}),
            "stream_options.include_usage",
        ),
        (
            json!({"stream": true, "stream_options": {"other": 1}}),
            "stream_options.other",
        ),
        (json!({"temperature": 3}), "temperature"),
        (json!({"temperature": -0.1}), "temperature"),
        (json!({"temperature": "hot"}), "temperature"),
        (json!({"top_p": 3}), "top_p"),
        (json!({"min_p": -0.1}), "min_p"),
        (json!({"top_k": -2}), "top_k"),
        (json!({"top_k": 1.5}), "top_k"),
        (json!({"seed": -2}), "seed"),
        (json!({"presence_penalty": 3}), "presence_penalty"),
        (json!({"frequency_penalty": -3}), "frequency_penalty"),
        (json!({"repetition_penalty": 0}), "repetition_penalty"),
        (json!({"max_tokens": 0}), "max_tokens"),
        (json!({"max_tokens": -5}), "max_tokens"),
        (json!({"max_tokens": 4_294_967_296_u64}), "max_tokens"),
        (
            json!({"max_completion_tokens": "x"}),
            "max_completion_tokens",
        ),
        (json!({"n": 0}), "n"),
        (json!({"best_of": 2}), "best_of"),
        (json!({"stop": 5}), "stop"),
        (json!({"stop": ["a", 5]}), "stop[1]"),
        (json!({"stop": ""}), "stop"),
        (json!({"stop": vec!["x"; 17]}), "stop"),
        (json!({"logit_bias": {"five": 1}}), "logit_bias.five"),
        (json!({"logit_bias": {"5": 101}}), "logit_bias.5"),
        (json!({"logit_bias": [1]}), "logit_bias[0]"),
        (json!({"ignore_eos": "yes"}), "ignore_eos"),
        (json!({"num_assistant_tokens": -1}), "num_assistant_tokens"),
        (json!({"num_assistant_tokens": 33}), "num_assistant_tokens"),
        (json!({"num_assistant_tokens": "x"}), "num_assistant_tokens"),
        (
            json!({"assistant_confidence_threshold": 1.1}),
            "assistant_confidence_threshold",
        ),
        (
            json!({"assistant_confidence_threshold": "x"}),
            "assistant_confidence_threshold",
        ),
        (
            json!({"assistant_confidence_threshold": 0.4, "num_assistant_tokens": 5}),
            "assistant_confidence_threshold",
        ),
        (
            json!({"assistant_confidence_threshold": 0.4, "max_ngram_size": 3}),
            "assistant_confidence_threshold",
        ),
        (json!({"max_ngram_size": 0}), "max_ngram_size"),
        (json!({"max_ngram_size": 9}), "max_ngram_size"),
        (json!({"cache_salt": 5}), "cache_salt"),
        (json!({"cache_salt": ""}), "cache_salt"),
        (json!({"tools": {}}), "tools"),
        (json!({"tools": [{"type": "web_search"}]}), "tools[0].type"),
        (
            json!({"tools": [{"type": "function", "function": {}}]}),
            "tools[0].function.name",
        ),
        (json!({"tool_choice": "sometimes"}), "tool_choice"),
        (json!({"tool_choice": "required"}), "tool_choice"),
        (json!({"logprobs": 5}), "logprobs"),
        (
            json!({"logprobs": true, "top_logprobs": 21}),
            "top_logprobs",
        ),
        (json!({"top_logprobs": 2}), "top_logprobs"),
        (json!({"functions": [{}]}), "functions[0].name"),
        (json!({"chat_template_kwargs": []}), "chat_template_kwargs"),
        (
            json!({"chat_template_kwargs": {"add_generation_prompt": 1}}),
            "chat_template_kwargs.add_generation_prompt",
        ),
    ];
    for (extra, field) in cases {
        let error = chat(extra.clone()).expect_err(&extra.to_string());
        assert_eq!(error.field.as_deref(), Some(field), "{extra}: {error}");
        assert_eq!(
            error.kind,
            graphmill_engine::Kind::InvalidArgument,
            "{extra}"
        );
        assert!(error.message.contains(field), "{extra}: {error}");
    }
    let prompts = [
        json!(null),
        json!(""),
        json!([]),
        json!([[]]),
        json!(1),
        json!(["a", 1]),
        json!([1, "a"]),
        json!([-1]),
    ];
    for prompt in prompts {
        let error = completion(json!({"prompt": prompt})).expect_err(&prompt.to_string());
        assert!(
            error
                .field
                .as_deref()
                .is_some_and(|field| field.starts_with("prompt")),
            "{prompt}: {error}"
        );
    }
    for extra in [json!({"logprobs": true}), json!({"logprobs": 21})] {
        assert!(completion(extra.clone()).is_err(), "{extra}");
    }
}

#[test]
fn prompts_come_as_text_or_tokens_alone_or_in_lists() {
    let text = |text: &str| Prompt::Text(text.into());
    let cases = [
        (json!("a"), vec![text("a")]),
        (json!(["a", "b"]), vec![text("a"), text("b")]),
        (json!([1, 2]), vec![Prompt::Tokens(vec![1, 2])]),
        (
            json!([[1], [2, 3]]),
            vec![Prompt::Tokens(vec![1]), Prompt::Tokens(vec![2, 3])],
        ),
    ];
    for (prompt, expected) in cases {
        let (request, _) = completion(json!({"prompt": prompt, "n": 2})).expect("valid");
        assert_eq!(request.choices(), 2 * expected.len());
        let RequestInput::Prompts(prompts) = request.input else {
            panic!("prompts");
        };
        assert_eq!(*prompts, expected);
    }
}

#[test]
fn messages_are_made_ready_for_templates() {
    let input = chat_input(json!({"messages": [
        {"role": "developer", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1}"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "ok", "name": "f"},
        {"role": "assistant", "tool_calls": []},
    ]}));
    assert_eq!(
        Value::Array(input.messages.to_vec()),
        json!([
            {"role": "system", "content": "a\nb"},
            {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": {"x": 1}}}]},
            {"role": "tool", "tool_call_id": "1", "content": "ok", "name": "f"},
            {"role": "assistant", "content": ""},
        ])
    );
}

#[test]
fn tools_reach_the_template_unless_the_choice_is_none() {
    let tool = json!({"type": "function", "function": {"name": "f", "description": "does"}});
    assert_eq!(
        chat_input(json!({"tools": [tool]})).tools.as_deref(),
        Some(&vec![tool.clone()])
    );
    assert_eq!(
        chat_input(json!({"tools": [tool], "tool_choice": "none"})).tools,
        None
    );
    assert_eq!(chat_input(json!({"tools": []})).tools, None);
}

#[test]
fn template_variables_come_from_the_request() {
    let input = chat_input(
        json!({"chat_template_kwargs": {"enable_thinking": true}, "add_generation_prompt": false, "reasoning_effort": "low"}),
    );
    assert_eq!(
        Value::Object((*input.template_kwargs).clone()),
        json!({"enable_thinking": true, "add_generation_prompt": false, "reasoning_effort": "low"})
    );
}

#[test]
fn fields_that_change_nothing_are_accepted() {
    let harmless = json!({
        "user": "u", "metadata": {"a": "b"}, "store": false, "logprobs": false, "top_logprobs": 0, "response_format": {"type": "text"},
        "parallel_tool_calls": true, "modalities": ["text"], "length_penalty": 1.0, "something_new": [1],
    });
    assert!(chat(harmless).is_ok());
}

#[test]
fn other_paths_and_other_bodies_are_refused() {
    assert_eq!(
        read_body("/v3/embeddings", json!({}))
            .expect_err("not served")
            .kind,
        graphmill_engine::Kind::NotFound
    );
    assert!(read_body("/v3/completions", json!([1])).is_err());
    assert!(read_body("/v3/completions?x=1", json!({"model": "m", "prompt": "p"})).is_ok());
    let form = HttpRequestPayload::new("/v3/completions", None);
    let error = read(&form, &Defaults::default(), &RunCx::new("1")).expect_err("no JSON");
    assert!(error.message.contains("content-type"));
}

#[test]
fn a_marker_stands_for_each_image_where_it_is() {
    let image = |url: &str| json!({"type": "image_url", "image_url": {"url": url}});
    let text = |text: &str| json!({"type": "text", "text": text});
    let messages = json!([
        {"role": "system", "content": "Look."},
        {"role": "user", "content": [image("data:a"), text("one"), text("two"), image("data:b"), image("data:c")]},
        {"role": "user", "content": [text("and"), image("data:d"), text("this")]},
    ]);
    let input = chat_input(json!({ "messages": messages }));
    let marker = media_marker();
    let content = |index: usize| input.messages[index]["content"].clone();
    assert_eq!(content(1), format!("{marker}one\ntwo{marker}{marker}"));
    assert_eq!(content(2), format!("and{marker}this"));
    let images = input.media.iter();
    let images: Vec<_> = images.map(|image| (&*image.field, &*image.data)).collect();
    assert_eq!(
        images,
        [
            ("messages[1].content[0]", "data:a"),
            ("messages[1].content[3]", "data:b"),
            ("messages[1].content[4]", "data:c"),
            ("messages[2].content[1]", "data:d"),
        ]
    );
}

#[test]
fn images_of_other_dialects_are_named_by_where_they_are_there() {
    let source = json!({"type": "base64", "media_type": "image/png", "data": "AAAA"});
    let bodies = [
        (
            "/v1/responses",
            json!({"model": "m", "instructions": "Look.", "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]},
            ]}),
            "input[0].content[1]",
        ),
        (
            "/v1/messages",
            json!({"model": "m", "max_tokens": 1, "system": "Look.", "messages": [
                {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image", "source": source}]},
            ]}),
            "messages[0].content[1]",
        ),
    ];
    for (path, body, field) in bodies {
        let (request, _) = read_body(path, body).expect("valid");
        let RequestInput::Chat(input) = request.input else {
            panic!("a chat");
        };
        assert_eq!(&*input.media[0].field, field);
        assert_eq!(&*input.media[0].data, "data:image/png;base64,AAAA");
        let content = format!("a{}", media_marker());
        assert_eq!(input.messages[1]["content"], content);
    }
}
