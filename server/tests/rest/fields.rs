//! The fields of requests: what of them is refused, by a running server, and the page that is made of
//! their schemas.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use graphmill_dialects::{
    bodies::{
        CHAT, CLASSIFY, COMPACT, COMPLETIONS, DETOKENIZE, EMBED, EMBEDDINGS, ENCODE, GENERATE,
        GENERATE_STREAM, INTERACTIVE, LLAMA_COMPLETION, LLAMA_EMBEDDING, LLAMA_INFILL, MESSAGES,
        OLLAMA_CHAT, OLLAMA_EMBED, OLLAMA_EMBEDDINGS, OLLAMA_GENERATE, OPENLLM, OPENLLM_STREAM,
        POOLING, PREDICT, RERANK, RESPONSES, SCORE, SIMILARITY, TEI_EMBED, TEI_RERANK, TGI,
        TGI_EITHER, TGI_STREAM, TOKENIZE, TRANSCRIPTIONS,
    },
    schema,
};
use serde_json::{Value, json};

use crate::rest::sound_files::Wav;
use crate::rest::support::{self, Reply, Setup, TestServer, question, read, streamed};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/fields.md");

const HEAD: &str = "# Request fields

What the bodies of each endpoint may have. The column *of* names the endpoints that list a field: `chat` is `chat/completions` alone, and `both` are `chat/completions` and `completions`. If other endpoints list the same field, all names are in full. `generate` and `generate_stream` (Triton's), those of OpenLLM, `/generate`, `/generate_stream` and `/` (TGI's), and `/completion` and `/infill` (llama-server's) are read as completions. `responses`, `messages`, `audio/transcriptions`, `chat/interactive`, `api/chat` and `api/generate` are read as chats, and take the fields of chat that they do not list,
too. A form (`multipart/form-data`) of `audio/transcriptions` has the same fields as its JSON. `null` is the same as no field. A field that is not listed is accepted, has no effect, and is named
in the answer's header `x-ignored-fields`, with 31 others at most. A field of completions with a value that asks for something is refused in chats, and the reverse.

A body may have 16384 fields. What its fields hold may be nested 100 levels deep and have 65536 JSON values, all together; token ids of `prompt`, `input` and `tokens` and numbers of `prompt_embeds` are not counted.
Of several fields of one name, the last counts.

Vectors in place of a prompt (`prompt_embeds`) are a field of `completions` and of TorchServe's predictions. Endpoints that are read as completions refuse them.

This page is made from the schemas that requests are checked against, `dialects/src/bodies/`: `UPDATE=1 cargo test --release --workspace --test suite reference`
writes it.
";

/// A request that is refused with status 400 and type `invalid_request_error`: its endpoint, fields to
/// add to a good request, and the error's `param` and `code`.
type Refusal = (String, Value, String, String);

fn refusals() -> Vec<Refusal> {
    serde_json::from_str(include_str!("refusals.json")).expect("refusals")
}

pub(crate) async fn server() -> TestServer {
    let script = json!({ "replies": [{ "when": "", "text": "Hello", "then": "end" }, { "when": "endless", "text": "on ", "then": "repeat" }] });
    hearing(Setup::new())
        .script(&script)
        .graph("chat", support::CHAT)
        .graph("embed", &shipped("embeddings"))
        .graph("rank", &shipped("rerank"))
        .start()
        .await
}

/// A graph with one of the shipped models that embed and rank.
pub(crate) fn shipped(graph: &str) -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let text = std::fs::read_to_string(format!("{root}/graphs/{graph}/graph.pbtxt"));
    text.expect("a graph")
        .replace("../../demos", &format!("{root}/demos"))
}

/// With a graph whose model reads sound.
#[cfg(feature = "vision")]
fn hearing(setup: Setup) -> Setup {
    use graphmill_testkit::projector::{Kind, MODEL_WIDTH, make};

    let projector = make(setup.path(), Kind::Sound, MODEL_WIDTH, 1.0);
    let mmproj = projector.display();
    let hears = format!("max_num_seqs: 2 max_context: 256 mmproj: \"{mmproj}\"");
    setup.graph("hears", &crate::rest::images::graph(&hears))
}

#[cfg(not(feature = "vision"))]
fn hearing(setup: Setup) -> Setup {
    setup
}

pub(crate) fn good(endpoint: &str) -> Value {
    match endpoint {
        CHAT => question("chat", "Hi"),
        COMPLETIONS => json!({ "model": "chat", "prompt": "Hi", "max_tokens": 3 }),
        RESPONSES | COMPACT | ENCODE => json!({ "model": "chat", "input": "Hi" }),
        MESSAGES => with(question("chat", "Hi"), &json!({ "max_tokens": 20 })),
        TRANSCRIPTIONS => {
            let file = STANDARD.encode(Wav::SHORT.file());
            json!({ "model": "hears", "file": file, "max_tokens": 3 })
        }
        GENERATE | GENERATE_STREAM => json!({ "text_input": "Hi" }),
        OPENLLM | OPENLLM_STREAM | INTERACTIVE => json!({ "model": "chat", "prompt": "Hi" }),
        TOKENIZE => json!({ "model": "chat", "text": "Hi" }),
        DETOKENIZE => json!({ "model": "chat", "tokens": [72, 105] }),
        EMBEDDINGS | POOLING | OLLAMA_EMBED => json!({ "model": "embed", "input": "Hi" }),
        EMBED => json!({ "model": "embed", "texts": ["Hi"] }),
        CLASSIFY => json!({ "model": "rank", "input": "Hi" }),
        PREDICT => json!({ "model": "rank", "inputs": "Hi" }),
        SCORE => json!({ "model": "rank", "text_1": "Hi", "text_2": ["Hello!", "Bye!"] }),
        RERANK => json!({ "model": "rank", "query": "Hi", "documents": ["Hello!", "Bye!"] }),
        TGI | TGI_STREAM | TGI_EITHER => {
            json!({ "model": "chat", "inputs": "Hi", "parameters": { "max_new_tokens": 3 } })
        }
        TEI_EMBED => json!({ "model": "embed", "inputs": "Hi" }),
        SIMILARITY => {
            json!({ "model": "embed", "inputs": { "source_sentence": "Hi", "sentences": ["Hello"] } })
        }
        TEI_RERANK => json!({ "model": "rank", "query": "Hi", "texts": ["Hello!", "Bye!"] }),
        OLLAMA_CHAT => with(question("chat", "Hi"), &json!({ "stream": false })),
        OLLAMA_GENERATE => json!({ "model": "chat", "prompt": "Hi", "stream": false }),
        OLLAMA_EMBEDDINGS => json!({ "model": "embed", "prompt": "Hi" }),
        LLAMA_COMPLETION => json!({ "model": "chat", "prompt": "Hi", "n_predict": 3 }),
        LLAMA_EMBEDDING => json!({ "model": "embed", "content": "Hi" }),
        LLAMA_INFILL => json!({ "model": "chat", "input_prefix": "a", "input_suffix": "b" }),
        other => panic!("no good request of `{other}` is known"),
    }
}

/// Whether this build has a model that the endpoint takes.
fn is_served(endpoint: &str) -> bool {
    endpoint != TRANSCRIPTIONS || cfg!(feature = "vision")
}

pub(crate) fn with(mut body: Value, fields: &Value) -> Value {
    for (name, value) in fields.as_object().expect("fields") {
        body[name] = value.clone();
    }
    body
}

pub(crate) fn path(endpoint: &str) -> String {
    match endpoint {
        GENERATE | GENERATE_STREAM => format!("/v2/models/chat/{endpoint}"),
        of_ollama if of_ollama.starts_with("api/") => format!("/{endpoint}"),
        bare if bare.starts_with('/') => bare.to_owned(),
        OPENLLM => "/v1/generate".to_owned(),
        OPENLLM_STREAM => "/v1/generate_stream".to_owned(),
        endpoint => format!("/v1/{endpoint}"),
    }
}

async fn post(server: &TestServer, endpoint: &str, body: &Value) -> Reply {
    read(server.post(&path(endpoint), body.to_string())).await
}

#[tokio::test]
async fn what_is_refused_is_named() {
    let server = server().await;
    for endpoint in [
        CHAT,
        COMPLETIONS,
        RESPONSES,
        COMPACT,
        MESSAGES,
        TRANSCRIPTIONS,
        GENERATE,
        GENERATE_STREAM,
        TOKENIZE,
        DETOKENIZE,
        EMBEDDINGS,
        EMBED,
        RERANK,
        POOLING,
        SCORE,
        CLASSIFY,
        PREDICT,
        TGI,
        TGI_STREAM,
        TGI_EITHER,
        INTERACTIVE,
        ENCODE,
        TEI_EMBED,
        SIMILARITY,
        TEI_RERANK,
        OLLAMA_CHAT,
        OLLAMA_GENERATE,
        OLLAMA_EMBED,
        OLLAMA_EMBEDDINGS,
        LLAMA_COMPLETION,
        LLAMA_EMBEDDING,
    ] {
        if !is_served(endpoint) {
            continue;
        }
        let reply = post(&server, endpoint, &good(endpoint)).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
    }
    let refusals = refusals();
    assert!(refusals.len() >= 150, "only {}", refusals.len());
    let mut wrong = Vec::new();
    let can_ask = |(endpoint, ..): &&Refusal| is_served(endpoint);
    for (endpoint, fields, param, code) in refusals.iter().filter(can_ask) {
        let reply = post(&server, endpoint, &with(good(endpoint), fields)).await;
        let answer = reply.json();
        let kind_of_refusal = json!("invalid_request_error");
        // Triton's errors are strings, with what else there is beside them.
        let (error, found_kind) = match &answer["error"] {
            Value::String(_) => (&answer, &kind_of_refusal),
            error => (error, &error["type"]),
        };
        let found = (reply.status, found_kind, &error["param"], &error["code"]);
        let (kind, param, code) = (kind_of_refusal.clone(), json!(param), json!(code));
        if found != (400, &kind, &param, &code) {
            wrong.push(format!(
                "{endpoint} {fields}: {} {}",
                reply.status, reply.text
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        refusals.len(),
        wrong.join("\n")
    );
    server.until_idle().await;
}

#[tokio::test]
async fn a_whole_number_may_have_a_fraction_of_nothing() {
    let server = server().await;
    for (endpoint, fields) in [
        (
            CHAT,
            r#"{"max_tokens": 2.0, "n": 1e0, "seed": 7.0, "top_k": -1.0}"#,
        ),
        (CHAT, r#"{"seed": -1}"#),
        (CHAT, r#"{"seed": 9223372036854775808}"#),
        (COMPLETIONS, r#"{"seed": 18446744073709551615}"#),
        (
            CHAT,
            r#"{"max_completion_tokens": 2e0, "logit_bias": [[5.0, 1]]}"#,
        ),
        (
            CHAT,
            r#"{"stop_token_ids": [5.0], "thinking": {"type": "enabled", "budget_tokens": 16.0}}"#,
        ),
        (
            COMPLETIONS,
            r#"{"prompt": [72.0, 105e0], "max_tokens": 2.0, "logprobs": 1.0}"#,
        ),
        (
            COMPLETIONS,
            r#"{"prompt": [[72, 105.0]], "max_tokens": 2.0}"#,
        ),
        (RESPONSES, r#"{"max_output_tokens": 16.0}"#),
        (MESSAGES, r#"{"max_tokens": 16.0}"#),
        (TOKENIZE, r#"{"max_length": 1.0}"#),
        (DETOKENIZE, r#"{"tokens": [72.0, 105]}"#),
        (EMBEDDINGS, r#"{"input": [5.0, 6.0], "dimensions": 16.0}"#),
        (EMBED, r#"{"output_dimension": 1.6e1}"#),
        (RERANK, r#"{"top_n": 1.0}"#),
        (
            OLLAMA_CHAT,
            r#"{"options": {"num_predict": 2.0, "seed": 7.0, "top_k": 4e1, "num_ctx": 8192.0}}"#,
        ),
    ] {
        let fields = serde_json::from_str(fields).expect("JSON");
        let reply = post(&server, endpoint, &with(good(endpoint), &fields)).await;
        assert_eq!(reply.status, 200, "{fields}: {}", reply.text);
    }
    for (fields, code) in [
        (json!({ "max_tokens": 2.5 }), "invalid_type"),
        (json!({ "max_tokens": 1e300 }), "invalid_value"),
        (json!({ "seed": 1.9e19 }), "invalid_value"),
    ] {
        let reply = post(&server, CHAT, &with(good(CHAT), &fields)).await;
        let found = (reply.status, reply.json()["error"]["code"].clone());
        assert_eq!(found, (400, json!(code)), "{fields}");
    }
}

#[tokio::test]
async fn minus_one_is_no_limit() {
    let server = server().await;
    for (endpoint, fields) in [
        (CHAT, json!({ "max_tokens": -1 })),
        (
            CHAT,
            json!({ "max_completion_tokens": -1.0, "max_tokens": 2 }),
        ),
        (CHAT, json!({ "max_tokens": null })),
        (COMPLETIONS, json!({ "max_tokens": -1 })),
        (RESPONSES, json!({ "max_output_tokens": -1 })),
        (MESSAGES, json!({ "max_tokens": -1 })),
        (OLLAMA_CHAT, json!({ "options": { "num_predict": -1 } })),
        (OLLAMA_CHAT, json!({ "options": { "num_predict": -2 } })),
    ] {
        let reply = post(&server, endpoint, &with(good(endpoint), &fields)).await;
        assert_eq!(reply.status, 200, "{fields}: {}", reply.text);
        assert!(
            endpoint == COMPLETIONS || reply.text.contains("Hello"),
            "{fields}"
        );
    }
}

#[tokio::test]
async fn a_field_of_the_other_endpoint_is_refused_where_it_asks_for_something() {
    let server = server().await;
    for (endpoint, fields, param) in [
        (CHAT, json!({ "echo": true }), Some("echo")),
        (CHAT, json!({ "suffix": "x" }), Some("suffix")),
        (
            CHAT,
            json!({ "echo": false, "suffix": "", "prompt": [] }),
            None,
        ),
        (COMPLETIONS, json!({ "tools": [{}] }), Some("tools")),
        (COMPLETIONS, json!({ "tools": [], "top_logprobs": 0 }), None),
    ] {
        let reply = post(&server, endpoint, &with(good(endpoint), &fields)).await;
        match param {
            None => assert_eq!(reply.status, 200, "{fields}: {}", reply.text),
            Some(param) => {
                assert_eq!(reply.status, 400, "{fields}");
                let error = &reply.json()["error"];
                assert_eq!(
                    (&error["param"], &error["code"]),
                    (&json!(param), &json!("unsupported_parameter"))
                );
            }
        }
    }
}

#[tokio::test]
async fn unknown_fields_are_named_in_a_header_also_of_streams() {
    let server = server().await;
    let unknown =
        json!({ "something_new": [1], "x,\u{e9}\n": true, "no_value": null, "user": "me" });
    let reply = server.chat(&with(question("chat", "Hi"), &unknown)).await;
    assert_eq!(
        (reply.status, reply.header("x-ignored-fields")),
        (200, Some("something_new, x???"))
    );
    let reply = server.chat(&with(streamed("chat", "Hi"), &unknown)).await;
    assert_eq!(
        reply.header("x-ignored-fields"),
        Some("something_new, x???")
    );
    assert!(!reply.events().is_empty());
    let reply = server.chat(&question("chat", "Hi")).await;
    assert_eq!(reply.header("x-ignored-fields"), None);
    for endpoint in [EMBEDDINGS, RERANK] {
        let reply = post(
            &server,
            endpoint,
            &with(good(endpoint), &json!({ "new": 1 })),
        )
        .await;
        let listed = reply.header("x-ignored-fields");
        assert_eq!((reply.status, listed), (200, Some("new")), "{endpoint}");
    }
    let many: serde_json::Map<String, Value> = (0..10_000)
        .map(|number| (format!("{number:0>100}"), json!(1)))
        .collect();
    let reply = server
        .chat(&with(question("chat", "Hi"), &many.into()))
        .await;
    let listed = reply.header("x-ignored-fields").expect("a header");
    assert!(
        reply.status == 200 && listed.len() < 1_000 && listed.ends_with("..."),
        "{listed}"
    );
}

#[tokio::test]
async fn a_request_ends_at_its_deadline() {
    let server = server().await;
    let endless = |body: Value| {
        with(
            body,
            &json!({ "messages": [{ "role": "user", "content": "endless" }], "ignore_eos": true }),
        )
    };
    for body in [endless(question("chat", "")), endless(streamed("chat", ""))] {
        let by_header = server
            .post("/v1/chat/completions", body.to_string())
            .header("x-request-timeout-ms", "1");
        let by_body = server.post(
            "/v1/chat/completions",
            with(body, &json!({ "timeout": 0.001 })).to_string(),
        );
        for request in [by_header, by_body] {
            let reply = read(request).await;
            // A stream may have begun, and then ends with the error.
            let last = reply
                .text
                .trim()
                .rsplit("data: ")
                .next()
                .expect("an answer");
            let error: Value = serde_json::from_str(last).expect("JSON");
            assert!([200, 504].contains(&reply.status), "{}", reply.status);
            assert_eq!(
                (&error["error"]["type"], &error["error"]["code"]),
                (&json!("timeout_error"), &json!("deadline")),
                "{}",
                reply.text
            );
        }
    }
    for bad in ["0", "-5", "soon", "1.5"] {
        let reply = read(
            server
                .post("/v1/chat/completions", question("chat", "Hi").to_string())
                .header("x-request-timeout-ms", bad),
        )
        .await;
        assert_eq!(
            (reply.status, reply.json()["error"]["param"].as_str()),
            (400, Some("x-request-timeout-ms")),
            "{bad}"
        );
    }
    let reply = server
        .chat(&with(question("chat", "Hi"), &json!({ "timeout": 1e300 })))
        .await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    server.until_idle().await;
}

#[test]
fn the_reference_of_fields_is_current() {
    let made = page();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(PAGE, &made).expect("the page can be written");
    }
    let written = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(
        written == made,
        "{PAGE} is not current: run `UPDATE=1 cargo test --release --workspace --test suite reference`"
    );
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    // Writing to a string cannot fail.
    let _ = write!(
        page,
        "\n| field | of | takes | what it does |\n|---|---|---|---|\n"
    );
    // Fields of several endpoints that are the same in all of them have one row.
    let mut rows: Vec<(String, Vec<&str>)> = Vec::new();
    for endpoint in schema::endpoints() {
        for (name, field) in &endpoint.fields {
            let (form, about) = (schema::words(field), field["description"].as_str());
            let about = about.unwrap_or_else(|| panic!("`{name}` has no description"));
            let about = about.split_whitespace().collect::<Vec<_>>().join(" ");
            let row = format!("{form} | {about} |");
            let row = format!("`{name}` | {{of}} | {row}");
            match rows.iter_mut().find(|(known, _)| *known == row) {
                Some((_, endpoints)) => endpoints.push(endpoint.name),
                None => rows.push((row, vec![endpoint.name])),
            }
        }
    }
    for (row, endpoints) in rows {
        let of = match &endpoints[..] {
            [CHAT] => "chat".to_owned(),
            [CHAT, COMPLETIONS] => "both".to_owned(),
            others => others.join(", "),
        };
        let _ = writeln!(page, "| {}", row.replace("{of}", &of));
    }
    page
}
