//! Fields about single tokens, as clients of vLLM send them: ids in and out, tokens and words that
//! are allowed or not, prompts that are cut, and how likely a prompt is.

use serde_json::{Value, json};

use crate::rest::support::{CHAT, Reply, Setup, TestServer, question, read};

/// The end token of scripted models, whose other tokens are bytes.
const END: i64 = 257;

/// A model that says `Hellö` in chats, or `on and on`, and goes on with the alphabet elsewhere.
async fn server() -> TestServer {
    let script = json!({ "replies": [
        { "when": "long", "text": "on and ", "then": "repeat" },
        { "when": "", "text": "Hellö", "then": "end" },
    ] });
    Setup::new()
        .graph("chat", CHAT)
        .script(&script)
        .start()
        .await
}

const CHATS: &str = "chat/completions";
const COMPLETIONS: &str = "completions";

async fn post(server: &TestServer, endpoint: &str, fields: &Value) -> Reply {
    let mut body = match endpoint {
        CHATS => question("chat", "Hi"),
        _ => json!({ "model": "chat", "prompt": "Hi", "temperature": 0, "max_tokens": 4 }),
    };
    for (name, value) in fields.as_object().expect("fields") {
        body[name] = value.clone();
    }
    read(server.post(&format!("/v1/{endpoint}"), body.to_string())).await
}

async fn answer(server: &TestServer, endpoint: &str, fields: Value) -> Value {
    let reply = post(server, endpoint, &fields).await;
    assert_eq!(reply.status, 200, "{fields}: {}", reply.text);
    reply.json()
}

async fn text(server: &TestServer, fields: Value) -> String {
    let answer = answer(server, COMPLETIONS, fields).await;
    let text = answer["choices"][0]["text"].as_str();
    text.expect("a text").to_owned()
}

/// The field and the code of a refusal.
async fn refusal(server: &TestServer, endpoint: &str, fields: Value) -> (u16, Value, Value) {
    let reply = post(server, endpoint, &fields).await;
    let error = &reply.json()["error"];
    (reply.status, error["param"].clone(), error["code"].clone())
}

fn ids(text: &str) -> Vec<i64> {
    text.bytes().map(i64::from).collect()
}

/// Every id in lists of this name, in the order of the events.
fn joined(events: &[Value], name: &str) -> Vec<i64> {
    let choices = events.iter();
    let choices = choices.flat_map(|event| event["choices"].as_array().expect("choices"));
    let lists = choices.flat_map(|choice| choice[name].as_array().cloned().unwrap_or_default());
    lists.map(|id| id.as_i64().expect("an id")).collect()
}

#[tokio::test]
async fn ids_of_prompt_and_answer_are_told_whole_and_in_streams() {
    let server = server().await;
    let asked = json!({ "return_token_ids": true });
    let whole = answer(&server, COMPLETIONS, asked.clone()).await;
    assert_eq!(whole["choices"][0]["prompt_token_ids"], json!([72, 105]));
    assert_eq!(whole["choices"][0]["token_ids"], json!(ids("jklm")));
    let mut said = ids("Hellö");
    said.push(END);
    let whole = answer(&server, CHATS, asked).await;
    let body = question("chat", "Hi").to_string();
    let rendered = read(server.post("/v1/chat/completions/render", body)).await;
    assert_eq!(whole["prompt_token_ids"], rendered.json()["token_ids"]);
    assert_eq!(
        whole["choices"][0]["token_ids"],
        json!(said),
        "with the one that ended it"
    );
    assert_eq!(whole["usage"]["completion_tokens"], said.len());
    assert_eq!(whole["choices"][0]["message"]["content"], "Hellö");

    let asked = json!({ "return_token_ids": true, "stream": true });
    let events = post(&server, CHATS, &asked).await.events();
    assert_eq!(events[0]["prompt_token_ids"], rendered.json()["token_ids"]);
    let mut later = events.iter().skip(1);
    assert!(later.all(|event| event.get("prompt_token_ids").is_none()));
    assert_eq!(joined(&events, "token_ids"), said);
    let asked = json!({ "return_token_ids": true, "stream": true, "n": 2, "prompt": ["Hi", [74]] });
    let events = post(&server, COMPLETIONS, &asked).await.events();
    let mut told = joined(&events, "token_ids");
    told.sort_unstable();
    assert_eq!(told, ids("KKLLMMNNjjkkllmm"));
    let mut prompts = joined(&events, "prompt_token_ids");
    prompts.sort_unstable();
    assert_eq!(prompts, [72, 72, 74, 74, 105, 105], "of each choice once");
    let plain = answer(&server, COMPLETIONS, json!({})).await;
    assert_eq!(plain["choices"][0].get("token_ids"), None);
    assert_eq!(plain["choices"][0].get("prompt_token_ids"), None);
}

#[tokio::test]
async fn ids_are_told_of_what_a_stop_string_held_back_or_cut_off() {
    let server = server().await;
    let asked = json!({ "return_token_ids": true, "stop": "lm", "echo": true, "stream": true });
    let events = post(&server, COMPLETIONS, &asked).await.events();
    assert_eq!(joined(&events, "token_ids"), ids("jklm"));
    assert_eq!(joined(&events, "prompt_token_ids"), ids("Hi"));
    let choices = events.iter().map(|event| &event["choices"][0]);
    let texts = choices.map(|choice| choice["text"].as_str().expect("a text"));
    assert_eq!(texts.collect::<String>(), "Hijk");
}

#[tokio::test]
async fn log_probabilities_name_tokens_by_id() {
    let server = server().await;
    let asked = json!({ "return_tokens_as_token_ids": true, "logprobs": 1 });
    let logprobs = &answer(&server, COMPLETIONS, asked).await["choices"][0]["logprobs"];
    assert_eq!(logprobs["tokens"][0], "token_id:106");
    assert!(logprobs["top_logprobs"][0].get("token_id:106").is_some());
    let asked = json!({ "return_tokens_as_token_ids": true, "logprobs": true, "top_logprobs": 1 });
    let answer = answer(&server, CHATS, asked).await;
    let token = &answer["choices"][0]["logprobs"]["content"][0];
    assert_eq!(token["token"], "token_id:72");
    assert_eq!(token["bytes"], json!([72]));
    assert_eq!(token["top_logprobs"][0]["token"], "token_id:72");
}

#[tokio::test]
async fn only_allowed_tokens_come() {
    let server = server().await;
    let asked = json!({ "allowed_token_ids": [106, 65], "max_tokens": 9 });
    assert_eq!(text(&server, asked).await, "jAAAAAAAA");
    let asked = json!({ "allowed_token_ids": [65, 66], "guided_regex": "A{3}|b" });
    assert_eq!(text(&server, asked).await, "AAA");
    let asked = json!({ "allowed_token_ids": [65], "guided_regex": "b+" });
    let reply = post(&server, COMPLETIONS, &asked).await;
    assert_eq!(reply.status, 400, "{}", reply.text);
    assert!(reply.text.contains("allowed_token_ids"), "{}", reply.text);
    let unknown = json!({ "allowed_token_ids": [1_000_000] });
    let found = refusal(&server, COMPLETIONS, unknown).await;
    assert_eq!(
        found,
        (400, json!("allowed_token_ids"), json!("invalid_value"))
    );
}

#[tokio::test]
async fn a_bad_word_is_barred_where_it_would_be_completed() {
    let server = server().await;
    for (words, begin) in [
        (json!(["klm"]), "jkl\0"),
        (json!(["xyz", "l"]), "jk\0"),
        (json!(["jk", "Hj", "ij"]), "j\0"),
        (json!(["lk", "ijkl"]), "jklmno"),
    ] {
        let asked = json!({ "bad_words": words, "max_tokens": 6 });
        let said = text(&server, asked).await;
        assert!(said.starts_with(begin), "{words}: {said:?}");
    }
    // What is drafted is barred alike.
    for drafts in [0, 5] {
        let long = json!([{ "role": "user", "content": "long on and on and on and on" }]);
        let asked = json!({
            "messages": long, "max_tokens": 40, "num_assistant_tokens": drafts, "bad_words": ["nd o"],
        });
        let answer = answer(&server, CHATS, asked).await;
        let said = answer["choices"][0]["message"]["content"].as_str();
        let said = said.expect("a text");
        assert!(said.starts_with("on and \0"), "{drafts}: {said:?}");
        assert!(!said.contains("nd o"), "{drafts}: {said:?}");
    }
}

#[tokio::test]
async fn a_prompt_is_cut_on_the_side_that_is_asked_for() {
    let server = server().await;
    for (fields, read) in [
        (json!({ "truncate_prompt_tokens": 2 }), "ef"),
        (
            json!({ "truncate_prompt_tokens": 2, "truncation_side": "left" }),
            "ef",
        ),
        (
            json!({ "truncate_prompt_tokens": 2, "truncation_side": "right" }),
            "ab",
        ),
        (json!({ "truncate_prompt_tokens": 6 }), "abcdef"),
        (json!({ "truncate_prompt_tokens": -1 }), "abcdef"),
    ] {
        let mut asked = fields.clone();
        asked["return_token_ids"] = true.into();
        asked["prompt"] = "abcdef".into();
        let answer = answer(&server, COMPLETIONS, asked).await;
        let choice = &answer["choices"][0];
        assert_eq!(choice["prompt_token_ids"], json!(ids(read)), "{fields}");
        assert_eq!(answer["usage"]["prompt_tokens"], read.len());
    }
    let info = server.get("/tokenizer_info").await.json();
    let context = info["model_max_length"].as_u64().expect("a number");
    let long = "x".repeat(context as usize + 100);
    let asked = json!({ "prompt": long, "max_tokens": 7 });
    assert_eq!(post(&server, COMPLETIONS, &asked).await.status, 400);
    let asked = json!({ "prompt": long, "max_tokens": 7, "truncate_prompt_tokens": -1 });
    let fits = answer(&server, COMPLETIONS, asked).await;
    assert_eq!(fits["usage"]["prompt_tokens"], context - 7);
    let more = json!({ "truncate_prompt_tokens": context + 1 });
    let more = refusal(&server, COMPLETIONS, more).await;
    assert_eq!(
        more,
        (400, json!("truncate_prompt_tokens"), json!("invalid_value"))
    );

    let mut body = json!({ "model": "chat", "prompt": "abcdef", "truncate_prompt_tokens": 3 });
    let shown = read(server.post("/v1/completions/render", body.to_string())).await;
    assert_eq!(shown.json()["prompts"][0]["prompt"], "def");
    assert_eq!(shown.json()["prompts"][0]["token_ids"], json!(ids("def")));
    let explained = read(server.post("/v1/completions?explain=1", body.to_string())).await;
    assert_eq!(explained.json()["prompts"][0]["count"], 3);
    body["return_token_strs"] = true.into();
    let listed = read(server.post("/tokenize", body.to_string())).await;
    assert_eq!(listed.json()["tokens"], json!(ids("def")));
}

#[tokio::test]
async fn the_tokens_of_a_prompt_have_their_probability_and_rank() {
    let server = server().await;
    let asked = json!({ "prompt": "abd", "prompt_logprobs": 2, "max_tokens": 1 });
    let choice = &answer(&server, COMPLETIONS, asked).await["choices"][0];
    let places = choice["prompt_logprobs"].as_array().expect("a list");
    assert_eq!(places.len(), 3);
    assert_eq!(places[0], Value::Null);
    let (b, c, d) = (&places[1]["98"], &places[2]["99"], &places[2]["100"]);
    assert_eq!((&b["decoded_token"], &b["rank"]), (&json!("b"), &json!(1)));
    assert_eq!((&c["decoded_token"], &c["rank"]), (&json!("c"), &json!(1)));
    let likely = |token: &Value| token["logprob"].as_f64().expect("a number");
    assert!(
        likely(b) > -0.1 && likely(c) > -0.1 && likely(d) < -10.0,
        "{places:?}"
    );
    assert!(d["rank"].as_u64().expect("a rank") > 1, "{d}");
    assert_eq!(
        places[1].as_object().expect("tokens").len(),
        2,
        "it and one more"
    );
    assert_eq!(
        places[2].as_object().expect("tokens").len(),
        3,
        "it and two more"
    );
    assert_eq!(choice["text"], "e", "the prompt is no part of the text");
    assert_eq!(choice.get("prompt_token_ids"), None);
    let asked = json!({ "prompt_logprobs": 0, "max_tokens": 1 });
    let chat = answer(&server, CHATS, asked).await;
    let places = chat["prompt_logprobs"].as_array().expect("a list");
    assert_eq!(chat["usage"]["prompt_tokens"], places.len());
    let mut later = places.iter().skip(1);
    assert!(later.all(|place| place.as_object().is_some_and(|it| it.len() == 1)));
    let both = json!({ "prompt": "abd", "echo": true, "logprobs": 2, "prompt_logprobs": 2, "max_tokens": 0 });
    let choice = &answer(&server, COMPLETIONS, both).await["choices"][0];
    let told = &choice["prompt_logprobs"][2]["100"]["logprob"];
    assert_eq!(&choice["logprobs"]["token_logprobs"][2], told);
    for fields in [
        json!({ "prompt_logprobs": 1, "stream": true }),
        json!({ "prompt_logprobs": 21 }),
        json!({ "prompt_logprobs": 1, "echo": true, "logprobs": 2 }),
    ] {
        let (status, param, _) = refusal(&server, COMPLETIONS, fields).await;
        assert_eq!((status, param), (400, json!("prompt_logprobs")));
    }
}

#[tokio::test]
async fn dialects_whose_answers_tell_no_tokens_refuse_to() {
    let server = server().await;
    let messages = question("chat", "Hi")["messages"].clone();
    for (path, body) in [
        (
            "/v1/messages",
            json!({ "model": "chat", "max_tokens": 5, "messages": messages }),
        ),
        ("/v1/responses", json!({ "model": "chat", "input": "Hi" })),
        ("/generate", json!({ "model": "chat", "inputs": "Hi" })),
    ] {
        for field in ["return_token_ids", "return_tokens_as_token_ids"] {
            let mut body = body.clone();
            body[field] = true.into();
            let reply = read(server.post(path, body.to_string())).await;
            assert!(
                (400..=422).contains(&reply.status),
                "{path}: {}",
                reply.text
            );
            assert!(reply.text.contains(field), "{path}: {}", reply.text);
        }
    }
}
