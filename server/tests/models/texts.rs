//! Texts and chat templates that take more stack than a thread has: the server refuses them, and
//! lives.

use std::fs;

use graphmill_testkit::gguf::Gguf;
use serde_json::{Value, json};

use crate::models::server::{Graphs, Served, tiny_model};

const CHAT: &str = "/v3/chat/completions";
/// The prompt of a chat, as tokens, without an answer.
const RENDER: &str = "/v3/chat/completions/render";

/// Asks with one message; tells the status and the message of the error.
async fn ask(served: &mut Served, path: &str, graph: &str, content: &str) -> (u16, String) {
    let body = json!({
        "model": graph,
        "messages": [{ "role": "user", "content": content }],
        "max_tokens": 2,
    });
    let (status, body) = served.post(path, &body).await;
    let body: Value = serde_json::from_str(&body).expect("JSON");
    let message = body["error"]["message"].as_str().unwrap_or_default();
    (status, message.to_owned())
}

#[tokio::test]
async fn no_message_ends_the_server_whatever_finds_the_words_of_a_model() {
    // Those whose expressions go through all of a word, or of a line.
    const NAMES: [&str; 12] = [
        "deepseek-v3",
        "deepseek-llm",
        "bloom",
        "viking",
        "poro-chat",
        "gpt3-finnish",
        "exaone-moe",
        "youtu",
        "spark2_5",
        "whitespace",
        "gpt-4o",
        "superbpe",
    ];
    let mut model = Gguf::parse(&tiny_model()).expect("a model");
    model.set_u32("llama.context_length", 1 << 17);
    let mut graphs = Graphs::new();
    for name in NAMES {
        model.set_text("tokenizer.ggml.pre", name);
        let path = graphs.add(name, "");
        fs::write(path, model.bytes()).expect("writable");
    }
    let mut served = graphs.serve(&[]);
    for name in NAMES {
        for unit in ["a\u{301}", "a-", "a b ", "7", " "] {
            let (status, message) = ask(&mut served, RENDER, name, &unit.repeat(3_400)).await;
            let expected = if (name, unit) == ("superbpe", "7") {
                400
            } else {
                200
            };
            assert_eq!(status, expected, "{name} {unit:?}: {message}");
        }
        let endless = "a\u{301}".repeat(300_000);
        let (status, message) = ask(&mut served, RENDER, name, &endless).await;
        assert_eq!(status, 400, "{name}: {message}");
        let (status, message) = ask(&mut served, CHAT, name, "What is a graph?").await;
        assert_eq!(status, 200, "{name}: {message}");
    }
    assert!(served.lives());
}

#[tokio::test]
async fn no_template_of_a_model_ends_the_server() {
    let chain = |begin: &str, link: &str| format!("{begin}{}", link.repeat(100_000)) + " }}";
    let deep = |then: &str| {
        format!(
            "{{% set ns = namespace(a=[]) %}}{{% for i in range(100000) %}}{{% set ns.a = [ns.a] %}}{{% endfor %}}{{{{ {then} }}}}"
        )
    };
    let templates = [
        (
            "ring",
            "{% set ns=namespace() %}{% set ns.a=ns %}{{ ns }}".to_owned(),
            "hold data only",
        ),
        ("printed", deep("ns.a"), "levels deep"),
        ("json", deep("ns.a|tojson"), "levels deep"),
        ("equal", deep("ns.a == ns.a"), "levels deep"),
        ("dropped", deep("1"), "levels deep"),
        (
            "sum",
            chain("{{ 1", "+1"),
            "line 1: column 1: a tag can have",
        ),
        (
            "not",
            chain("{{ ", "not "),
            "line 1: column 1: a tag can have",
        ),
        (
            "minus",
            chain("{{ ", "- "),
            "line 1: column 1: a tag can have",
        ),
        (
            "filters",
            chain("{{ 'a'", "|trim"),
            "line 1: column 1: a tag can have",
        ),
        (
            "attributes",
            chain("{{ messages", ".a"),
            "line 1: column 1: a tag can have",
        ),
    ];
    let mut graphs = Graphs::new();
    for (name, template, _) in &templates {
        let mut model = Gguf::parse(&tiny_model()).expect("a model");
        model.set_text("tokenizer.chat_template", template);
        let path = graphs.add(name, "");
        fs::write(path, model.bytes()).expect("writable");
    }
    let path = graphs.add("good", "");
    fs::write(path, tiny_model()).expect("writable");
    let mut served = graphs.serve(&[]);
    for (name, _, why) in &templates {
        let (status, message) = ask(&mut served, CHAT, name, "Hi").await;
        assert!((400..600).contains(&status), "{name}: {status} {message}");
        assert!(message.contains(why), "{name}: {message}");
        // Without its template, the model is served as any other.
        assert_eq!(served.ask(name).await.0, 200, "{name}");
        assert_eq!(ask(&mut served, CHAT, "good", "Hi").await.0, 200, "{name}");
    }
    assert!(served.lives());
}
