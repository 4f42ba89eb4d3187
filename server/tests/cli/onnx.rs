//! ONNX models from the command line: the demos, and a model that nobody can load.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::cli::support::{Server, command, graphmill, path, text};

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

/// What a program says of a graph for ONNX Runtime, whose library that file is.
fn on_onnx_runtime(library: &Path) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let graph = folder.path().join("graph.pbtxt");
    let model = "model_path: \"model.onnx\"";
    let asking = GRAPH.replace(model, &format!("{model} runtime: ONNX_RUNTIME"));
    fs::write(&graph, asking).expect("writable");
    let demos = Path::new(env!("CARGO_MANIFEST_DIR")).join("../demos");
    let beside = folder.path().join("model.onnx");
    fs::copy(demos.join("digits/model.onnx"), beside).expect("a copy");
    let mut command = command(&["run", path(&graph)]);
    let output = command.env("ORT_DYLIB_PATH", library).output();
    let output = output.expect("it runs");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("runtime: ONNX_RUNTIME"), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    said
}

#[test]
fn a_machine_without_onnx_runtime_is_told_where_it_was_looked_for() {
    let said = on_onnx_runtime(Path::new("/nowhere/libonnxruntime.so"));
    let expected = "cannot load ONNX Runtime from `/nowhere/libonnxruntime.so`, which `ORT_DYLIB_PATH` names: /nowhere/libonnxruntime.so: cannot open";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn a_file_that_is_no_library_of_onnx_runtime_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("library.so");
    fs::write(&file, "a text").expect("writable");
    let said = on_onnx_runtime(&file);
    assert!(
        said.contains("names: ") && said.contains("too short"),
        "{said}"
    );
    let said = on_onnx_runtime(Path::new("libm.so.6"));
    assert!(said.contains("it is another library"), "{said}");
}

#[test]
fn a_model_alone_has_a_stream_for_each_of_its_tensors() {
    let demos = Path::new(env!("CARGO_MANIFEST_DIR")).join("../demos");
    let model = demos.join("digits/model.onnx");
    let output = graphmill(&["serve", path(&model), "--emit_graph"]);
    let graph = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("graph.pbtxt"), &graph).expect("writable");
    let checked = graphmill(&["check", path(folder.path())]);
    let said = text(&checked.stdout) + &text(&checked.stderr);
    assert_eq!(checked.status.code(), Some(0), "{graph}{said}");
    let checked = graphmill(&["check", path(&model)]);
    let said = text(&checked.stdout) + &text(&checked.stderr);
    assert_eq!(checked.status.code(), Some(0), "{said}");
    let refused = graphmill(&["serve", path(&model), "--max_context", "8"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("is for language models"));

    let models = folder.path().join("models");
    fs::create_dir_all(models.join("digits")).expect("writable");
    fs::copy(&model, models.join("digits/model.onnx")).expect("writable");
    // A folder with it is served as it is.
    let emitted = graphmill(&["serve", path(&models.join("digits")), "--emit_graph"]);
    assert_eq!(emitted.status.code(), Some(0), "{}", text(&emitted.stderr));
    fs::write(models.join("broken.onnx"), "no model").expect("writable");
    let checked = graphmill(&["check", path(&models.join("broken.onnx"))]);
    assert_eq!(checked.status.code(), Some(1));
    let said = text(&checked.stderr);
    assert!(said.contains("it is not an ONNX file"), "{said}");
    let mut server = Server::start(&["--models_dir", path(&models)], |_| {});
    let said = server.says("`digits` is loaded on demand");
    // Each file that is left out is told of once, however often the folder is looked at.
    let is_told = |said: &str| said.matches("broken.onnx` is left out").count();
    assert_eq!(is_told(&said), 1, "{said}");
    fs::copy(&model, models.join("later.part")).expect("writable");
    fs::rename(models.join("later.part"), models.join("later.onnx")).expect("writable");
    let said = server.says("added `later`");
    assert_eq!(is_told(&said), 0, "{said}");
    let listed = server.get("/v1/models");
    assert_eq!(listed["data"].as_array().map(Vec::len), Some(2), "{listed}");
    let metadata = server.post("/models/load", &serde_json::json!({ "model": "digits" }));
    assert_eq!(metadata["success"], true, "{metadata}");
    let metadata = server.get("/v2/models/digits");
    assert_eq!(
        metadata["inputs"].as_array().map(Vec::len),
        Some(1),
        "{metadata}"
    );
    assert_eq!(metadata["inputs"][0]["datatype"], "FP32", "{metadata}");
}
