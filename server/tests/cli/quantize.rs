//! Files with smaller weights: by a command, and for a server.

use std::{fs, path::Path};

use serde_json::json;

use crate::cli::support::{MODEL, Server, command, graphmill, path, text};

fn quantize(arguments: &[&str]) -> (Option<i32>, String) {
    let output = graphmill(&[&["quantize"], arguments].concat());
    (output.status.code(), text(&output.stderr))
}

fn size(file: &Path) -> u64 {
    fs::metadata(file).expect("there").len()
}

/// The model with weights that are not quantized.
fn wide(folder: &Path) -> String {
    let wide = folder.join("wide.gguf");
    let (code, said) = quantize(&[MODEL, path(&wide), "f16", "--allow-requantize"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("is F16: "), "{said}");
    assert!(size(&wide) > size(MODEL.as_ref()), "{said}");
    path(&wide).to_owned()
}

#[test]
fn a_file_is_written_whole_or_not_at_all() {
    let folder = tempfile::tempdir().expect("a folder");
    let wide = wide(folder.path());
    let small = folder.path().join("small.gguf");
    let (code, said) = quantize(&[&wide, path(&small), "Q4_K_M", "--threads", "1"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(size(&small) < size(MODEL.as_ref()), "{said}");
    let damaged = folder.path().join("damaged.gguf");
    let all = fs::read(&wide).expect("there");
    fs::write(&damaged, &all[..all.len() / 2]).expect("writable");
    let new = folder.path().join("new.gguf");
    let new = path(&new);
    for (arguments, status, words) in [
        (
            &[&wide, path(&small), "Q8_0"][..],
            1,
            "--force overwrites it",
        ),
        (&[&wide, &wide, "Q8_0", "--force"], 1, "is the input"),
        (
            &[MODEL, new, "Q4_0"],
            1,
            "requantizing from type q8_0 is disabled: `graphmill quantize --allow_requantize` does it",
        ),
        (&[path(&damaged), new, "Q8_0"], 1, "damaged.gguf"),
        (
            &["missing.gguf", new, "Q8_0"],
            1,
            "cannot read `missing.gguf`",
        ),
        (&[&wide, "/nowhere/new.gguf", "Q8_0"], 1, "/nowhere"),
        (&[&wide, new, "Q4_K_X"], 2, "Q4_K_M"),
        (&[&wide, new, "IQ1_S"], 2, "invalid value 'IQ1_S'"),
    ] {
        let (code, said) = quantize(arguments);
        assert_eq!(code, Some(status), "{arguments:?}: {said}");
        assert!(said.contains(words), "{words} in {said}");
    }
    let (code, said) = quantize(&[&wide, path(&small), "Q8_0", "--force"]);
    assert_eq!(code, Some(0), "{said}");
    let mut left: Vec<_> = fs::read_dir(folder.path()).expect("there").collect();
    left.retain(|it| it.as_ref().is_ok_and(|it| it.file_name() != "damaged.gguf"));
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn a_server_quantizes_a_file_once_and_takes_along_what_lies_beside_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let wide = wide(folder.path());
    let config = r#"{ "max_new_tokens": 2 }"#;
    fs::write(folder.path().join("generation_config.json"), config).expect("writable");
    let serve = |model: &str| {
        Server::start(&[model, "--quantization", "8bit"], |command| {
            command.env("XDG_CACHE_HOME", folder.path());
        })
    };
    for first in [true, false] {
        let mut server = serve(&wide);
        let said = server.says("ready after");
        assert_eq!(said.contains("quantizing `"), first, "{said}");
        assert!(said.contains("the weights are Q8_0"), "{said}");
        let body = json!({ "model": "wide", "prompt": "What" });
        let answer = server.post("/v3/completions", &body);
        assert_eq!(answer["usage"]["completion_tokens"], 2, "{answer}");
    }
    // One with as many bits is served as it is.
    let said = serve(MODEL).says("ready after");
    assert!(
        said.contains("is served as it is: its weights are Q8_0"),
        "{said}"
    );
    let four = ["serve", "--rest_port", "0", MODEL, "--quantize", "4bit"];
    let output = command(&four)
        .env("XDG_CACHE_HOME", folder.path())
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(
        said.contains("to Q4_K_M: ") && said.contains("requantizing"),
        "{said}"
    );
}
