//! The chat graphs, end to end without a server: requests in, answers out, on a scripted model.

use crate::chat::{self, Chat, GRAPH, body, contents, events, script, wire};
use graphmill_engine::Kind;
use graphmill_engine::testing::Harness;
use serde_json::{Value, json};

#[test]
fn a_conversation_gives_the_models_answer_and_counts() {
    let chat = Chat::new(&script(&[("", "Hello there.")]));
    let answer = body(&chat.ask(
        "/v3/chat/completions",
        &json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}]}),
    ));
    assert_eq!(answer["object"], "chat.completion");
    let message = &answer["choices"][0]["message"];
    assert_eq!(message["role"], "assistant");
    assert_eq!(message["content"], "Hello there.");
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    let prompt = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
    // the scripted model's tokens are bytes, and each of the three special tokens is one
    let prompt_tokens = prompt.len() - 2 * ("<|im_start|>".len() - 1) - ("<|im_end|>".len() - 1);
    assert_eq!(answer["usage"]["prompt_tokens"], prompt_tokens);
    assert_eq!(
        answer["usage"]["completion_tokens"],
        "Hello there.".len() + 1
    );
}

#[test]
fn a_stream_says_the_same_piece_by_piece() {
    let chat = Chat::new(&script(&[("", "Hé🙂")]));
    let request = json!({
        "model": "m", "stream": true, "stream_options": {"include_usage": true},
        "messages": [{"role": "user", "content": "Hi"}]
    });
    let out = chat.ask("/v3/chat/completions", &request);
    insta::assert_snapshot!(wire(&out), @r#"
    {"id":"*0","object":"chat.completion.chunk","created":*1,"model":"m","system_fingerprint":"*2","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"usage":null}
    {"id":"*0","object":"chat.completion.chunk","created":*1,"model":"m","system_fingerprint":"*2","choices":[{"index":0,"delta":{"content":"H"},"logprobs":null,"finish_reason":null}],"usage":null}
    {"id":"*0","object":"chat.completion.chunk","created":*1,"model":"m","system_fingerprint":"*2","choices":[{"index":0,"delta":{"content":"é"},"logprobs":null,"finish_reason":null}],"usage":null}
    {"id":"*0","object":"chat.completion.chunk","created":*1,"model":"m","system_fingerprint":"*2","choices":[{"index":0,"delta":{"content":"🙂"},"logprobs":null,"finish_reason":null}],"usage":null}
    {"id":"*0","object":"chat.completion.chunk","created":*1,"model":"m","system_fingerprint":"*2","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"usage":null}
    {"id":"*0","object":"chat.completion.chunk","created":*1,"model":"m","system_fingerprint":"*2","choices":[],"usage":{"prompt_tokens":21,"completion_tokens":8,"total_tokens":29,"prompt_tokens_details":{"cached_tokens":0}}}
    Done
    "#);
}

#[test]
fn a_stop_string_ends_the_text_and_the_generation() {
    let mut model = script(&[("", "count: one, two, three, ")]);
    model["replies"][0]["then"] = json!("repeat");
    let chat = Chat::new(&model);
    let request = json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stop": ["zzz", "two, th"]});
    let answer = body(&chat.ask("/v3/chat/completions", &request));
    assert_eq!(answer["choices"][0]["message"]["content"], "count: one, ");
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    chat.wait_until_idle();
    let generated = chat.model.engine().status().generated_tokens;
    // The engine is at most 128 ahead of the node, whatever is on its way to it.
    let most = "count: one, two, th".len() as u64 + 128;
    assert!(
        generated <= most,
        "the reply has no end, yet the engine has made only {generated} tokens"
    );
}

#[test]
fn drafted_tokens_change_no_answer_and_are_counted() {
    let text = "tick tock tick tock tick tock tick tock, says the clöck 🙂. tick tock tick tock!";
    let chat = Chat::new(&script(&[("", text)]));
    for stop in [
        json!(null),
        json!("says the cl"),
        json!(["tock tick tock,"]),
    ] {
        let ask = |extra: Value| {
            let mut request = json!({"model": "m", "stop": stop, "messages": [{"role": "user", "content": "Hi"}]});
            let fields = request.as_object_mut().expect("an object");
            fields.extend(extra.as_object().expect("an object").clone());
            chat.ask("/v3/chat/completions", &request)
        };
        let plain = body(&ask(json!({})));
        assert_eq!(plain["usage"].get("completion_tokens_details"), None);
        let drafting = body(&ask(json!({"num_assistant_tokens": 8})));
        assert_eq!(drafting["choices"], plain["choices"]);
        let details = &drafting["usage"]["completion_tokens_details"];
        assert!(
            details["accepted_prediction_tokens"].as_u64() > Some(0),
            "{drafting}"
        );
        let streamed = ask(json!({"max_ngram_size": 2, "stream": true}));
        assert_eq!(
            contents(&events(&streamed)),
            plain["choices"][0]["message"]["content"]
        );
        let off = body(&ask(
            json!({"num_assistant_tokens": 0, "max_ngram_size": 2}),
        ));
        let completion = |answer: &Value| answer["usage"]["completion_tokens"].clone();
        assert_eq!(completion(&off), completion(&plain));
        assert_eq!(off["usage"].get("completion_tokens_details"), None);
    }
}

#[test]
fn a_choice_that_stops_leaves_the_others_running() {
    let chat = Chat::new(&script(&[]));
    // outside of a conversation, the scripted model counts on from the last byte
    let request = json!({"model": "m", "prompt": ["A", "a"], "stop": "E", "max_tokens": 8});
    let answer = body(&chat.ask("/v3/completions", &request));
    assert_eq!(answer["choices"][0]["text"], "BCD");
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    assert_eq!(answer["choices"][1]["text"], "bcdefghi");
    assert_eq!(answer["choices"][1]["finish_reason"], "length");
}

#[test]
fn n_generations_are_n_choices() {
    let chat = Chat::new(&script(&[("", "Yes.")]));
    let request = json!({"model": "m", "n": 3, "messages": [{"role": "user", "content": "Hi"}]});
    let answer = body(&chat.ask("/v3/chat/completions", &request));
    let choices = answer["choices"].as_array().expect("choices");
    assert_eq!(choices.len(), 3);
    for (choice, index) in choices.iter().zip(0..) {
        assert_eq!(choice["index"], index);
        assert_eq!(choice["message"]["content"], "Yes.");
    }
}

#[test]
fn what_cannot_fit_is_refused_with_the_numbers() {
    let mut model = script(&[]);
    model["context"] = json!(64);
    let chat = Chat::new(&model);
    let error = chat.refusal(
        "/v3/completions",
        &json!({"model": "m", "prompt": "x".repeat(100)}),
    );
    assert_eq!(error.kind, Kind::InvalidArgument);
    assert_eq!(error.code.as_deref(), Some("context_length_exceeded"));
    assert!(
        error.message.contains("100") && error.message.contains("64"),
        "{}",
        error.message
    );
}

#[test]
fn a_failing_template_is_the_conversations_fault() {
    let mut model = script(&[("", "Yes.")]);
    model["chat_template"] =
        json!("{% if messages|length > 1 %}{{ raise_exception('one message only') }}{% endif %}x");
    let chat = Chat::new(&model);
    let message = json!({"role": "user", "content": "Hi"});
    let error = chat.refusal(
        "/v3/chat/completions",
        &json!({"model": "m", "messages": [message, message]}),
    );
    assert_eq!(error.kind, Kind::InvalidArgument);
    assert_eq!(error.field.as_deref(), Some("messages"));
    assert!(
        error.message.ends_with("one message only"),
        "{}",
        error.message
    );
    chat.ask(
        "/v3/chat/completions",
        &json!({"model": "m", "messages": [message], "max_tokens": 1}),
    );
}

#[test]
fn a_model_failure_ends_the_request_with_an_internal_error() {
    let mut model = script(&[("", "Well")]);
    model["replies"][0]["then"] = json!("fail");
    let chat = Chat::new(&model);
    let request = json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}]});
    let error = chat.refusal("/v3/chat/completions", &request);
    assert_eq!(error.kind, Kind::Internal);
}

#[test]
fn limits_of_the_graph_name_the_field() {
    let graph = GRAPH.replace(
        "cache_size: 2",
        "cache_size: 2 max_tokens_limit: 16 best_of_limit: 3",
    );
    let chat = Chat::with_graph(&graph, &script(&[]));
    let too_wide = chat.refusal(
        "/v3/completions",
        &json!({"model": "m", "prompt": "A", "n": 3}),
    );
    assert_eq!(too_wide.field.as_deref(), Some("n"));
    for most in [json!(null), json!(17), json!(-1)] {
        let asked = json!({"model": "m", "prompt": "A", "max_tokens": most});
        let answer = body(&chat.ask("/v3/completions", &asked));
        assert_eq!(answer["usage"]["completion_tokens"], 16);
    }
}

#[test]
fn dropping_the_session_ends_its_sequences() {
    let mut model = script(&[("", "again and ")]);
    model["replies"][0]["then"] = json!("repeat");
    let chat = Chat::new(&model);
    let request =
        json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "Hi"}]});
    let mut harness = chat.start("/v3/chat/completions", &request);
    harness.block_until(|harness| harness.count("http_response") > 3);
    harness.drop_session();
    chat.wait_until_idle();
    assert_eq!(chat.model.engine().status().kv_cells_used, 0);
}

#[test]
fn a_graph_without_the_back_edge_runs_too() {
    let graph = GRAPH
        .lines()
        .filter(|line| !line.contains("LOOPBACK"))
        .collect::<Vec<_>>()
        .join("\n");
    let reply = "a reply that is longer than the credit of one request lasts";
    let chat = Chat::with_graph(&graph, &script(&[("", reply)]));
    let request = json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}]});
    let answer = body(&chat.ask("/v3/chat/completions", &request));
    assert_eq!(answer["choices"][0]["message"]["content"], reply);
}

#[test]
fn without_a_prompt_the_llm_node_ends() {
    let graph = GRAPH
        .split("\n\n")
        .filter(|part| part.contains("LLMCalculator"))
        .collect::<String>();
    let chat = Chat::with_graph(&graph, &script(&[]));
    let mut harness = chat.harness();
    harness.start().close_all();
    assert!(harness.ended(), "{}", harness.why());
}

#[test]
fn one_node_is_the_same_as_the_seven_with_and_without_a_sync_set_for_its_loop() {
    let one = include_str!("../../graphs/ovms_llm/graph.pbtxt");
    let (node, _) = one.split_once("input_stream_handler").expect("the last");
    let without = format!("{node}}}");
    let model = script(&[("", "Hello there, friend.")]);
    let request =
        json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stop": "friend"});
    let answers: Vec<Value> = [GRAPH, one, &without]
        .map(|graph| body(&Chat::with_graph(graph, &model).ask("/v3/chat/completions", &request)))
        .into_iter()
        .map(|mut answer| {
            answer["id"].take();
            answer["created"].take();
            answer
        })
        .collect();
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0], answers[2]);
    assert_eq!(
        answers[0]["choices"][0]["message"]["content"],
        "Hello there, "
    );
}

#[test]
fn a_session_ends_if_its_prompts_end_after_the_last_token() {
    let one = include_str!("../../graphs/ovms_llm/graph.pbtxt");
    let (node, _) = one.split_once("input_stream_handler").expect("the last");
    let without = format!("{node}}}");
    for graph in [GRAPH, one, &without] {
        let chat = Chat::with_graph(graph, &script(&[("", "Hello.")]));
        let request = json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}]});
        let (mut harness, input) = chat.open("/v3/chat/completions", &request);
        let output = harness
            .plan()
            .graph_outputs()
            .next()
            .expect("one")
            .to_owned();
        harness.block_until(|harness| harness.count(&output) > 0);
        chat.wait_until_idle();
        harness.settle().close(&input);
        harness.block_until(Harness::ended);
        harness.finish();
    }
}

#[test]
fn two_conversations_at_once_do_not_mix() {
    let chat = Chat::new(&script(&[
        ("first", "One, one, one."),
        ("second", "Two, two, two."),
    ]));
    let request =
        |text: &str| json!({"model": "m", "messages": [{"role": "user", "content": text}]});
    let mut first = chat.start("/v3/chat/completions", &request("first"));
    let mut second = chat.start("/v3/chat/completions", &request("second"));
    first.block_until(Harness::ended);
    second.block_until(Harness::ended);
    let text = |harness: &mut Harness| {
        body(&chat::taken(harness))["choices"][0]["message"]["content"].clone()
    };
    assert_eq!(text(&mut first), "One, one, one.");
    assert_eq!(text(&mut second), "Two, two, two.");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(48))]

    /// Whatever the model says, a stream's pieces are the unary text, cut at the first stop string.
    #[test]
    fn a_stream_and_a_body_say_the_same(reply in "[abé🙂 \n]{1,40}", stop in proptest::option::of("[abé🙂]{1,3}")) {
        let chat = Chat::new(&script(&[("", &reply)]));
        let mut request = json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}]});
        if let Some(stop) = &stop {
            request["stop"] = json!(stop);
        }
        let whole = body(&chat.ask("/v3/chat/completions", &request));
        request["stream"] = json!(true);
        let pieces = contents(&events(&chat.ask("/v3/chat/completions", &request)));
        let text = stop.as_ref().and_then(|stop| reply.split_once(stop.as_str())).map_or(&*reply, |(before, _)| before);
        proptest::prop_assert_eq!(&whole["choices"][0]["message"]["content"], text);
        proptest::prop_assert_eq!(pieces, text);
    }
}
