//! Language models behind text tensors: several prompts in one run.

use graphmill_server::inference::{ModelInferRequest, infer_parameter::ParameterChoice};
use serde_json::json;

use super::{
    client::{Client, request, with, with_input},
    setup,
    stream::{begun, next},
};
use crate::rest::support::{TestServer, read};

/// The nodes of a chat, between the streams `document` and `summary`.
const CHAIN: &str = r#"
    node {
      calculator: "TextToRequestCalculator"
      input_stream: "TEXT:document"
      output_stream: "HTTP_REQUEST_PAYLOAD:http_request"
    }
    node {
      calculator: "OpenAIRequestCalculator"
      input_side_packet: "LLM_NODE_RESOURCES:llm"
      input_stream: "HTTP_REQUEST_PAYLOAD:http_request"
      output_stream: "REQUEST:request"
      output_stream: "PARAMS:params"
    }
    node {
      calculator: "ChatTemplateCalculator"
      input_side_packet: "LLM_NODE_RESOURCES:llm"
      input_stream: "REQUEST:request"
      output_stream: "PROMPT:templated"
    }
    node {
      calculator: "TokenizerCalculator"
      input_side_packet: "LLM_NODE_RESOURCES:llm"
      input_stream: "PROMPT:templated"
      output_stream: "TOKENS:prompt_tokens"
    }
    node {
      name: "llm"
      calculator: "LLMCalculator"
      input_side_packet: "LLM_NODE_RESOURCES:llm"
      input_stream: "TOKENS:prompt_tokens"
      input_stream: "PARAMS:params"
      input_stream: "LOOPBACK:loopback"
      input_stream_info { tag_index: "LOOPBACK" back_edge: true }
      output_stream: "LOOPBACK:loopback"
      output_stream: "TOKENS:tokens"
      node_options { [type.googleapis.com/mediapipe.LLMCalculatorOptions] { models_path: "../model.script.json" } }
    }
    node {
      calculator: "DetokenizerCalculator"
      input_side_packet: "LLM_NODE_RESOURCES:llm"
      input_stream: "TOKENS:tokens"
      input_stream: "PARAMS:params"
      output_stream: "TEXT:chunks"
    }
    node {
      calculator: "StopStringCalculator"
      input_stream: "TEXT:chunks"
      input_stream: "PARAMS:params"
      output_stream: "TEXT:stopped"
    }
    node {
      calculator: "ReasoningParserCalculator"
      input_side_packet: "LLM_NODE_RESOURCES:llm"
      input_stream: "TEXT:stopped"
      input_stream: "PROMPT:templated"
      output_stream: "TEXT:reasoned"
    }
    node {
      calculator: "ToolParserCalculator"
      input_side_packet: "LLM_NODE_RESOURCES:llm"
      input_stream: "TEXT:reasoned"
      input_stream: "REQUEST:request"
      input_stream: "PARAMS:params"
      output_stream: "TEXT:parsed"
    }
"#;

/// A text for each text.
fn chat() -> String {
    format!(
        r#"
        input_stream: "TEXT:document"
        input_side_packet: "stream"
        output_stream: "TEXT:summary"
        {CHAIN}
        node {{
          calculator: "TextAnswerCalculator"
          input_side_packet: "STREAM:stream"
          input_stream: "TEXT:parsed"
          output_stream: "TEXT:summary"
        }}
        "#
    )
}

/// A loop over three texts.
fn map() -> String {
    let item = |index: usize| {
        format!(
            r#"node {{
              calculator: "GetStringVectorItemCalculator"
              input_stream: "VECTOR:summaries"
              output_stream: "ITEM:summary_{index}"
              node_options {{ [type.googleapis.com/mediapipe.GetVectorItemCalculatorOptions] {{ item_index: {index} }} }}
            }}"#
        )
    };
    format!(
        r#"
        input_stream: "TEXT:a"
        input_stream: "TEXT:1:b"
        input_stream: "TEXT:2:c"
        output_stream: "TEXT:summary_0"
        output_stream: "TEXT:1:summary_1"
        output_stream: "TEXT:2:summary_2"
        node {{
          calculator: "MergeStringsToVectorCalculator"
          input_stream: "a" input_stream: "b" input_stream: "c"
          output_stream: "documents"
        }}
        node {{
          calculator: "BeginLoopStringCalculator"
          input_stream: "ITERABLE:documents"
          output_stream: "ITEM:document"
          output_stream: "BATCH_END:end"
        }}
        {CHAIN}
        node {{ calculator: "TextAnswerCalculator" input_stream: "TEXT:parsed" output_stream: "TEXT:summary" }}
        node {{
          calculator: "EndLoopStringCalculator"
          input_stream: "ITEM:summary"
          input_stream: "BATCH_END:end"
          output_stream: "ITERABLE:summaries"
        }}
        {} {} {}
        "#,
        item(0),
        item(1),
        item(2)
    )
}

async fn server() -> TestServer {
    let script = json!({ "replies": [
        { "when": "first", "text": "one and more" },
        { "when": "second", "text": "two" },
        { "when": "third", "text": "three, the longest of all" },
    ] });
    let setup = setup(&[("chat", &chat()), ("map", &map())]);
    setup.script(&script).start().await
}

fn bytes(text: &str) -> Vec<u8> {
    let length = text.len() as u32;
    [&length.to_le_bytes(), text.as_bytes()].concat()
}

fn said(text: &str, id: &str) -> ModelInferRequest {
    let mut said = with_input(request("chat"), "document", "BYTES", &[1], bytes(text));
    id.clone_into(&mut said.id);
    said
}

#[tokio::test]
async fn a_loop_over_texts_gives_a_text_for_each() {
    let server = server().await;
    let input = |name: &str, text: &str| json!({ "name": name, "datatype": "BYTES", "shape": [1], "data": [text] });
    let body = json!({ "inputs": [
        input("a", "the first"), input("b", "the second"), input("c", "the third"),
    ] });
    let request = server.post("/v2/models/map/infer", body.to_string());
    let reply = read(request).await;
    assert_eq!(reply.status, 200, "{}", reply.json());
    let outputs = &reply.json()["outputs"];
    let texts = [0, 1, 2].map(|index| outputs[index]["data"][0].clone());
    assert_eq!(texts, ["one and more", "two", "three, the longest of all"]);
}

#[tokio::test]
async fn each_message_of_a_stream_is_a_prompt_and_its_end_comes_last() {
    let server = server().await;
    let client = Client::connect(&server).await;
    let asks = |text: &str, id: &str| {
        let wish = ParameterChoice::BoolParam(true);
        with(said(text, id), "triton_enable_empty_final_response", wish)
    };
    for streams in [false, true] {
        let first = with(
            asks("the first", "one"),
            "stream",
            ParameterChoice::BoolParam(streams),
        );
        let (sender, mut answers) = begun(&client, first).await;
        sender.send(asks("the third", "two")).expect("open");
        drop(sender);
        for (id, text) in [
            ("one", "one and more"),
            ("two", "three, the longest of all"),
        ] {
            let mut whole = String::new();
            loop {
                let answer = next(&mut answers).await.expect("no status");
                let answer = answer.expect("no end").infer_response.expect("an answer");
                assert_eq!(answer.id, id, "{answer:?}");
                let is_final = &answer.parameters["triton_final_response"];
                if is_final.parameter_choice == Some(ParameterChoice::BoolParam(true)) {
                    break;
                }
                whole.push_str(&String::from_utf8_lossy(
                    &answer.raw_output_contents[0][4..],
                ));
            }
            assert_eq!(whole, text, "{id}");
        }
        assert!(next(&mut answers).await.expect("OK").is_none());
    }
}

#[tokio::test]
async fn messages_that_do_not_wait_for_answers_are_answered_in_their_order() {
    let server = server().await;
    let client = Client::connect(&server).await;
    let (sender, mut answers) = begun(&client, said("the third", "a")).await;
    for (text, id) in [("the second", "b"), ("the first", "c")] {
        sender.send(said(text, id)).expect("open");
    }
    drop(sender);
    let mut texts = Vec::new();
    while let Some(answer) = next(&mut answers).await.expect("OK") {
        let answer = answer.infer_response.expect("an answer");
        let is_final = &answer.parameters["triton_final_response"].parameter_choice;
        assert_eq!(*is_final, Some(ParameterChoice::BoolParam(false)));
        let text = String::from_utf8_lossy(&answer.raw_output_contents[0][4..]).into_owned();
        texts.push((answer.id, text));
    }
    let expected = [
        ("a", "three, the longest of all"),
        ("b", "two"),
        ("c", "one and more"),
    ];
    assert_eq!(
        texts,
        expected.map(|(id, text)| (id.to_owned(), text.to_owned()))
    );
}

/// Two nodes, one of which a side packet chooses.
const ROUTER: &str = r#"
    input_stream: "TEXT:text"
    input_side_packet: "route"
    output_stream: "TEXT:same"
    node {
      name: "router"
      calculator: "SwitchContainer"
      input_side_packet: "SELECT:route"
      input_stream: "TEXT:text"
      output_stream: "TEXT:same"
      node_options {
        [type.googleapis.com/mediapipe.SwitchContainerOptions] {
          contained_node { calculator: "PassThroughCalculator" }
          contained_node { calculator: "PassThroughCalculator" }
        }
      }
    }
"#;

#[tokio::test]
async fn a_route_that_does_not_exist_is_the_clients_mistake() {
    let server = setup(&[("router", ROUTER)]).start().await;
    for (route, status) in [(0, 200), (1, 200), (2, 400), (-1, 400)] {
        let body = json!({
            "parameters": { "route": route },
            "inputs": [{ "name": "text", "datatype": "BYTES", "shape": [1], "data": ["a"] }],
        });
        let reply = read(server.post("/v2/models/router/infer", body.to_string())).await;
        let answer = reply.json();
        assert_eq!(reply.status, status, "{route}: {answer}");
        if status == 400 {
            let error = answer["error"].as_str().expect("a text");
            assert!(
                error.contains(&format!("`SELECT` is {route}")) && error.contains("from 0 to 1"),
                "{error}"
            );
        }
    }
}

/// The second text waits for one that never comes.
const JOIN: &str = r#"
    input_stream: "TEXT:text"
    input_side_packet: "open"
    output_stream: "TEXT:same"
    node {
      name: "gate"
      calculator: "GateCalculator"
      input_stream: "text"
      input_side_packet: "ALLOW:open"
      output_stream: "passed"
    }
    node {
      name: "last"
      calculator: "PassThroughCalculator"
      input_stream: "passed"
      output_stream: "same"
    }
"#;

#[tokio::test]
async fn a_graph_without_an_answer_says_which_node_got_nothing() {
    let server = setup(&[("join", JOIN)]).start().await;
    let body = json!({
        "parameters": { "open": false },
        "inputs": [{ "name": "text", "datatype": "BYTES", "shape": [1], "data": ["a"] }],
    });
    let reply = read(server.post("/v2/models/join/infer", body.to_string())).await;
    let answer = reply.json();
    assert_eq!(reply.status, 500, "{answer}");
    let error = answer["error"].as_str().expect("a text");
    assert!(error.contains("`last` got nothing"), "{error}");
}
