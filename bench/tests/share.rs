//! What arrives over HTTP of what llama.cpp alone can do.

use std::{fs, path::Path, process::Command};

use serde_json::Value;

use crate::built;

#[test]
fn a_server_and_llama_decode_in_turns() {
    let bench = built::bench();
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("results.json");
    // Each of its tokens is a piece of text, so that all of them can be seen to arrive.
    let made = Command::new(bench)
        .args(["model", "--shape", "tiny", "--type", "q8_0", "--folder"])
        .arg(folder.path())
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
        .output()
        .expect("the bench runs");
    let made = String::from_utf8(made.stdout).expect("a path");
    let share = |model: &str, tokens: &str| {
        let output = Command::new(bench)
            .args([
                "share",
                "--sequences",
                "2",
                "--turn",
                "0.2",
                "--rounds",
                "2",
                "--tokens",
                tokens,
            ])
            .args([
                "--node-options",
                "max_context: 2048 max_num_seqs: 2 cache_size: 1",
            ])
            .arg("--json")
            .arg(&json)
            .arg("--model")
            .arg(model)
            .output()
            .expect("the bench runs");
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let said = text(&output.stdout) + &text(&output.stderr);
        (output.status.success(), said)
    };

    let (good, said) = share(made.trim(), "1024");
    assert!(good && said.contains("over HTTP"), "{said}");
    let results = fs::read(&json).expect("the results are written");
    let results: Value = serde_json::from_slice(&results).expect("JSON");
    let share_of_two = &results["rows"][0];
    assert_eq!(share_of_two["sequences"], 2);
    let pairs = share_of_two["pairs"].as_array().expect("pairs of turns");
    let rates = pairs
        .iter()
        .flat_map(|pair| pair.as_array().expect("two rates"));
    assert_eq!(pairs.len(), 2);
    assert_eq!(rates.clone().count(), 2 * pairs.len());
    assert!(
        rates
            .into_iter()
            .all(|rate| rate.as_f64().expect("a rate") > 0.0)
    );

    let (good, said) = share(made.trim(), "1");
    assert!(!good && said.contains("use more `--tokens`"), "{said}");
    let (good, said) = share("absent.gguf", "1024");
    assert!(!good && said.contains("absent.gguf"), "{said}");

    for wrong in ["--rounds=0", "--turn=-1"] {
        let output = Command::new(bench)
            .args(["share", "--model", "any"])
            .arg(wrong)
            .output();
        let output = output.expect("the bench runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && said.contains(&wrong[..6]),
            "{said}"
        );
    }
}
