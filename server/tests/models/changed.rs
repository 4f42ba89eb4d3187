//! Files that change while they are in use, trials that are off, and models that compute no
//! numbers.

use std::fs;

use graphmill_testkit::gguf::Gguf;
use serde_json::Value;

use crate::models::server::{Graphs, tiny_model};

#[tokio::test]
async fn a_file_that_changes_in_use_is_reported() {
    let good = tiny_model();
    let mut graphs = Graphs::new();
    fs::write(graphs.add("good", ""), &good).expect("writable");
    // Without watching: otherwise the other file would be served instead.
    let mut served = graphs.serve(&["--file_system_poll_wait_seconds", "0"]);
    let status: Value = serde_json::from_str(&served.get("/v3/status").await).expect("JSON");
    assert_eq!(status["engines"][0]["file_change"], Value::Null);

    let (file, other) = (served.model(0), served.model(0).with_extension("new"));
    fs::write(&other, &good).expect("writable");
    fs::rename(&other, &file).expect("renamed");
    let line = served.until_said("was replaced by another file");
    assert!(line.contains("model.gguf"), "{line}");
    let status: Value = serde_json::from_str(&served.get("/v3/status").await).expect("JSON");
    let change = status["engines"][0]["file_change"]
        .as_str()
        .expect("a change");
    assert!(change.contains("was replaced by another file"), "{change}");
    let metrics = served.get("/metrics").await;
    let sample = metrics
        .lines()
        .find(|line| line.starts_with("graphmill_model_file_changed{"));
    assert!(
        sample.is_some_and(|sample| sample.ends_with(" 1.0")),
        "{sample:?}"
    );
    // What was replaced is still what is served.
    assert_eq!(served.ask("good").await.0, 200);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_file_that_is_cut_in_use_fails_its_own_requests_and_no_others() {
    let good = tiny_model();
    let mut graphs = Graphs::new();
    fs::write(graphs.add("cut", ""), &good).expect("writable");
    fs::write(graphs.add("good", ""), &good).expect("writable");
    let mut served = graphs.serve(&[]);
    assert_eq!(served.ask("cut").await.0, 200);
    let file = fs::File::options().write(true).open(served.model(0));
    let cut = file.and_then(|file| file.set_len(0));
    cut.expect("it is cut");
    for _ in 0..2 {
        let (status, body) = served.ask("cut").await;
        assert_eq!(status, 500, "{body}");
        assert!(body.contains("was truncated while in use"), "{body}");
        let (status, body) = served.ask("good").await;
        assert_eq!(status, 200, "{body}");
    }
    served.until_said("to 0 bytes while it is in use");
    assert!(served.lives());
}

/// The good model with the weights of a tensor replaced by NaN.
fn without_numbers(good: &[u8], tensor: &str) -> Vec<u8> {
    let mut model = Gguf::parse(good).expect("a model");
    let extent = model.extents()[tensor].clone();
    for number in model.data[extent].as_chunks_mut::<4>().0 {
        *number = f32::NAN.to_le_bytes();
    }
    model.bytes()
}

#[tokio::test]
async fn without_a_trial_what_is_no_number_ends_the_request_and_failed_assertions_are_refusals() {
    let good = tiny_model();
    let mut graphs = Graphs::new();
    fs::write(graphs.add("good", ""), &good).expect("writable");
    fs::write(
        graphs.add("nan", ""),
        without_numbers(&good, "output_norm.weight"),
    )
    .expect("writable");
    let mut groups = Gguf::parse(&good).expect("a model");
    // llama.cpp asserts that there are fewer groups than experts, here none.
    groups.set_u32("llama.expert_group_count", 3);
    fs::write(graphs.add("groups", ""), groups.bytes()).expect("writable");
    let mut served = graphs.serve(&["--model_trial", "off"]);
    for (name, failure) in served.failures().await {
        match name.as_str() {
            "groups" => {
                let reason = failure.expect("refused");
                assert!(
                    reason.contains("GGML_ASSERT(hparams.n_expert_groups == 0)"),
                    "{reason}"
                );
            }
            name => assert_eq!(failure, None, "{name}"),
        }
    }
    for _ in 0..2 {
        let (status, body) = served.ask("nan").await;
        assert_eq!(status, 500, "{body}");
        assert_eq!(served.ask("good").await.0, 200);
    }
}
