//! TGI's `generate`, LightLLM's answers to it, and TEI's `embed`, `similarity` and `rerank`. The
//! scripted model goes on with the bytes behind the last of a prompt.

use serde_json::{Value, json};

use crate::rest::fields::server as all_kinds;
use crate::rest::support::{CHAT, Reply, Setup, TestServer, question, read};

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
async fn a_text_is_continued_and_its_tokens_are_told() {
    let server = server().await;
    let reply = post(
        &server,
        "/generate",
        json!({ "inputs": "Hi", "parameters": { "max_new_tokens": 5 } }),
    )
    .await;
    assert_eq!(
        (reply.status, reply.json()),
        (200, json!({ "generated_text": "jklmn" }))
    );
    assert_eq!(reply.header("x-generated-tokens"), Some("5"));
    let body = json!({ "inputs": "Hi", "parameters": {
        "max_new_tokens": 3, "details": true, "decoder_input_details": true, "top_n_tokens": 2,
        "return_full_text": true, "do_sample": true, "seed": 7, "stop": [], "temperature": null,
    } });
    let reply = post(&server, "/generate", body).await;
    let answer = reply.json();
    assert_eq!(answer["generated_text"], "Hijkl", "{reply:?}");
    let details = &answer["details"];
    let said = ["finish_reason", "generated_tokens", "seed"].map(|name| &details[name]);
    assert_eq!(said, [&json!("length"), &json!(3), &json!(7)]);
    let texts = |list: &Value| -> String {
        let list = list.as_array().expect("a list").iter();
        list.map(|token| token["text"].as_str().expect("a text"))
            .collect()
    };
    assert_eq!(texts(&details["prefill"]), "Hi", "{details}");
    assert_eq!(texts(&details["tokens"]), "jkl", "{details}");
    let first = &details["tokens"][0];
    assert_eq!(
        (&first["id"], &first["special"]),
        (&json!(106), &json!(false))
    );
    assert!(first["logprob"].is_f64() && details["prefill"][0]["logprob"].is_null());
    assert_eq!(details["top_tokens"][0].as_array().map(Vec::len), Some(2));
    server.until_idle().await;
}

#[tokio::test]
async fn the_likeliest_of_several_texts_is_the_answer() {
    let server = server().await;
    let parameters = json!({ "max_new_tokens": 4, "details": true, "best_of": 4, "temperature": 0.5, "top_n_tokens": 1 });
    let reply = post(
        &server,
        "/generate",
        json!({ "inputs": "Hi", "parameters": parameters }),
    )
    .await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let answer = reply.json();
    let details = &answer["details"];
    let likelihood = |of: &Value| -> f64 {
        let tokens = of["tokens"].as_array().expect("a list");
        assert_eq!(tokens.len(), 4, "{of}");
        tokens
            .iter()
            .map(|token| token["logprob"].as_f64().expect("a number"))
            .sum()
    };
    let others = details["best_of_sequences"].as_array().expect("a list");
    assert_eq!(
        (others.len(), &details["generated_tokens"]),
        (3, &json!(4)),
        "{answer}"
    );
    for other in others {
        assert!(likelihood(other) <= likelihood(details), "{answer}");
        assert!(other["generated_text"].is_string() && other["finish_reason"] == "length");
        assert_eq!(other["top_tokens"].as_array().map(Vec::len), Some(4));
    }
    let spelled: String = details["tokens"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|token| token["text"].as_str().expect("a text"))
        .collect();
    assert_eq!(answer["generated_text"], spelled);
    // Without details it is the text alone; at the address alone it is in a list.
    let body = json!({ "inputs": "Hi", "parameters": { "max_new_tokens": 4, "best_of": 2, "do_sample": true } });
    let reply = post(&server, "/", body).await;
    assert_eq!(
        reply.json()[0].as_object().map(serde_json::Map::len),
        Some(1),
        "{reply:?}"
    );
    server.until_idle().await;
}

#[tokio::test]
async fn a_text_is_read_from_its_last_tokens() {
    let server = server().await;
    for (truncate, read, continued) in [(2, "xy", "z{"), (10, "abxy", "z{")] {
        let body = json!({ "inputs": "abxy", "parameters": {
            "max_new_tokens": 2, "truncate": truncate, "details": true, "decoder_input_details": true,
        } });
        let reply = post(&server, "/generate", body).await;
        let answer = reply.json();
        assert_eq!(answer["generated_text"], continued, "{reply:?}");
        let prefill = answer["details"]["prefill"]
            .as_array()
            .expect("a list")
            .iter();
        let prefill: String = prefill
            .map(|token| token["text"].as_str().expect("a text"))
            .collect();
        assert_eq!(prefill, read, "{reply:?}");
        assert_eq!(
            reply.header("x-prompt-tokens"),
            Some(&*read.len().to_string())
        );
    }
}

#[tokio::test]
async fn the_texts_of_a_streams_tokens_are_its_text() {
    let server = server().await;
    for (path, stream) in [("/generate_stream", None), ("/", Some(true))] {
        let body = json!({ "inputs": "count", "stream": stream, "parameters": { "max_new_tokens": 4, "details": true } });
        let reply = post(&server, path, body).await;
        let events = events(&reply.text);
        let texts = events
            .iter()
            .map(|event| event["token"]["text"].as_str().expect("a text"));
        assert_eq!(texts.collect::<String>(), "uvwx", "{reply:?}");
        let numbers = events
            .iter()
            .map(|event| event["index"].as_u64().expect("a number"));
        assert!(numbers.eq(1..=4), "{reply:?}");
        let (last, others) = events.split_last().expect("events");
        assert!(
            others
                .iter()
                .all(|it| it["generated_text"].is_null() && it["details"].is_null())
        );
        assert_eq!(last["generated_text"], "uvwx");
        assert_eq!(last["details"]["finish_reason"], "length");
        assert_eq!(last["details"]["input_length"], 5);
    }
    // A stop string is part of the text, as in TGI.
    let body = json!({ "inputs": "count", "parameters": { "stop": ["wx"], "details": true } });
    let reply = post(&server, "/generate_stream", body).await;
    let events = events(&reply.text);
    let last = events.last().expect("an event");
    assert_eq!(last["generated_text"], "uvwx", "{reply:?}");
    assert_eq!(last["details"]["finish_reason"], "stop_sequence");
    let texts = events
        .iter()
        .map(|event| event["token"]["text"].as_str().expect("a text"));
    assert_eq!(texts.collect::<String>(), "uvwx", "{reply:?}");
    server.until_idle().await;
}

#[tokio::test]
async fn the_graph_says_whether_answers_are_lightllms() {
    let setup = Setup::new().graph("chat", CHAT);
    let setup = setup.that(&json!({ "generate_form": "lightllm" }));
    let server = setup.script(&json!({})).start().await;
    let parameters = json!({ "do_sample": false, "ignore_eos": false, "max_new_tokens": 4 });
    let body = json!({ "inputs": "Funniest joke ever:", "parameters": parameters });
    let reply = post(&server, "/generate", body.clone()).await;
    let answer = reply.json();
    assert_eq!(
        answer,
        json!({ "generated_text": [";<=>"], "count_output_tokens": 4, "finish_reason": "length", "prompt_tokens": 19 })
    );
    let events = events(&post(&server, "/generate_stream", body).await.text);
    let texts = events
        .iter()
        .map(|event| event["token"]["text"].as_str().expect("a text"));
    assert_eq!(texts.collect::<String>(), ";<=>");
    let last = events.last().expect("an event");
    assert_eq!(
        (&last["finished"], &last["finish_reason"]),
        (&json!(true), &json!("length"))
    );
    assert_eq!(last["token"]["count_output_tokens"], 4);
    // A request may say otherwise.
    let body =
        json!({ "inputs": "Hi", "generate_form": "tgi", "parameters": { "max_new_tokens": 1 } });
    let reply = post(&server, "/generate", body).await;
    assert_eq!(reply.json(), json!({ "generated_text": "j" }));
}

#[tokio::test]
async fn what_is_refused_is_told_as_hugging_face_tells_it() {
    let server = server().await;
    for (path, body, status, kind, why) in [
        (
            "/generate",
            json!({}),
            422,
            "validation",
            "`inputs` is missing",
        ),
        (
            "/generate",
            json!({ "inputs": "" }),
            422,
            "validation",
            "`inputs`",
        ),
        (
            "/generate",
            json!({ "inputs": "a", "parameters": { "truncate": 0 } }),
            422,
            "validation",
            "`truncate`",
        ),
        (
            "/generate",
            json!({ "inputs": "a", "parameters": { "best_of": 2 } }),
            422,
            "validation",
            "`best_of` needs `do_sample`",
        ),
        (
            "/generate",
            json!({ "inputs": "a", "parameters": { "best_of": 2, "do_sample": true, "seed": 1 } }),
            422,
            "validation",
            "`best_of` cannot be used with `seed`",
        ),
        (
            "/generate_stream",
            json!({ "inputs": "a", "parameters": { "best_of": 2, "do_sample": true } }),
            422,
            "validation",
            "`best_of` cannot be used in a stream",
        ),
        (
            "/generate",
            json!({ "inputs": "a", "parameters": { "best_of": 20, "do_sample": true } }),
            422,
            "validation",
            "`best_of`",
        ),
        (
            "/generate",
            json!({ "inputs": "a", "parameters": { "watermark": true } }),
            422,
            "validation",
            "`watermark`",
        ),
        (
            "/generate",
            json!({ "inputs": "a", "parameters": { "inputs": "b" } }),
            422,
            "validation",
            "`parameters.inputs`",
        ),
        (
            "/generate",
            json!({ "inputs": "a", "parameters": { "top_n_tokens": 3 } }),
            422,
            "validation",
            "details",
        ),
        (
            "/generate",
            json!({ "inputs": "a", "parameters": { "grammar": { "type": "gbnf", "value": "a" } } }),
            422,
            "validation",
            "`grammar.type`",
        ),
        (
            "/generate",
            json!({ "inputs": "a", "stream": true }),
            422,
            "validation",
            "`stream`",
        ),
        (
            "/generate_stream",
            json!({ "inputs": "a", "parameters": { "decoder_input_details": true } }),
            422,
            "validation",
            "`decoder_input_details`",
        ),
        (
            "/generate",
            json!({ "inputs": "a", "model": "nobody" }),
            404,
            "invalid_request_error",
            "nobody",
        ),
        ("/", json!([]), 422, "validation", "object"),
        (
            "/predict",
            json!({ "inputs": "a" }),
            404,
            "invalid_request_error",
            "answers at `/predict`",
        ),
        (
            "/embed_sparse",
            json!({ "inputs": "a" }),
            501,
            "unsupported",
            "sparse",
        ),
        (
            "/rerank",
            json!({ "query": "a", "texts": ["b"] }),
            404,
            "invalid_request_error",
            "answers at `/rerank`",
        ),
    ] {
        let reply = post(&server, path, body).await;
        let error = reply.json();
        let message = error["error"].as_str().expect("a message");
        assert_eq!(
            (reply.status, &error["error_type"]),
            (status, &json!(kind)),
            "{path}: {reply:?}"
        );
        assert!(message.contains(why), "{path}: {message}");
    }
    // What Cohere's clients send there is told in their form.
    let reply = post(
        &server,
        "/rerank",
        json!({ "query": "a", "documents": ["b"] }),
    )
    .await;
    assert_eq!(
        (reply.status, reply.json()["error"]["param"].clone()),
        (400, json!("model"))
    );
    // As chats of Hugging Face's client ask for a schema.
    let mut chat = question("chat", "Hi");
    let schema = json!({ "type": "object", "properties": { "a": { "const": 1 } }, "required": ["a"], "additionalProperties": false });
    chat["response_format"] = json!({ "type": "json_object", "value": schema });
    let reply = server.chat(&chat).await.json();
    let said = reply["choices"][0]["message"]["content"].as_str();
    let said = said.and_then(|said| serde_json::from_str::<Value>(said).ok());
    assert_eq!(said, Some(json!({ "a": 1 })), "{reply}");
    let held = json!({ "inputs": "a", "parameters": { "max_new_tokens": 8, "grammar": { "type": "regex", "value": "[xy]{3}" } } });
    let reply = post(&server, "/generate", held).await;
    let text = reply.json()["generated_text"].as_str().map(str::to_owned);
    let text = text.unwrap_or_else(|| panic!("{reply:?}"));
    assert!(
        text.len() == 3 && text.chars().all(|c| "xy".contains(c)),
        "{text}"
    );
}

#[tokio::test]
async fn the_only_graph_of_a_kind_is_meant_where_none_is_named() {
    let server = all_kinds().await;
    let reply = post(&server, "/embed", json!({ "inputs": ["Hi", "Bye"] })).await;
    let vectors: Vec<Vec<f32>> = serde_json::from_str(&reply.text).expect("vectors");
    assert_eq!(vectors.len(), 2, "{reply:?}");
    let length = |vector: &[f32]| vector.iter().map(|it| it * it).sum::<f32>().sqrt();
    assert!((length(&vectors[0]) - 1.0).abs() < 1e-3);
    let reply = post(
        &server,
        "/embed",
        json!({ "inputs": "Hi", "normalize": false }),
    )
    .await;
    let raw: Vec<Vec<f32>> = serde_json::from_str(&reply.text).expect("vectors");
    assert!((length(&raw[0]) - 1.0).abs() > 1e-3, "{reply:?}");
    // At the address alone, a list is one of texts to embed.
    let reply = post(&server, "/", json!({ "inputs": ["Hi", "Bye"] })).await;
    assert_eq!(
        serde_json::from_str::<Vec<Vec<f32>>>(&reply.text).expect("vectors"),
        vectors
    );
    let inputs = json!({ "source_sentence": "Hi", "sentences": ["Hi", "Bye"] });
    for path in ["/similarity", "/"] {
        let reply = post(&server, path, json!({ "inputs": inputs })).await;
        let cosines: Vec<f32> = serde_json::from_str(&reply.text).expect("numbers");
        assert!(
            (cosines[0] - 1.0).abs() < 1e-3 && cosines[1] < cosines[0],
            "{reply:?}"
        );
    }
    let body = json!({ "query": "Hi", "texts": ["Hello!", "Bye!"], "return_text": true });
    let ranks = post(&server, "/rerank", body).await.json();
    let ranks = ranks.as_array().expect("a list");
    assert!(
        ranks[0]["score"].as_f64() >= ranks[1]["score"].as_f64(),
        "{ranks:?}"
    );
    let texts = ["Hello!", "Bye!"];
    assert!(
        ranks
            .iter()
            .all(|it| it["text"] == texts[it["index"].as_u64().expect("a number") as usize])
    );
    let body = json!({ "query": "Hi", "texts": ["Hello!", "Bye!"], "raw_scores": true });
    let raw = post(&server, "/rerank", body).await.json();
    for (raw, rank) in raw.as_array().expect("a list").iter().zip(ranks) {
        let (raw, score) = (raw["score"].as_f64(), rank["score"].as_f64());
        let (raw, score) = raw.zip(score).expect("numbers");
        assert!(
            (1.0 / (1.0 + (-raw).exp()) - score).abs() < 1e-4,
            "{raw} {score}"
        );
    }
    // What is cut is what is beyond the side that is kept.
    let embed = async |inputs: String, side: &str| {
        let body = json!({ "inputs": inputs, "truncate": true, "truncation_direction": side });
        let reply = post(&server, "/embed", body).await;
        serde_json::from_str::<Vec<Vec<f32>>>(&reply.text).unwrap_or_else(|_| panic!("{reply:?}"))
    };
    let (one, other) = ("first ".repeat(5_000), "second ".repeat(5_000));
    let begins = embed(format!("{one}{other}"), "right").await;
    let ends = embed(format!("{one}{other}"), "Left").await;
    assert_eq!(begins, embed(one.clone(), "Right").await);
    assert_ne!(begins, ends);
    assert_eq!(ends, embed(format!("{other}{other}"), "left").await);
    let reply = post(
        &server,
        "/embed",
        json!({ "inputs": "Hi", "truncation_direction": "up" }),
    )
    .await;
    assert!(
        reply.status == 422 && reply.text.contains("truncation_direction"),
        "{reply:?}"
    );
    let body = json!({ "query": "Hi", "texts": [] });
    let reply = post(&server, "/rerank", body).await;
    let error = reply.json();
    assert_eq!(
        (reply.status, &error["error_type"]),
        (422, &json!("validation")),
        "{error}"
    );
    let info = server.get("/info?model=embed").await.json();
    assert!(
        info["model_type"]["embedding"]["pooling"].is_string(),
        "{info}"
    );
    let info = server.get("/info?model=chat").await.json();
    assert_eq!(info["model_id"], "chat", "{info}");
    assert!(
        info["max_total_tokens"].as_u64() > info["max_input_tokens"].as_u64(),
        "{info}"
    );
}

#[tokio::test]
async fn the_limit_of_prompts_is_told() {
    let limited = CHAT.replacen("models_path:", "max_input_tokens: 10 models_path:", 1);
    let setup = Setup::new().graph("chat", &limited);
    let server = setup.script(&json!({})).start().await;
    let info = server.get("/info").await.json();
    assert_eq!(info["max_input_tokens"], 10, "{info}");
}

#[tokio::test]
async fn several_graphs_of_a_kind_are_listed_where_none_is_named() {
    let setup = Setup::new().graph("a", CHAT).graph("b", CHAT);
    let server = setup.script(&json!({})).start().await;
    let reply = post(&server, "/generate", json!({ "inputs": "Hi" })).await;
    let message = reply.json()["error"]
        .as_str()
        .expect("a message")
        .to_owned();
    assert_eq!(
        (reply.status, message.contains("`a`, `b`")),
        (404, true),
        "{message}"
    );
    let reply = post(&server, "/embed", json!({ "inputs": "Hi" })).await;
    assert_eq!(reply.status, 404, "{reply:?}");
    let reply = post(
        &server,
        "/generate",
        json!({ "inputs": "Hi", "model": "b", "parameters": { "max_new_tokens": 1 } }),
    )
    .await;
    assert_eq!(reply.json(), json!({ "generated_text": "j" }));
}
