//! A graph with a draft model: answers are those of the graph without, and say what was drafted.

use serde_json::{Value, json};

use crate::rest::support::{CHAT, Setup, TestServer, question};

const TEXT: &str = "Sphinx of black quartz, judge my vow; pack my box with five dozen liquor jugs.";

/// The published graph with more options of its LLM node.
fn graph(options: &str) -> String {
    CHAT.replace("max_num_seqs: 4", &format!("max_num_seqs: 4 {options}"))
}

/// A server with a graph that drafts with a second script and one that does not. The model takes a
/// while for each step, so that drafts pay.
async fn server() -> TestServer {
    let script = json!({ "step_micros": 2000, "replies": [{ "text": TEXT }] });
    let setup = Setup::new()
        .graph("plain", CHAT)
        .graph(
            "drafts",
            &graph("draft_models_path: \"../draft.script.json\" draft_max_num_seqs: 2"),
        )
        .script(&script);
    let draft = json!({ "name": "small", "replies": [{ "text": TEXT }] });
    std::fs::write(setup.path().join("draft.script.json"), draft.to_string()).expect("writable");
    setup.start().await
}

async fn ask(server: &TestServer, graph: &str, extra: Value) -> Value {
    let mut request = question(graph, "hi");
    let fields = request.as_object_mut().expect("an object");
    fields.extend(extra.as_object().expect("an object").clone());
    server.chat(&request).await.json()
}

#[tokio::test]
async fn answers_are_the_same_and_say_how_much_was_drafted() {
    let server = server().await;
    let plain = ask(&server, "plain", json!({})).await;
    assert_eq!(plain["choices"][0]["message"]["content"], TEXT);
    assert_eq!(plain["usage"].get("completion_tokens_details"), None);
    for extra in [
        json!({}),
        json!({"num_assistant_tokens": 3}),
        json!({"assistant_confidence_threshold": 0.5}),
    ] {
        let answer = ask(&server, "drafts", extra).await;
        assert_eq!(answer["choices"], plain["choices"]);
        let accepted = &answer["usage"]["completion_tokens_details"]["accepted_prediction_tokens"];
        assert!(accepted.as_u64() > Some(0), "{answer}");
    }
    let off = ask(&server, "drafts", json!({"num_assistant_tokens": 0})).await;
    assert_eq!(off["choices"], plain["choices"]);
    assert_eq!(off["usage"].get("completion_tokens_details"), None);

    let status = server.status().await;
    let engines = status["engines"].as_array().expect("engines");
    let drafts: Vec<_> = engines
        .iter()
        .map(|engine| &engine["effective"]["draft"])
        .collect();
    let limits: Vec<_> = drafts
        .iter()
        .filter_map(|draft| draft.get("max_num_seqs"))
        .collect();
    assert_eq!(limits, [2]);
}

#[tokio::test]
async fn a_threshold_needs_a_draft_model() {
    let server = server().await;
    let refusal = ask(
        &server,
        "plain",
        json!({"assistant_confidence_threshold": 0.5}),
    )
    .await;
    assert_eq!(
        refusal["error"]["param"], "assistant_confidence_threshold",
        "{refusal}"
    );
}

#[tokio::test]
async fn what_a_draft_model_cannot_do_is_refused_by_name() {
    let path = "draft_models_path: \"../draft.script.json\" ";
    for (options, named) in [
        ("draft_max_num_seqs: 2".to_owned(), "draft_models_path"),
        (
            format!("{path} draft_eagle3_mode: true"),
            "`draft_eagle3_mode` cannot be used with a script",
        ),
        ("draft_eagle3_mode: true".to_owned(), "draft_models_path"),
        (
            format!("{path} draft_dynamic_split_fuse: false"),
            "draft_dynamic_split_fuse",
        ),
        (format!("{path} draft_device: \"NPU\""), "NPU"),
        (
            format!("{path} draft_max_num_batched_tokens: 1"),
            "draft_max_num_batched_tokens",
        ),
        (
            format!("{path} plugin_config: '{{\"prompt_lookup\": true}}'"),
            "prompt_lookup",
        ),
        (format!("{path} plugin_config: '{{\"mtp\": true}}'"), "mtp"),
        (
            "plugin_config: '{\"mtp\": true, \"prompt_lookup\": true}'".to_owned(),
            "`prompt_lookup`: set only one",
        ),
        (
            "plugin_config: '{\"mtp\": true}'".to_owned(),
            "a script has no MTP layers",
        ),
        (
            "draft_models_path: \"../nowhere.gguf\"".to_owned(),
            "nowhere.gguf",
        ),
        (
            "draft_models_path: \"../draft.gguf\"".to_owned(),
            "draft_models_path",
        ),
    ] {
        let setup = Setup::new()
            .graph("wrong", &graph(&options))
            .script(&json!({}));
        std::fs::write(setup.path().join("draft.script.json"), "{}").expect("writable");
        std::fs::write(setup.path().join("draft.gguf"), "").expect("writable");
        let status = setup.start().await.status().await;
        let wrong = &status["graphs"][0];
        let reason = wrong["reason"].to_string();
        assert!(reason.contains(named), "{options}: {wrong}");
    }
}
