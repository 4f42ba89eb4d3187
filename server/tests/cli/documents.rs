//! `graphmill run` of a map over documents: each is a prompt of one session, one after the other.

use std::fs;

use serde_json::{Value, json};

use crate::cli::support::{MODEL, graphmill, path, text};

/// Each document is asked about, and its answer is at its place in the list of answers.
fn map() -> String {
    format!(
        r#"
        input_stream: "documents"
        output_stream: "answers"
        input_side_packet: "max_tokens"
        input_side_packet: "temperature"
        node {{ calculator: "BeginLoopStringCalculator" input_stream: "ITERABLE:documents" output_stream: "ITEM:document" output_stream: "BATCH_END:end" }}
        node {{ calculator: "TextToRequestCalculator" input_stream: "TEXT:document" input_side_packet: "MAX_TOKENS:max_tokens" input_side_packet: "TEMPERATURE:temperature" output_stream: "HTTP_REQUEST_PAYLOAD:http_request" }}
        node {{ calculator: "OpenAIRequestCalculator" input_side_packet: "LLM_NODE_RESOURCES:llm" input_stream: "HTTP_REQUEST_PAYLOAD:http_request"
               output_stream: "REQUEST:request" output_stream: "PARAMS:params" }}
        node {{ calculator: "ChatTemplateCalculator" input_side_packet: "LLM_NODE_RESOURCES:llm" input_stream: "REQUEST:request" output_stream: "PROMPT:prompt" }}
        node {{ name: "tokenizer" calculator: "TokenizerCalculator" input_side_packet: "LLM_NODE_RESOURCES:llm" input_stream: "PROMPT:prompt" output_stream: "TOKENS:prompt_tokens" }}
        node {{ name: "llm" calculator: "LLMCalculator" input_side_packet: "LLM_NODE_RESOURCES:llm" input_stream: "TOKENS:prompt_tokens" input_stream: "PARAMS:params"
               input_stream: "LOOPBACK:loopback" input_stream_info {{ tag_index: "LOOPBACK" back_edge: true }}
               output_stream: "LOOPBACK:loopback" output_stream: "TOKENS:tokens"
               node_options {{ [type.googleapis.com/mediapipe.LLMCalculatorOptions] {{ models_path: "{MODEL}" max_num_seqs: 2 }} }} }}
        node {{ calculator: "DetokenizerCalculator" input_side_packet: "LLM_NODE_RESOURCES:llm" input_stream: "TOKENS:tokens" input_stream: "PARAMS:params" output_stream: "TEXT:pieces" }}
        node {{ calculator: "TextAnswerCalculator" input_stream: "TEXT:pieces" input_stream: "PROMPT:prompt_tokens" output_stream: "TEXT:answer" }}
        node {{ calculator: "EndLoopStringCalculator" input_stream: "ITEM:answer" input_stream: "BATCH_END:end" output_stream: "ITERABLE:answers" }}
        "#
    )
}

/// Lists of answers with their timestamps.
type Answers = Vec<(i64, Vec<String>)>;

/// The status, the answers, and what is said of errors.
fn run(lists: &[Vec<String>]) -> (Option<i32>, Answers, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let (graph, input) = (
        folder.path().join("map.pbtxt"),
        folder.path().join("in.jsonl"),
    );
    fs::write(&graph, map()).expect("writable");
    let line = |(at, list): (usize, &Vec<String>)| {
        let packet = json!({ "stream": "documents", "timestamp": at * 10, "value": list });
        format!("{packet}\n")
    };
    let lines: String = lists.iter().enumerate().map(line).collect();
    fs::write(&input, lines).expect("writable");
    let output = graphmill(&[
        "run",
        path(&graph),
        "--input",
        path(&input),
        "--side",
        "max_tokens=6",
        "--side",
        "temperature=0",
    ]);
    let answers = text(&output.stdout);
    let answers = answers.lines().map(|line| {
        let packet: Value = serde_json::from_str(line).expect("JSON");
        let values = packet["value"].as_array().expect("a list").iter();
        let values = values.map(|value| value.as_str().expect("a text").to_owned());
        (
            packet["timestamp"].as_i64().expect("a number"),
            values.collect(),
        )
    });
    (
        output.status.code(),
        answers.collect(),
        text(&output.stderr),
    )
}

fn documents(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn each_document_has_its_answer_in_order() {
    let asked = [
        "Say this is a test",
        "What is the capital of France?",
        "Say hello",
    ];
    let (status, answers, said) = run(&[documents(&asked)]);
    assert_eq!(status, Some(0), "{said}");
    let [(0, together)] = &answers[..] else {
        panic!("{answers:?}");
    };
    assert_eq!(together.len(), asked.len());
    // Each is what the model says to the document alone.
    for (document, answer) in asked.iter().zip(together) {
        let (status, alone, said) = run(&[documents(&[document])]);
        assert_eq!(status, Some(0), "{said}");
        assert_eq!(alone, [(0, vec![answer.clone()])], "{document}");
    }
    assert!(
        together[0].contains("test") && together[1].contains("capital"),
        "{together:?}"
    );
}

#[test]
fn fifty_documents_have_fifty_answers_and_none_has_none() {
    let many: Vec<String> = (0..50).map(|number| format!("Say {number}")).collect();
    let (status, answers, said) = run(&[many]);
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].1.len(), 50);

    let (status, answers, said) = run(&[Vec::new()]);
    assert_eq!((status, answers.len()), (Some(0), 0), "{said}");

    // A list of none between others changes nothing about them.
    let one = || documents(&["Say this is a test"]);
    let (status, answers, said) = run(&[one(), Vec::new(), one()]);
    assert_eq!(status, Some(0), "{said}");
    let times: Vec<i64> = answers.iter().map(|(time, _)| *time).collect();
    assert_eq!(times, [0, 20]);
    assert_eq!(answers[0].1, answers[1].1);
}

#[test]
fn a_document_that_is_refused_is_named_and_ends_the_run() {
    for (words, node, why) in [
        (
            5_000,
            "llm",
            "context length is 2048 tokens. However, your prompt resulted in 5009 tokens",
        ),
        (50_000, "tokenizer", "is too large to tokenize"),
    ] {
        let long = "word ".repeat(words);
        let list = documents(&["Say hi", &long, "Say ho"]);
        let (status, answers, said) = run(&[documents(&["Say hi"]), list]);
        assert_eq!(status, Some(1), "{said}");
        // The first list is answered or not, as the refusal comes before or after that.
        assert!(answers.len() <= 1, "{answers:?}");
        // The first list has the document at 0, and the second those from 1 on.
        let named = format!("node `{node}`: ");
        assert!(
            said.contains(&named) && said.contains(why) && said.contains("(packet at 2)"),
            "{said}"
        );
    }
}
