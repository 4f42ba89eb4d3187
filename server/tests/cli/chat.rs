//! `graphmill chat`.

use std::{
    io::Write as _,
    process::{Output, Stdio},
};

use crate::cli::support::{EMBED, MODEL, Server, command, text};

const PICTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../demos/digits/samples/0.png");

fn chat(arguments: &[&str], question: &str) -> Output {
    let mut command = command(&[&["chat"], arguments].concat());
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    // It may end before it reads, which is then told by what it says.
    child
        .stdin
        .take()
        .expect("piped")
        .write_all(question.as_bytes())
        .ok();
    child.wait_with_output().expect("it ends")
}

#[test]
fn a_pipe_gets_the_answer_alone() {
    let output = chat(&[MODEL, "--temperature", "0"], "Say this is a test\n");
    let answer = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(
        answer.to_lowercase().contains("test") && answer.ends_with('\n'),
        "{answer}"
    );
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));

    let mut server = Server::start(&[MODEL], |_| ());
    server.says("ready after");
    for url in [server.url.clone(), format!("{}/v3/", server.url)] {
        let same = chat(&[&url, "--temperature", "0"], "Say this is a test\n");
        assert_eq!(text(&same.stdout), answer, "{}", text(&same.stderr));
    }
    let short = chat(
        &[&server.url, "--temperature", "0", "--max_tokens", "1"],
        "Say this is a test",
    );
    assert!(short.stdout.len() < output.stdout.len() && !short.stdout.is_empty());
    let unknown = chat(&[&server.url, "--model_name", "modle"], "Hi");
    assert_eq!(unknown.status.code(), Some(1));
    let said = text(&unknown.stderr);
    assert!(
        said.contains("the model `modle` does not exist; did you mean `model`?"),
        "{said}"
    );
}

#[test]
fn pictures_are_shown_to_the_model() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../demos/tiny_vision");
    let picture = format!("{folder}/samples/circle.png");
    let question = "What shape is this?";
    let output = chat(
        &[folder, "--image", &picture, "--temperature", "0"],
        question,
    );
    assert_eq!(
        text(&output.stdout),
        "A red circle.\n",
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn what_keeps_an_answer_away_is_told() {
    for (arguments, question, said) in [
        (&["missing.gguf"][..], "Hi", "cannot find `missing.gguf`"),
        (
            &["http://127.0.0.1:1"],
            "Hi",
            "cannot reach http://127.0.0.1:1",
        ),
        (
            &["https://127.0.0.1:1"],
            "Hi",
            "cannot reach https://127.0.0.1:1",
        ),
        (&["http://"], "Hi", "is not a URL"),
        (
            &["http://127.0.0.1:1", "--max_num_seqs", "1"],
            "Hi",
            "`--max_num_seqs` applies only to a model",
        ),
        (
            &[MODEL, "--image", "missing.png"],
            "Hi",
            "cannot read `missing.png`",
        ),
        (
            &[MODEL, "--image", MODEL],
            "Hi",
            "model.gguf` is not an image: expected a PNG",
        ),
        (&[MODEL, "--image", PICTURE], "Hi", "image"),
        (
            &[MODEL],
            " \n",
            "standard input is empty: expected a question",
        ),
        (&[EMBED], "Hi", "embed"),
    ] {
        let output = chat(arguments, question);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?} {told}");
        assert!(told.contains(said), "{said} in {told}");
        assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    }
}
