//! ONNX models from the command line: the demos, and a model that nobody can load.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::support::{graphmill, path, text};

/// Makes a tensor of 256 GiB out of a number.
const HUGE: &str = "CAg6egoyCgFhEgF6Ig9Db25zdGFudE9mU2hhcGUqGQoFdmFsdWUqDQgBEAEiBAAAAABCAXagAQQKDgoBeAoBehIBeSIDQWRkEgFnKhEIARAHQgFhSggAAAAAEAAAAFoPCgF4EgoKCAgBEgQKAggBYg0KAXkSCAoGCAESAgoAQgQKABAR";

const GRAPH: &str = r#"
input_stream: "x"
output_stream: "y"
node {
  calculator: "OnnxInferenceCalculator"
  input_side_packet: "SESSION:model"
  input_stream: "X:x"
  output_stream: "Y:y"
  node_options {
    [type.googleapis.com/graphmill.OnnxInferenceCalculatorOptions] { model_path: "model.onnx" }
  }
}
"#;

#[test]
fn the_demos_pass_their_tests() {
    for demo in ["digits", "text_classifier"] {
        let demos = Path::new(env!("CARGO_MANIFEST_DIR")).join("../demos");
        let output = graphmill(&["test", path(&demos.join(demo))]);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.success(), "{demo}: {said}");
    }
}

#[test]
fn a_graph_tells_how_its_model_is_batched() {
    let demos = Path::new(env!("CARGO_MANIFEST_DIR")).join("../demos");
    let graph = demos.join("text_classifier/batched.pbtxt");
    let output = graphmill(&["describe", path(&graph)]);
    let said = text(&output.stdout) + &text(&output.stderr);
    let expected = "batches of `OnnxInferenceCalculator`\n  at most 64 rows, 0 us for others; threads: 1, priority levels: 1\n  input `features`: FP32 [-1, 4096]\n";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn a_model_that_takes_all_memory_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let graph = folder.path().join("graph.pbtxt");
    fs::write(&graph, GRAPH).expect("writable");
    let model = STANDARD.decode(HUGE).expect("Base64");
    fs::write(folder.path().join("model.onnx"), model).expect("writable");
    let output = graphmill(&["run", path(&graph)]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("graph.pbtxt:10:"), "{said}");
    assert!(said.contains("cannot load resource `model`"), "{said}");
}
