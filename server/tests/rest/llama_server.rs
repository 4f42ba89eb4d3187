//! llama-server's own endpoints. The scripted model goes on with the bytes behind the last of a
//! prompt.

use serde_json::{Value, json};

use crate::rest::support::{
    CHAT, Reply, Setup, TestServer, engine_numbers, question, read, streamed,
};
use crate::rest::{fields::server as all_kinds, keys};

async fn server() -> TestServer {
    let script = json!({ "replies": [{ "text": "hello" }] });
    Setup::new()
        .graph("chat", CHAT)
        .script(&script)
        .start()
        .await
}

async fn post(server: &TestServer, path: &str, body: Value) -> Reply {
    read(server.post(path, body.to_string())).await
}

/// The events of a stream, which has no more than these.
fn events(text: &str) -> Vec<Value> {
    let events = text.split_terminator("\n\n");
    events
        .map(|event| event.strip_prefix("data: ").expect("a data line"))
        .map(|data| serde_json::from_str(data).expect("JSON"))
        .collect()
}

#[tokio::test]
async fn a_prompt_is_continued() {
    let server = server().await;
    for path in ["/completion", "/completions"] {
        let body =
            json!({ "prompt": "Hi", "n_predict": 5, "temperature": 0, "cache_prompt": true });
        let reply = post(&server, path, body).await;
        let answer = reply.json();
        assert_eq!(reply.status, 200, "{reply:?}");
        let told = ["content", "stop", "stop_type", "stopping_word", "model"];
        assert_eq!(
            told.map(|name| answer[name].clone()),
            [
                json!("jklmn"),
                json!(true),
                json!("limit"),
                json!(""),
                json!("chat")
            ],
            "{answer}"
        );
        let counts = ["tokens_predicted", "tokens_evaluated", "index"];
        assert_eq!(
            counts.map(|name| answer[name].as_u64()),
            [Some(5), Some(2), Some(0)]
        );
        let flags = (&answer["truncated"], &answer["has_new_line"]);
        assert_eq!(flags, (&json!(false), &json!(false)));
        assert_eq!(
            (&answer["tokens"], answer.get("completion_probabilities")),
            (&json!([]), None)
        );
        let settings = &answer["generation_settings"];
        let set = ["n_predict", "temperature", "seed", "repeat_penalty"];
        assert_eq!(
            set.map(|name| settings[name].as_f64()),
            [Some(5.0), Some(0.0), Some(-1.0), Some(1.0)],
            "{settings}"
        );
        let timings = &answer["timings"];
        assert_eq!(
            (&timings["predicted_n"], timings["cache_n"].as_u64()),
            (&json!(5), answer["tokens_cached"].as_u64())
        );
        assert!(
            timings["prompt_ms"].is_f64() && timings["predicted_per_second"].is_f64(),
            "{timings}"
        );
    }
    let body = json!({ "prompt": "count", "stop": ["wx"], "stream": false });
    let answer = post(&server, "/completion", body).await.json();
    let told = ["content", "stop_type", "stopping_word"].map(|name| &answer[name]);
    assert_eq!(told, ["uv", "word", "wx"], "{answer}");
    server.until_idle().await;
}

#[tokio::test]
async fn tokens_and_probabilities_are_told_where_they_are_asked_for() {
    let server = server().await;
    let body = json!({ "prompt": [72, 105], "n_predict": 3, "return_tokens": true, "n_probs": 2 });
    let answer = post(&server, "/completion", body).await.json();
    assert_eq!(
        (&answer["content"], &answer["tokens"]),
        (&json!("jkl"), &json!([106, 107, 108]))
    );
    let probabilities = answer["completion_probabilities"]
        .as_array()
        .expect("a list");
    assert_eq!(probabilities.len(), 3, "{answer}");
    let first = &probabilities[0];
    assert_eq!(
        (&first["id"], &first["token"], &first["bytes"]),
        (&json!(106), &json!("j"), &json!([106]))
    );
    let likeliest = first["top_logprobs"].as_array().expect("a list");
    assert_eq!((likeliest.len(), &likeliest[0]["id"]), (2, &json!(106)));
    assert!(
        first["logprob"].is_f64() && likeliest[1]["logprob"].is_f64(),
        "{first}"
    );
}

#[tokio::test]
async fn several_prompts_have_a_list_of_answers() {
    let server = server().await;
    let body = json!({ "prompt": ["Hi", [97]], "n_predict": 2, "n_cmpl": 2 });
    let answers = post(&server, "/completion", body.clone()).await.json();
    let told = |answers: &[Value]| -> Vec<(u64, String)> {
        let told = answers.iter().map(|answer| {
            let content = answer["content"].as_str().expect("a text");
            (
                answer["index"].as_u64().expect("a number"),
                content.to_owned(),
            )
        });
        told.collect()
    };
    let expected = ["jk", "jk", "bc", "bc"].map(str::to_owned);
    let expected: Vec<(u64, String)> = (0..).zip(expected).collect();
    let listed = answers.as_array().expect("a list");
    assert_eq!(told(listed), expected);
    assert!(
        listed
            .iter()
            .all(|answer| answer.get("timings").is_none()
                && answer.get("generation_settings").is_none()),
        "{answers}"
    );
    let mut body = body;
    body["stream"] = true.into();
    let events = events(&post(&server, "/completion", body).await.text);
    for (index, text) in expected {
        let of_text = events.iter().filter(|event| event["index"] == index);
        let joined = of_text.map(|event| event["content"].as_str().expect("a text"));
        assert_eq!(joined.collect::<String>(), text);
    }
    let ends = events.iter().filter(|event| event["stop"] == true);
    assert_eq!(ends.count(), 4);
}

#[tokio::test]
async fn a_stream_has_pieces_and_an_end() {
    let server = server().await;
    let body = json!({ "prompt": "count", "n_predict": 4, "stream": true });
    let reply = post(&server, "/completion", body).await;
    let kind = reply.header("content-type").expect("a type");
    assert!(kind.starts_with("text/event-stream"), "{kind}");
    let events = events(&reply.text);
    let (last, pieces) = events.split_last().expect("events");
    assert!(
        pieces.iter().all(|piece| piece["stop"] == false),
        "{reply:?}"
    );
    let texts = pieces
        .iter()
        .map(|piece| piece["content"].as_str().expect("a text"));
    assert_eq!(texts.collect::<String>(), "uvwx");
    let tokens = pieces
        .iter()
        .flat_map(|piece| piece["tokens"].as_array().expect("tokens"));
    assert_eq!(tokens.collect::<Vec<_>>(), [117, 118, 119, 120]);
    let told = ["content", "stop", "stop_type", "tokens_predicted"].map(|name| last[name].clone());
    assert_eq!(told, [json!(""), json!(true), json!("limit"), json!(4)]);
    assert!(last["timings"]["predicted_n"] == 4, "{last}");
}

#[tokio::test]
async fn an_answer_has_the_fields_that_are_asked_for() {
    let server = server().await;
    let fields = [
        "content",
        "timings/predicted_n",
        "generation_settings/n_predict",
        "nothing/here",
    ];
    let body = json!({ "prompt": "Hi", "n_predict": 1, "response_fields": fields });
    let answer = post(&server, "/completion", body).await.json();
    assert_eq!(
        answer,
        json!({ "content": "j", "timings/predicted_n": 1, "generation_settings/n_predict": 1 })
    );
}

#[tokio::test]
async fn a_prompt_can_be_computed_alone() {
    let server = server().await;
    let body = json!({ "prompt": "Hello there", "n_predict": 0, "samplers": [], "n_probs": 3 });
    let reply = post(&server, "/completion", body).await;
    let answer = reply.json();
    let told = [
        "content",
        "tokens_predicted",
        "tokens_evaluated",
        "stop_type",
    ];
    assert_eq!(
        told.map(|name| answer[name].clone()),
        [json!(""), json!(0), json!(11), json!("limit")],
        "{answer}"
    );
    assert_eq!(reply.header("x-ignored-fields"), Some("samplers"));
}

#[tokio::test]
async fn what_has_no_effect_is_named() {
    let server = server().await;
    // The fields of llama-server's page that have no other meaning here.
    let body = json!({
        "prompt": "Hi", "n_predict": 1, "n_keep": 5, "n_indent": 4, "id_slot": 0, "t_max_predict_ms": 500, "min_keep": 0,
        "repeat_last_n": 64, "samplers": "edkypmxt", "grammar": "", "stop": [], "logit_bias": [], "lora": [], "echo": false,
        "timings_per_token": false, "stream_options": { "include_usage": true }, "post_sampling_probs": false,
    });
    let reply = post(&server, "/completion", body).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let ignored = reply.header("x-ignored-fields").expect("a header");
    assert_eq!(
        ignored,
        "n_keep, n_indent, id_slot, t_max_predict_ms, min_keep, repeat_last_n, samplers, timings_per_token, stream_options"
    );
}

#[tokio::test]
async fn a_text_is_held_to_what_a_request_says() {
    let server = server().await;
    for (name, value, text) in [
        ("grammar", json!("root ::= \"yes\""), "yes"),
        ("json_schema", json!({ "const": 7 }), "7"),
    ] {
        let mut body = json!({ "prompt": "Hi", "n_predict": 20 });
        body[name] = value;
        let answer = post(&server, "/completion", body).await.json();
        assert_eq!(
            (&answer["content"], &answer["stop_type"]),
            (&json!(text), &json!("eos"))
        );
    }
}

#[tokio::test]
async fn vectors_are_lists_of_one() {
    let server = all_kinds().await;
    let usual = json!({ "model": "embed", "input": ["Hi", "Hello"] });
    let usual = post(&server, "/v1/embeddings", usual).await.json();
    for (path, body) in [
        ("/embedding", json!({ "content": ["Hi", "Hello"] })),
        (
            "/embeddings",
            json!({ "input": ["Hi", "Hello"], "embd_normalize": 2, "model": "embed" }),
        ),
    ] {
        let vectors = post(&server, path, body).await.json();
        for index in [0, 1] {
            let expected =
                json!({ "index": index, "embedding": [usual["data"][index]["embedding"]] });
            assert_eq!(vectors[index], expected, "{path}");
        }
        assert_eq!(vectors.as_array().map(Vec::len), Some(2));
    }
    let both = json!({ "content": "Hi", "input": "Hi" });
    let reply = post(&server, "/embedding", both).await;
    assert_eq!(
        (reply.status, &reply.json()["error"]["param"]),
        (400, &json!("input"))
    );
}

#[tokio::test]
async fn a_model_is_described() {
    let script = json!({ "name": "scripted", "cells": 640, "replies": [{ "text": "hello" }] });
    let setup = Setup::new().graph("chat", CHAT).script(&script);
    let server = setup.start().await;
    let props = server.get("/props").await.json();
    assert_eq!(props["default_generation_settings"]["n_ctx"], 640);
    assert_eq!(
        (&props["total_slots"], &props["model_alias"]),
        (&json!(4), &json!("chat"))
    );
    assert_eq!(
        props["modalities"],
        json!({ "vision": false, "audio": false })
    );
    let template = server.get("/tokenizer_info").await.json();
    assert_eq!(props["chat_template"], template["chat_template"]);
    assert_eq!(props["eos_token"], template["eos_token"]);
    let path = props["model_path"].as_str().expect("a path");
    assert!(path.ends_with("model.script.json"), "{props}");
    assert!(
        props["build_info"]
            .as_str()
            .is_some_and(|it| it.starts_with("graphmill-"))
    );
    for (path, status, param) in [
        ("/props?model=other", 404, "model"),
        ("/props?model=chat&model=chat", 400, "model"),
        ("/props?autoload=maybe", 400, "autoload"),
    ] {
        let reply = server.get(path).await;
        let error = &reply.json()["error"];
        assert_eq!(
            (reply.status, &error["param"]),
            (status, &json!(param)),
            "{path}"
        );
    }
    for path in ["/props", "/slots/0?action=save", "/lora-adapters"] {
        let reply = post(&server, path, json!({})).await;
        assert_eq!(
            (reply.status, &reply.json()["error"]["code"]),
            (501, &json!("not_supported")),
            "{path}"
        );
    }
}

#[tokio::test]
async fn of_several_graphs_the_query_names_one() {
    let options = "max_num_seqs: 2 lora_adapters { name: \"one\" path: \"one.gguf\" } lora_adapters { path: \"two.gguf\" scale: 0.5 }";
    let setup = Setup::new()
        .graph("chat", CHAT)
        .graph("more", &CHAT.replace("max_num_seqs: 4", "max_num_seqs: 3"))
        .graph("other", &CHAT.replace("max_num_seqs: 4", options))
        .that(&json!({ "load": "on_demand" }));
    let server = setup.script(&json!({})).start().await;
    let props = server.get("/props").await.json();
    assert_eq!(props["role"], "router", "{props}");
    let asleep = server.get("/props?model=other&autoload=false").await;
    assert_eq!(asleep.status, 503, "{asleep:?}");
    let props = server.get("/props?model=other").await.json();
    assert_eq!(
        (&props["model_alias"], &props["total_slots"]),
        (&json!("other"), &json!(2))
    );
    let listed = server.get("/lora-adapters?model=other").await.json();
    let told = |id: usize| (&listed[id]["id"], &listed[id]["name"], &listed[id]["scale"]);
    assert_eq!(told(0), (&json!(0), &json!("one"), &json!(1.0)));
    assert_eq!(told(1), (&json!(1), &json!("two"), &json!(0.5)));
    assert!(
        listed[0]["path"]
            .as_str()
            .is_some_and(|path| path.ends_with("one.gguf")),
        "{listed}"
    );
    assert_eq!(
        server.get("/lora-adapters?model=chat").await.json(),
        json!([])
    );
    assert_eq!(server.get("/slots").await.status, 400);
}

#[tokio::test]
async fn paths_of_files_are_for_operators() {
    let server = keys::server(&json!([
        { "name": "one", "key": "k-one", "models": ["chat"] },
        { "name": "two", "key": "k-two", "scopes": ["infer", "admin"] },
    ]))
    .await;
    for (key, shows) in [("k-one", false), ("k-two", true)] {
        let request = server
            .client
            .get(format!("{}/props?model=chat", server.url));
        let props = read(request.bearer_auth(key)).await.json();
        assert_eq!(props["model_alias"], "chat", "{props}");
        assert_eq!(props.get("model_path").is_some(), shows, "{props}");
    }
}

#[tokio::test]
async fn slots_tell_what_they_do() {
    let script = json!({
        "name": "scripted", "cells": 640, "step_micros": 1000, "replies": [{ "text": "and on ", "then": "repeat" }],
    });
    let graph = CHAT.replace("max_num_seqs: 4", "max_num_seqs: 2");
    let setup = Setup::new().graph("chat", &graph).script(&script);
    let server = setup.start().await;
    let idle = server.get("/slots?fail_on_no_slot=1").await.json();
    let slot = |id: u32| json!({ "id": id, "n_ctx": 640, "is_processing": false });
    assert_eq!(idle, json!([slot(0), slot(1)]));
    let mut body = streamed("chat", "hi");
    body["max_tokens"] = 500.into();
    let open = [(); 2].map(|()| {
        let request = server.post("/v3/chat/completions", body.to_string());
        tokio::spawn(request.send())
    });
    server
        .until("running", |status| engine_numbers(status)[0] == 2)
        .await;
    let busy = server.get("/slots").await.json();
    for id in [0, 1] {
        let slot = &busy[id];
        assert_eq!(
            (&slot["id"], &slot["is_processing"]),
            (&json!(id), &json!(true)),
            "{busy}"
        );
        let next = &slot["next_token"];
        let count = |name: &str| next[name].as_u64();
        // A prompt that is computed has no tokens behind it.
        assert!(
            slot["n_prompt_tokens"].is_u64()
                || count("n_decoded")
                    .zip(count("n_remain"))
                    .map(|(one, other)| one + other)
                    == Some(500),
            "{busy}"
        );
    }
    let full = server.get("/slots?fail_on_no_slot=1").await;
    assert_eq!(
        (full.status, &full.json()["error"]["code"]),
        (503, &json!("no_slot"))
    );
    for request in open {
        request.abort();
    }
    server.until_idle().await;
    assert_eq!(server.get("/slots").await.json(), idle);
    assert_eq!(server.chat(&question("chat", "hi")).await.status, 200);
}

#[tokio::test]
async fn a_request_names_adapters_by_their_numbers() {
    let options = "max_num_seqs: 4 lora_adapters { name: \"one\" path: \"one.gguf\" } lora_adapters { name: \"two\" path: \"two.gguf\" scale: 0.5 }";
    let graph = CHAT.replace("max_num_seqs: 4", options);
    let server = Setup::new()
        .graph("chat", &graph)
        .script(&json!({
            "turns": ["<|im_start|>assistant\n", "Answer:"],
            "replies": [{ "text": "abc" }],
        }))
        .start()
        .await;
    let ask = async |model: &str, lora: Value| {
        let body = json!({ "model": model, "prompt": "<|im_start|>assistant\n", "n_predict": 3, "lora": lora });
        post(&server, "/completion", body).await
    };
    // The scripted model moves letters on by the adapter's number times its scale.
    let (usual, one, two) = ("abc", "bcd", "cde");
    for (model, lora, text) in [
        (
            "chat",
            json!([{ "id": 0, "scale": 0 }, { "id": 1, "scale": 0 }]),
            usual,
        ),
        (
            "chat",
            json!([{ "id": 0, "scale": 0 }, { "id": 1, "scale": 1 }]),
            two,
        ),
        (
            "chat",
            json!([{ "id": 0, "scale": 1 }, { "id": 1, "scale": 0.5 }]),
            two,
        ),
        ("chat", json!([{ "id": 0, "scale": 2 }]), two),
        ("chat", json!([{ "id": 1, "scale": -0.5 }]), "zab"),
        ("chat:two", json!([{ "id": 1, "scale": 1 }]), two),
        ("chat:two", json!([{ "id": 1, "scale": 0 }]), usual),
        ("chat:two", json!([{ "id": 0, "scale": 0 }]), one),
        ("chat:two", json!([]), one),
    ] {
        let answer = ask(model, lora.clone()).await.json();
        assert_eq!(answer["content"], text, "{lora}");
    }
    let mut chat = question("chat", "hi");
    chat["lora"] = json!([{ "id": 0, "scale": 2 }]);
    let reply = server.chat(&chat).await;
    let content = &reply.json()["choices"][0]["message"]["content"];
    assert_eq!(content, two, "{}", reply.text);
    let mut body = json!({ "model": "chat", "prompt": "Answer:", "max_tokens": 3 });
    let plain = post(&server, "/v1/completions", body.clone()).await.json();
    assert_eq!(plain["choices"][0]["text"], usual, "{plain}");
    body["lora"] = chat["lora"].clone();
    let moved = post(&server, "/v1/completions", body).await.json();
    assert_eq!(moved["choices"][0]["text"], two, "{moved}");
    assert_eq!(moved["usage"], plain["usage"]);
    chat["lora"][0]["id"] = 2.into();
    let error = server.chat(&chat).await.json();
    assert_eq!(error["error"]["param"], "lora[0].id", "{error}");
    for (model, lora, param) in [
        ("chat", json!([{ "id": 2, "scale": 1 }]), "lora[0].id"),
        ("chat", json!([{ "id": -1, "scale": 1 }]), "lora[0].id"),
        ("chat", json!([{ "id": 1, "scale": 1e39 }]), "lora[0].scale"),
        ("chat", json!([{ "id": 1, "scale": 10.5 }]), "lora[0].scale"),
        ("chat", json!([{ "id": 1, "scale": -1e6 }]), "lora[0].scale"),
        (
            "chat",
            json!([{ "id": 0, "scale": 1 }, { "id": 0, "scale": 0.5 }]),
            "lora[1].id",
        ),
        (
            "chat",
            json!([{ "id": 0, "scale": "much" }]),
            "lora[0].scale",
        ),
        ("chat:one", json!([{ "id": 1, "scale": 0.5 }]), "lora"),
    ] {
        let reply = ask(model, lora.clone()).await;
        let error = &reply.json()["error"];
        assert_eq!(
            (reply.status, &error["param"]),
            (400, &json!(param)),
            "{lora}: {error}"
        );
    }
}

#[tokio::test]
async fn an_adapter_is_named_by_keys_that_are_for_it() {
    let options = "max_num_seqs: 4 lora_adapters { name: \"one\" path: \"one.gguf\" } lora_adapters { name: \"two\" path: \"two.gguf\" }";
    let server = keys::server_of(
        &CHAT.replace("max_num_seqs: 4", options),
        &json!([{ "name": "one", "key": "k-one", "models": ["chat:two"] }]),
    )
    .await;
    let ask = |id: u32| json!({ "model": "chat:two", "prompt": "a", "n_predict": 1, "lora": [{ "id": id, "scale": 1 }] });
    // The numbers count only adapters that the key may use.
    let unnamed = keys::get(&server, "k-one", "/lora-adapters").await;
    assert_eq!(unnamed.status, 400, "{unnamed:?}");
    assert!(unnamed.text.contains("for adapters only"), "{unnamed:?}");
    for name in ["chat:two", "two"] {
        let path = format!("/lora-adapters?model={name}");
        let listed = keys::get(&server, "k-one", &path).await.json();
        let two = json!([{ "id": 0, "name": "two", "scale": 1.0 }]);
        assert_eq!(listed, two, "{name}");
    }
    let reply = keys::post(&server, "k-one", "/completion", &ask(0)).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    for id in [1, 9] {
        let reply = keys::post(&server, "k-one", "/completion", &ask(id)).await;
        assert_eq!(
            (reply.status, &reply.json()["error"]["param"]),
            (400, &json!("lora[0].id"))
        );
        assert!(reply.text.contains("which are 1"), "{}", reply.text);
    }
}
