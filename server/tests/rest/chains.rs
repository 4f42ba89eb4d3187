//! Two language models in one graph, the second of which reads what the first one says.

use serde_json::json;

use crate::rest::support::{Setup, question, read};

/// The nodes from a request to the text of a model; what is theirs alone has the number.
fn model(number: usize, http_request: &str) -> String {
    format!(
        r#"
        node {{
          calculator: "OpenAIRequestCalculator"
          input_side_packet: "LLM_NODE_RESOURCES:llm{number}"
          input_stream: "HTTP_REQUEST_PAYLOAD:{http_request}"
          output_stream: "REQUEST:request{number}"
          output_stream: "PARAMS:params{number}"
        }}
        node {{
          calculator: "ChatTemplateCalculator"
          input_side_packet: "LLM_NODE_RESOURCES:llm{number}"
          input_stream: "REQUEST:request{number}"
          output_stream: "PROMPT:prompt{number}"
        }}
        node {{
          calculator: "TokenizerCalculator"
          input_side_packet: "LLM_NODE_RESOURCES:llm{number}"
          input_stream: "PROMPT:prompt{number}"
          output_stream: "TOKENS:prompt_tokens{number}"
        }}
        node {{
          name: "llm{number}"
          calculator: "LLMCalculator"
          input_side_packet: "LLM_NODE_RESOURCES:llm{number}"
          input_stream: "TOKENS:prompt_tokens{number}"
          input_stream: "PARAMS:params{number}"
          output_stream: "TOKENS:tokens{number}"
          node_options {{ [type.googleapis.com/mediapipe.LLMCalculatorOptions] {{ models_path: "../model.script.json" }} }}
        }}
        node {{
          calculator: "DetokenizerCalculator"
          input_side_packet: "LLM_NODE_RESOURCES:llm{number}"
          input_stream: "TOKENS:tokens{number}"
          input_stream: "PARAMS:params{number}"
          output_stream: "TEXT:text{number}"
        }}
        "#
    )
}

fn chain() -> String {
    format!(
        r#"
        input_stream: "HTTP_REQUEST_PAYLOAD:http_request"
        output_stream: "HTTP_RESPONSE_PAYLOAD:http_response"
        {}
        node {{ calculator: "TextAnswerCalculator" input_stream: "TEXT:text0" output_stream: "TEXT:draft" }}
        node {{ calculator: "TextToRequestCalculator" input_stream: "TEXT:draft" output_stream: "HTTP_REQUEST_PAYLOAD:second" }}
        {}
        node {{
          calculator: "OpenAIResponseCalculator"
          input_stream: "REQUEST:request0"
          input_stream: "TEXT:text1"
          output_stream: "HTTP_RESPONSE_PAYLOAD:http_response"
        }}
        "#,
        model(0, "http_request"),
        model(1, "second")
    )
}

#[tokio::test]
async fn usage_and_times_are_those_of_all_models() {
    let script = json!({ "step_micros": 500, "replies": [
        { "when": "a draft", "text": "rewritten" },
        { "when": "write", "text": "a draft" },
    ] });
    let setup = Setup::new().graph("chain", &chain());
    let server = setup.script(&script).start().await;
    let body = question("chain", "write").to_string();
    let path = "/v3/chat/completions?timings=1";
    let reply = read(server.post(path, body)).await;
    let answer = reply.json();
    assert_eq!(reply.status, 200, "{answer}");
    assert_eq!(answer["choices"][0]["message"]["content"], "rewritten");
    // The letters of both texts, and the end of each.
    let usage = &answer["usage"];
    assert_eq!(
        usage["completion_tokens"],
        "a draft".len() + "rewritten".len() + 2
    );
    let timings = &answer["timings"];
    assert_eq!(timings["generated_tokens"], usage["completion_tokens"]);
    assert_eq!(timings["prompt_tokens"], usage["prompt_tokens"]);
    let time = |name: &str| {
        timings[name]
            .as_f64()
            .unwrap_or_else(|| panic!("{name}: {timings}"))
    };
    // Nothing leaves before both have generated.
    assert!(
        time("ttft_ms") >= time("prefill_ms") + time("decode_ms"),
        "{timings}"
    );
    assert!(time("ttft_ms") <= time("total_ms"), "{timings}");
}

#[tokio::test]
async fn two_engines_of_a_graph_have_names_of_their_own() {
    let mut graph = chain();
    let options = graph.rfind("models_path").expect("options");
    graph.insert_str(options, "max_num_seqs: 2 ");
    let setup = Setup::new().graph("chain", &graph);
    let server = setup.script(&json!({ "name": "small" })).start().await;
    let metrics = server.get("/metrics").await.text;
    for name in ["small", "small_2"] {
        let series = format!("graphmill_kv_cells{{graph=\"chain\",model=\"{name}\"}} ");
        assert_eq!(metrics.matches(&series).count(), 1, "{series}: {metrics}");
    }
    let status = server.get("/v3/status").await.json();
    let names = [0, 1].map(|at| status["engines"][at]["model"].clone());
    assert_eq!(names, ["small", "small_2"]);
}
