//! Names of graphs in requests: aliases, any name, and none.

use serde_json::{Value, json};

use crate::rest::support::{ACTOR, CHAT, Reply, Setup, TestServer, question, read};

fn script() -> Value {
    json!({ "replies": [{ "text": "fine" }] })
}

async fn post(server: &TestServer, path: &str, body: &Value) -> Reply {
    read(server.post(path, body.to_string())).await
}

#[tokio::test]
async fn a_graph_answers_to_its_aliases_and_lists_them() {
    let setup = Setup::new()
        .graph("chat", CHAT)
        .that(&json!({ "aliases": ["gpt-4o", "org/other"] }))
        .graph("actor", ACTOR);
    let server = setup.script(&script()).start().await;
    for name in ["chat", "gpt-4o", "org/other"] {
        let reply = server.chat(&question(name, "Hi")).await;
        assert_eq!(reply.status, 200, "{name}: {}", reply.text);
        for name in [name.to_owned(), format!("{name}:latest")] {
            let model = server.get(&format!("/v1/models/{name}")).await.json();
            assert_eq!(model["id"], "chat", "{name}");
            assert_eq!(model["aliases"], json!(["gpt-4o", "org/other"]));
        }
    }
    let listed = server.get("/v1/models").await.json();
    let ids: Vec<&Value> = listed["data"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| &it["id"])
        .collect();
    assert_eq!(ids, ["actor", "chat"], "an alias is no graph of its own");
    assert_eq!(listed["data"][0].get("aliases"), None);
    let ready = server.get("/v2/models/gpt-4o/ready").await;
    assert_eq!(ready.status, 200, "{}", ready.text);
}

#[tokio::test]
async fn an_alias_is_unique_over_all_graphs() {
    for (aliases, said) in [
        (
            json!(["b"]),
            "`b` is an alias of `a` and the name of a graph",
        ),
        (json!(["x", "x"]), "`x` is an alias of `a` and of `a`"),
        (json!(["y"]), "`y` is an alias of `a` and of `b`"),
        (json!([""]), "the alias `` of `a` is empty"),
    ] {
        let setup = Setup::new()
            .graph("a", ACTOR)
            .that(&json!({ "aliases": aliases }))
            .graph("b", ACTOR)
            .that(&json!({ "aliases": ["y"] }));
        let loaded = graphmill_server::config::load(&setup.config());
        assert!(loaded.config.is_none(), "{said}");
        let told = loaded.diagnostics.iter().map(|it| it.message.as_str());
        assert_eq!(told.collect::<Vec<_>>(), [said]);
    }
}

#[tokio::test]
async fn the_only_graph_that_can_answers_to_any_name_if_that_is_allowed() {
    let setup = || {
        Setup::new()
            .graph("chat", CHAT)
            .graph("actor", ACTOR)
            .script(&script())
    };
    let server = setup()
        .with(|options| options.any_model = true)
        .start()
        .await;
    let messages = json!([{ "role": "user", "content": "Hi" }]);
    for model in [json!("lama-30b"), json!(""), json!(null)] {
        let body = json!({ "model": model, "messages": messages, "stream": false });
        let reply = server.chat(&body).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        assert_eq!(reply.json()["model"], "chat", "the true name");
        assert_eq!(reply.json()["choices"][0]["message"]["content"], "fine");
    }
    let reply = server.chat(&json!({ "messages": messages })).await;
    assert_eq!(
        (reply.status, &reply.json()["model"]),
        (200, &json!("chat"))
    );
    let reply = server
        .chat(&json!({ "model": 7, "messages": messages }))
        .await;
    assert_eq!(
        (reply.status, &reply.json()["error"]["param"]),
        (400, &json!("model"))
    );
    let reply = server.act(json!([{ "answer": "x" }])).await;
    assert_ne!(
        reply.status, 404,
        "a graph that is named is meant: {}",
        reply.text
    );

    let strict = setup().start().await;
    assert_eq!(strict.chat(&question("lama-30b", "Hi")).await.status, 404);
    assert_eq!(
        strict.chat(&json!({ "messages": messages })).await.status,
        400
    );
}

/// The shipped graph of texts, with the scripted model.
fn texts() -> String {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../graphs/text/graph.pbtxt");
    let text = std::fs::read_to_string(file).expect("a graph");
    text.replace("../../demos/tiny_chat", "../model.script.json")
}

#[tokio::test]
async fn a_graph_of_tensors_is_none_that_could_answer_however_it_computes() {
    let on_demand = json!({ "load": "on_demand" });
    for load in [json!({}), on_demand] {
        let setup = Setup::new()
            .graph("a_text", &texts())
            .that(&load)
            .graph("chat", CHAT)
            .that(&load)
            .script(&script());
        let server = setup.start().await;
        let listed = server.get("/v1/models").await.json();
        let endpoints: Vec<&Value> = listed["data"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|model| &model["endpoints"][0])
            .collect();
        assert_eq!(endpoints, ["infer", "chat/completions"], "{load}");
        let tags = server.get("/api/tags").await.json();
        let names: Vec<&Value> = tags["models"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|model| &model["name"])
            .collect();
        assert_eq!(names, ["chat:latest"], "{load}");
        let answer = post(&server, "/generate", &json!({ "inputs": "Hi" })).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        for name in ["tgi", "dummy"] {
            let answer = server.chat(&question(name, "Hi")).await;
            assert_eq!(answer.json()["model"], "chat", "{}", answer.text);
        }
        let tokens = post(&server, "/tokenize", &json!({ "prompt": "Hi" })).await;
        assert_eq!(tokens.status, 200, "{}", tokens.text);
        let info = server.get("/info").await.json();
        assert_eq!(info["model_id"], "chat", "{info}");
        let refused = server.get("/info?model=a_text").await;
        assert_eq!(refused.status, 400, "{}", refused.text);
        let way = "POST /v2/models/a_text/infer";
        assert!(refused.text.contains(way), "{}", refused.text);
    }
}

#[tokio::test]
async fn names_that_clients_send_by_themselves_name_no_graph_unless_one_has_them() {
    let setup = || {
        Setup::new()
            .graph("one", CHAT)
            .graph("two", CHAT)
            .script(&script())
    };
    let server = setup().start().await;
    let refused = server.chat(&question("tgi", "Hi")).await;
    assert_eq!(refused.status, 404);
    let said = "several could answer: `one`, `two`";
    assert!(refused.text.contains(said), "{}", refused.text);
    let info = server.get("/info").await;
    assert!(info.text.contains(said), "{}", info.text);
    let setup = setup().graph("dummy", ACTOR);
    let server = setup
        .with(|options| options.default_model = Some("two".to_owned()))
        .start()
        .await;
    let answer = server.chat(&question("tgi", "Hi")).await;
    assert_eq!(answer.json()["model"], "two", "{}", answer.text);
    let answer = server
        .chat(&json!({ "model": "dummy", "actions": [{ "body": "mine" }] }))
        .await;
    assert_eq!(answer.text, "mine");
}

#[tokio::test]
async fn a_graph_says_where_it_answers_each_path_once_and_whole() {
    let setup = Setup::new().graph("chat", CHAT).script(&script());
    let server = setup.start().await;
    let body = json!({ "model": "chat", "input": "Hi" });
    let refused = post(&server, "/v3/embeddings", &body).await;
    let error = &refused.json()["error"];
    assert_eq!(error["code"], "unknown_endpoint", "{error}");
    let message = error["message"].as_str().expect("a text");
    let mut paths: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    assert_eq!(paths.pop(), Some("/v3/embeddings"));
    assert_eq!(paths[0], "/v3/chat/completions");
    for path in &paths {
        let times = paths.iter().filter(|other| *other == path).count();
        assert!(path.starts_with('/') && times == 1, "{message}");
    }
}

#[tokio::test]
async fn of_several_graphs_that_could_answer_one_has_to_be_named() {
    let setup = || {
        Setup::new()
            .graph("one", CHAT)
            .graph("two", CHAT)
            .script(&script())
    };
    let server = setup()
        .with(|options| options.any_model = true)
        .start()
        .await;
    let reply = server.chat(&question("other", "Hi")).await;
    assert_eq!(reply.status, 404);
    let said = "several could answer: `one`, `two`; choose one with `--any_model=NAME`";
    assert!(reply.text.contains(said), "{}", reply.text);
    let named = setup().with(|options| {
        options.any_model = true;
        options.default_model = Some("two".to_owned());
    });
    let server = named.start().await;
    let reply = server.chat(&question("other", "Hi")).await;
    assert_eq!(reply.json()["model"], "two", "{}", reply.text);
    let reply = server.chat(&question("one", "Hi")).await;
    assert_eq!(reply.json()["model"], "one", "{}", reply.text);
}

#[tokio::test]
async fn invocations_are_of_the_dialect_that_their_fields_say() {
    let server = Setup::new()
        .graph("chat", CHAT)
        .script(&script())
        .start()
        .await;
    let ask = async |body: Value| post(&server, "/invocations", &body).await;
    let chat = ask(json!({ "messages": [{ "role": "user", "content": "Hi" }] }))
        .await
        .json();
    assert_eq!(
        (&chat["object"], &chat["model"]),
        (&json!("chat.completion"), &json!("chat"))
    );
    let completion = ask(json!({ "model": "chat", "prompt": "Hi", "max_tokens": 3 }))
        .await
        .json();
    assert_eq!(completion["object"], "text_completion", "{completion}");
    let neither = ask(json!({ "text": "Hi" })).await;
    assert_eq!(neither.status, 400);
    assert!(
        neither.text.contains("`messages`, `prompt`"),
        "{}",
        neither.text
    );
    let input = ask(json!({ "input": "Hi" })).await;
    assert_eq!(input.status, 404, "no graph embeds: {}", input.text);
    assert_eq!(
        server.get("/ping").await.json(),
        json!({ "status": "Healthy", "ready": true })
    );
}

#[tokio::test]
async fn openllm_clients_find_the_only_model() {
    let server = Setup::new()
        .graph("chat", CHAT)
        .graph("actor", ACTOR)
        .script(&script())
        .start()
        .await;
    let metadata = post(&server, "/v1/metadata", &json!({})).await.json();
    assert_eq!(
        (&metadata["model_id"], &metadata["model_name"]),
        (&json!("chat"), &json!("llama"))
    );
    // All that a client of OpenLLM's sends for one parameter of its user.
    let config = json!({
        "min_length": 0, "min_new_tokens": null, "num_beams": 1, "num_beam_groups": 1, "use_cache": true, "typical_p": 1.0,
        "encoder_repetition_penalty": 1.0, "renormalize_logits": false, "num_return_sequences": 1, "n": 1, "best_of": 1,
        "temperature": 0.0, "top_k": 12, "top_p": 0.9, "use_beam_search": false, "length_penalty": 1.0, "stop": null, "max_tokens": 128,
        "min_tokens": 0, "logprobs": null, "detokenize": true, "skip_special_tokens": true, "spaces_between_special_tokens": true,
        "max_new_tokens": 4,
    });
    let body = json!({ "prompt": "abc", "llm_config": config, "stop": null, "adapter_name": null });
    let reply = post(&server, "/v1/generate", &body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_eq!(reply.header("x-ignored-fields"), None);
    let answer = reply.json();
    assert_eq!(
        (&answer["prompt"], &answer["finished"]),
        (&json!("abc"), &json!(true))
    );
    let output = &answer["outputs"][0];
    assert_eq!(
        (&output["text"], &output["finish_reason"]),
        (&json!("defg"), &json!("length"))
    );
    assert_eq!(
        output["token_ids"].as_array().map(Vec::len),
        Some(4),
        "{output}"
    );
    assert!(output["cumulative_logprob"].is_number(), "{output}");

    let events = post(&server, "/v1/generate_stream", &body).await.events();
    let texts = events
        .iter()
        .map(|it| it["outputs"][0]["text"].as_str().expect("a text"));
    assert_eq!(texts.collect::<String>(), "defg");
    let finished: Vec<&Value> = events.iter().map(|it| &it["finished"]).collect();
    assert_eq!(finished.last(), Some(&&json!(true)));
    for event in &events {
        let tokens = event["outputs"][0]["token_ids"].as_array().expect("a list");
        assert!(!tokens.is_empty(), "clients take the first one: {event}");
    }

    for (name, value) in [
        ("num_beams", json!(4)),
        ("logprobs", json!(2)),
        ("prompt", json!("x")),
    ] {
        let mut wrong = body.clone();
        wrong["llm_config"][name] = value;
        let reply = post(&server, "/v1/generate", &wrong).await;
        assert_eq!(reply.status, 400, "{name}: {}", reply.text);
        assert!(reply.text.contains(name), "{}", reply.text);
    }
    let other = json!({ "model": "nobody", "prompt": "abc" });
    assert_eq!(post(&server, "/v1/generate", &other).await.status, 404);
    let adapted = json!({ "prompt": "abc", "adapter_name": "mine" });
    assert_eq!(post(&server, "/v1/generate", &adapted).await.status, 400);
}
