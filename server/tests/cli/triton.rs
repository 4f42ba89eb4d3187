//! Model repositories of Triton: `config.pbtxt` and numbered folders.

use std::{fs, os::unix::fs::symlink, path::Path};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cli::support::{MODEL, Server, graphmill, path, text};

const DIGITS: &str = r#"
name: "digits"
platform: "onnxruntime_onnx"
max_batch_size: 4
input [ { name: "image" data_type: TYPE_FP32 format: FORMAT_NCHW dims: [ 1, 16, 16 ] } ]
output [ { name: "scores" data_type: TYPE_FP32 dims: [ 10 ] } ]
dynamic_batching {
  preferred_batch_size: [ 2, 4 ]
  max_queue_delay_microseconds: 100
  default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 5000000 allow_timeout_override: true }
}
instance_group [ { count: 2 kind: KIND_CPU } ]
version_policy: { specific { versions: [ 1, 3 ] } }
optimization { graph { level: 1 } }
"#;

/// Digits under names that streams cannot have, one model after the other.
const ENSEMBLE: &str = r#"
platform: "ensemble"
max_batch_size: 4
input { name: "INPUT__0" data_type: TYPE_FP32 dims: [ 1, 16, 16 ] }
output { name: "1st.scores" data_type: TYPE_FP32 dims: 10 }
output { name: "1st_scores" data_type: TYPE_FP32 dims: 10 }
ensemble_scheduling {
  step [
    { model_name: "digits" model_version: -1
      input_map { key: "image" value: "INPUT__0" } output_map { key: "scores" value: "1st.scores" } },
    { model_name: "digits" model_version: 1
      input_map { key: "image" value: "INPUT__0" } output_map { key: "scores" value: "1st_scores" } }
  ]
}
"#;

const TEXT: &str = r#"
backend: "llamacpp"
parameters { key: "max_num_seqs" value { string_value: "3" } }
"#;

/// Names of the first classes of digits.
const LABELS: [&str; 8] = [
    "none",
    "one",
    "a \"pair\"",
    "three",
    "four",
    "five",
    "six",
    "seven",
];

/// The configuration that tutorials show.
const TORCH: &str = r#"name: "my_llm_model"
platform: "pytorch_libtorch" # Specify the backend
max_batch_size: 64 # Maximum batch size Triton can form
input [
{
name: "input_ids"
data_type: TYPE_INT64
dims: [ -1 ] # Variable sequence length dimension
}
]
output [ { name: "logits" data_type: TYPE_FP32 dims: [ -1, 50257 ] } ]
instance_group [ { count: 1 kind: KIND_GPU gpus: [ 0 ] } ]
"#;

fn repository(configs: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().expect("a folder");
    let digits = Path::new(env!("CARGO_MANIFEST_DIR")).join("../demos/digits/model.onnx");
    for (name, config) in configs {
        let folder = root.path().join(name);
        for version in ["1", "2", "3"] {
            fs::create_dir_all(folder.join(version)).expect("writable");
            fs::copy(&digits, folder.join(version).join("model.onnx")).expect("writable");
        }
        fs::copy(MODEL, folder.join("3/model.gguf")).expect("writable");
        fs::write(folder.join("config.pbtxt"), config).expect("writable");
    }
    root
}

fn infer(server: &Server, model: &str, input: &str, rows: usize) -> Value {
    let data = vec![0.5; rows * 256];
    let input =
        json!({"name": input, "datatype": "FP32", "shape": [rows, 1, 16, 16], "data": data});
    server.post(
        &format!("/v2/models/{model}/infer"),
        &json!({"inputs": [input]}),
    )
}

#[test]
fn models_and_ensembles_of_a_repository_are_served() {
    let digits = DIGITS.replace(
        "dims: [ 10 ]",
        "dims: [ 10 ] label_filename: \"labels.txt\"",
    );
    let root = repository(&[
        ("digits", &digits),
        ("both", ENSEMBLE),
        ("text", TEXT),
        ("torch", TORCH),
    ]);
    let labels = root.path().join("digits/labels.txt");
    fs::write(labels, format!("\u{feff}{}", LABELS.join("\n"))).expect("writable");
    let mut server = Server::start(&["--model-repository", path(root.path())], |_| ());
    let log = server.says("ready after");
    assert!(log.contains("`optimization` has no effect"), "{log}");
    assert!(
        log.contains("config.pbtxt:2:11: models of `pytorch_libtorch` are not supported"),
        "{log}"
    );

    let answer = infer(&server, "digits", "image", 3);
    assert_eq!(answer["outputs"][0]["shape"], json!([3, 10]), "{answer}");
    assert_eq!(answer["model_version"], "3");
    let answer = infer(&server, "digits/versions/1", "image", 1);
    assert_eq!(answer["model_version"], "1", "{answer}");
    let answer = infer(&server, "digits/versions/2", "image", 1);
    assert_eq!(answer["code"], "model_not_found", "{answer}");
    let said = answer["error"].as_str().unwrap_or_default();
    assert!(
        said.contains("`digits` has no version `2`; there are `1`, `3`"),
        "{said}"
    );
    let answer = infer(&server, "digits", "image", 5);
    let said = answer["error"].as_str().unwrap_or_default();
    assert!(
        said.contains("5 rows") && said.contains("at most 4"),
        "{answer}"
    );
    check_descriptions(&server);

    // The classes of each row with the highest scores, as Triton tells them.
    let image = vec![0.5; 2 * 256];
    let input =
        json!({"name": "image", "datatype": "FP32", "shape": [2, 1, 16, 16], "data": image});
    let mut body = json!({"inputs": [input], "outputs": [{"name": "scores"}]});
    let ask = |body: &Value| server.post("/v2/models/digits/infer", body)["outputs"][0].clone();
    let scores = ask(&body)["data"].clone();
    let scores: Vec<f64> = serde_json::from_value(scores).expect("numbers");
    body["outputs"][0]["parameters"] = json!({"classification": 3});
    let classes = ask(&body);
    assert_eq!(classes["shape"], json!([2, 3]), "{classes}");
    let mut best: Vec<usize> = (0..10).collect();
    best.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    let best = best[..3].iter().map(|class| {
        let label = LABELS.get(*class).map(|label| format!(":{label}"));
        let (score, label) = (scores[*class] as f32, label.unwrap_or_default());
        json!(format!("{score:.6}:{class}{label}"))
    });
    let best: Vec<Value> = best.collect();
    assert_eq!(classes["data"].as_array().expect("a list")[..3], best);
    body["outputs"][0]["parameters"] = json!({"classification": "3"});
    let refused = server.post("/v2/models/digits/infer", &body);
    let said = refused["error"].as_str().unwrap_or_default();
    assert!(
        said.contains("outputs[0].parameters.classification"),
        "{refused}"
    );

    let metadata = server.get("/v2/models/both");
    let names = |side: &str| -> Vec<Value> {
        let tensors = metadata[side].as_array().expect("a list").iter();
        tensors.map(|tensor| tensor["name"].clone()).collect()
    };
    assert_eq!(names("inputs"), ["INPUT__0"]);
    assert_eq!(names("outputs"), ["1st.scores", "1st_scores"]);
    let answer = infer(&server, "both", "INPUT__0", 2);
    let outputs = &answer["outputs"];
    assert_eq!(outputs[0]["name"], "1st.scores");
    assert_eq!(outputs[0]["data"], outputs[1]["data"]);
    // The stream has another name, which requests do not see.
    let answer = infer(&server, "both", "input__0", 2);
    assert!(
        answer["error"]
            .as_str()
            .is_some_and(|it| it.contains("`INPUT__0`")),
        "{answer}"
    );

    let body = json!({"text_input": "Hello", "max_tokens": 2});
    let answer = server.post("/v2/models/text/generate", &body);
    assert!(answer["text_output"].is_string(), "{answer}");
}

/// Compares what is told of the models with their configurations.
fn check_descriptions(server: &Server) {
    let described = server.get("/v2/models/digits");
    assert_eq!(described["versions"], json!(["1", "3"]), "{described}");
    assert_eq!(described["inputs"][0]["shape"], json!([-1, 1, 16, 16]));
    let described = server.get("/v2/models/digits/versions/1");
    assert_eq!(described["versions"], json!(["1"]), "{described}");
    for (name, input) in [("digits", "image"), ("both", "INPUT__0")] {
        let config = server.get(&format!("/v2/models/{name}/config"));
        assert_eq!(config["max_batch_size"], 4, "{config}");
        assert_eq!(config["input"][0]["name"], input, "{config}");
        assert_eq!(config["input"][0]["dims"], json!([1, 16, 16]), "{config}");
        let format = if name == "digits" { "NCHW" } else { "NONE" };
        assert_eq!(config["input"][0]["format"], format!("FORMAT_{format}"));
        assert_eq!(config["output"][0]["dims"], json!([10]), "{config}");
        assert_eq!(
            config["model_transaction_policy"]["decoupled"], false,
            "{config}"
        );
    }
    let config = server.get("/v2/models/text/config");
    assert_eq!(config["max_batch_size"], 0, "{config}");
    assert_eq!(
        config["model_transaction_policy"]["decoupled"], true,
        "{config}"
    );
    let versions = |path: &str| -> Vec<Value> {
        let stats = server.get(path);
        let stats = stats["model_stats"].as_array().expect("a list").iter();
        stats.map(|of| of["version"].clone()).collect()
    };
    assert_eq!(versions("/v2/models/digits/stats"), ["1", "3"]);
    assert_eq!(versions("/v2/models/digits/versions/3/stats"), ["3"]);
    let ready = server.get("/v2/models/digits/versions/1/ready");
    assert_eq!(ready, json!({"name": "digits", "ready": true}));
}

#[test]
fn models_without_a_configuration_are_served_as_their_files_are() {
    let root = repository(&[("told", "max_batch_size: 4")]);
    let digits = root.path().join("told/1/model.onnx");
    for (folder, file) in [("plain/7", "model.onnx"), ("torch/1", "model.pt")] {
        fs::create_dir_all(root.path().join(folder)).expect("writable");
        fs::copy(&digits, root.path().join(folder).join(file)).expect("writable");
    }
    fs::remove_file(root.path().join("told/3/model.gguf")).expect("it is there");
    let mut server = Server::start(&["--model-repository", path(root.path())], |_| ());
    let log = server.says("ready after");
    assert!(log.contains("`torch` is left out: "), "{log}");
    assert!(!log.contains("`plain` is left out"), "{log}");
    let config = server.get("/v2/models/plain/config");
    assert_eq!(config["max_batch_size"], 0, "{config}");
    assert_eq!(config["input"][0]["dims"], json!([-1, 1, 16, 16]));
    assert_eq!(config["output"][0]["data_type"], "TYPE_FP32", "{config}");
    let answer = infer(&server, "plain", "image", 5);
    assert_eq!(answer["outputs"][0]["shape"], json!([5, 10]), "{answer}");
    assert_eq!(answer["model_version"], "7", "{answer}");
    let config = server.get("/v2/models/told/config");
    assert_eq!(config["max_batch_size"], 4, "{config}");
    assert_eq!(config["input"][0]["dims"], json!([1, 16, 16]), "{config}");
    assert_eq!(config["input"][0]["name"], "image", "{config}");

    // The graph is that of the model by itself.
    let model = root.path().join("plain/7/model.onnx");
    let alone = graphmill(&["serve", path(&model), "--emit_graph"]);
    let flags = ["--model_name", "plain", "--emit_graph"];
    let repository = ["serve", "--model-repository", path(root.path())];
    let named = graphmill(&[&repository[..], &flags].concat());
    let nodes = |graph: &[u8]| {
        let graph = text(graph);
        let at = graph.find("node {").expect("a node");
        graph[at..].replace("model0", "model")
    };
    assert_eq!(nodes(&named.stdout), nodes(&alone.stdout));
}

/// The repository as the index has it: version and state of each model.
fn states(server: &Server) -> Vec<[String; 3]> {
    let index = server.post("/v2/repository/index", &json!({}));
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let models = index.as_array().expect("a list").iter();
    models
        .map(|it| [text(&it["name"]), text(&it["version"]), text(&it["state"])])
        .collect()
}

#[test]
fn a_model_is_loaded_by_its_name_as_the_repository_or_the_request_has_it() {
    let root = repository(&[("digits", DIGITS)]);
    let mut server = Server::start(&["--model-repository", path(root.path())], |_| ());
    server.says("ready after");
    let change =
        |what: &str, body: &Value| server.post(&format!("/v2/repository/models/{what}"), body);
    let with = |config: &Value| json!({"parameters": {"config": config.to_string()}});

    // All versions leave, and no request brings one back.
    assert_eq!(
        change(
            "digits/unload",
            &json!({"parameters": {"unload_dependents": false}})
        ),
        json!({})
    );
    let out = |version: &str| ["digits", version, "UNAVAILABLE"].map(str::to_owned);
    assert_eq!(states(&server), [out("1"), out("3")]);
    let answer = infer(&server, "digits", "image", 1);
    assert_eq!(answer["code"], "unloaded", "{answer}");
    // Neither does the load of another model.
    fs::create_dir_all(root.path().join("more/1")).expect("writable");
    fs::copy(
        root.path().join("digits/1/model.onnx"),
        root.path().join("more/1/model.onnx"),
    )
    .expect("writable");
    fs::write(
        root.path().join("more/config.pbtxt"),
        DIGITS
            .replace("\"digits\"", "\"more\"")
            .replace("[ 1, 3 ]", "[ 1 ]"),
    )
    .expect("writable");
    assert_eq!(change("more/load", &json!({})), json!({}));
    let more = ["more", "1", "READY"].map(str::to_owned);
    assert_eq!(states(&server), [out("1"), out("3"), more.clone()]);
    // Nor does another one whose file is gone keep a model from being loaded.
    let file = root.path().join("more/1/model.onnx");
    fs::rename(&file, root.path().join("away")).expect("writable");

    // Protocol buffers in JSON: names in either form, long numbers as texts, maps as objects.
    let mut config = json!({
        "name": "digits", "backend": "onnxruntime", "maxBatchSize": 2,
        "versionPolicy": {"specific": {"versions": ["2"]}},
        "input": [{"name": "image", "dataType": "TYPE_FP32", "dims": ["1", 16, 16], "format": "FORMAT_NCHW"}],
        "output": [{"name": "scores", "data_type": "TYPE_FP32", "dims": [10]}],
        "dynamic_batching": {
            "max_queue_delay_microseconds": "100", "priority_levels": 2, "default_priority_level": 1,
            "priority_queue_policy": {"1": {"max_queue_size": 8, "timeout_action": "DELAY"}},
        },
        "parameters": {"any": {"string_value": "1"}}, "metric_tags": {}, "model_warmup": [], "optimization": null,
    });
    assert_eq!(change("digits/load", &with(&config)), json!({}));
    fs::rename(root.path().join("away"), &file).expect("writable");
    let ready = |name: &str, version: &str| [name, version, "READY"].map(str::to_owned);
    assert_eq!(states(&server), [ready("digits", "2"), more.clone()]);
    assert!(infer(&server, "digits", "image", 2)["outputs"].is_array());
    assert!(infer(&server, "digits", "image", 3)["error"].is_string());

    // What is wrong is told by its name, and changes nothing.
    config["max_batch_sise"] = json!(3);
    let file = json!({"parameters": {"file:1/model.onnx": "AAAA"}});
    let unknown = json!({"parameters": {"configuration": "{}"}});
    let dependents = json!({"parameters": {"unload_dependents": true}});
    for (what, body, said) in [
        ("digits/load", with(&config), "max_batch_sise"),
        (
            "digits/load",
            with(&json!({"backend": "python"})),
            "models of `python` are not supported",
        ),
        (
            "digits/load",
            with(&json!({"back-end": "onnxruntime"})),
            "back-end",
        ),
        ("digits/load", with(&json!([])), "it is not a JSON object"),
        (
            "digits/load",
            with(
                &json!({"backend": "onnxruntime", "default_model_filename": "../../more/1/model.onnx"}),
            ),
            "`default_model_filename` must be a path inside the folder of a version",
        ),
        (
            "digits/load",
            with(
                &json!({"backend": "llamacpp", "parameters": {"a: 1 } } node {": {"string_value": "1"}}}),
            ),
            "`parameters`: unknown option",
        ),
        (
            "digits/load",
            with(
                &json!({"backend": "llamacpp", "parameters": {"mmproj": {"string_value": "/etc/hostname"}}}),
            ),
            "`mmproj` contains `/`",
        ),
        (
            "digits/load",
            json!({"parameters": {"config": true}}),
            "parameters.config",
        ),
        ("digits/load", file, "parameters.file:1/model.onnx"),
        ("digits/load", unknown, "parameters.configuration"),
        ("digits/unload", dependents, "parameters.unload_dependents"),
        (
            "nothing/load",
            json!({}),
            "the repository has no model `nothing`",
        ),
        ("../digits/load", json!({}), ""),
        ("nothing/unload", json!({}), "does not exist"),
    ] {
        let answer = change(what, &body);
        let error = answer["error"].as_str();
        assert!(
            error.is_some_and(|it| it.contains(said)),
            "{what}: {answer}"
        );
    }
    assert_eq!(states(&server), [ready("digits", "2"), more.clone()]);

    // Answers are kept where it says so.
    config
        .as_object_mut()
        .expect("an object")
        .remove("max_batch_sise");
    config["response_cache"] = json!({"enable": true});
    assert_eq!(change("digits/load", &with(&config)), json!({}));
    let outputs = |answer: Value| answer["outputs"].clone();
    let first = outputs(infer(&server, "digits", "image", 2));
    assert!(first.is_array() && first == outputs(infer(&server, "digits", "image", 2)));
    let stats = server.get("/v2/models/digits/stats");
    let stats = &stats["model_stats"][0]["inference_stats"];
    assert_eq!(stats["cache_hit"]["count"], 1, "{stats}");

    // Without a configuration, the file counts again.
    assert_eq!(change("digits/load", &json!({})), json!({}));
    assert_eq!(
        states(&server),
        [ready("digits", "1"), ready("digits", "3"), more]
    );
}

#[test]
fn graphs_of_models_are_shown_and_checked() {
    let root = repository(&[("digits", DIGITS), ("both", ENSEMBLE)]);
    let flags = [
        "serve",
        "--model-repository",
        path(root.path()),
        "--model_name",
        "both",
        "--emit_graph",
    ];
    let output = graphmill(&flags);
    let graph = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(
        graph.matches("OnnxInferenceCalculator\"").count(),
        2,
        "{graph}"
    );
    let file = root.path().join("graph.pbtxt");
    fs::write(&file, &graph).expect("writable");
    for file in [
        file,
        root.path().join("both/config.pbtxt"),
        root.path().join("digits/config.pbtxt"),
    ] {
        let output = graphmill(&["check", path(&file)]);
        assert!(output.status.success(), "{graph}{}", text(&output.stderr));
    }
}

#[test]
fn a_configuration_that_does_not_fit_its_model_is_refused_at_its_place() {
    let model = DIGITS.replace("name: \"digits\"", "");
    let from = |from: &str, to: &str| model.replace(from, to);
    let both = |from: &str, to: &str| ENSEMBLE.replace(from, to);
    for (config, line, said) in [
        (
            from("[ 1, 16, 16 ]", "[ 1, 16, 17 ]"),
            5,
            "`1/model.onnx` has `image` in the shape [-1, 1, 16, 16], but `dims` after the batch dimension are [1, 16, 17]",
        ),
        (
            from("dims: [ 10 ]", "dims: [ -1 ]"),
            6,
            "has `scores` in the shape [-1, 10]",
        ),
        (
            from("TYPE_FP32 format", "TYPE_INT8 format"),
            5,
            "has `image` as FP32, not as INT8",
        ),
        (from("\"image\"", "\"img\""), 5, "has no input `img`; "),
        (
            from("dims: [ 10 ]", "format: FORMAT_NHWC dims: [ 10 ]"),
            6,
            "`format` is allowed only for inputs",
        ),
        (
            from("max_batch_size: 4", "max_batch_size: 0"),
            5,
            "`dims` are [1, 16, 16]",
        ),
        (
            from("[ 2, 4 ]", "[ 4, 16 ]"),
            8,
            "`preferred_batch_size` must be from 1 to `max_batch_size`, 4, not 16",
        ),
        (
            from("[ 1, 3 ]", "[ 7 ]"),
            13,
            "`version_policy` names version `7`, but there is only `1`, `2`, `3`",
        ),
        (
            from(
                "optimization { graph { level: 1 } }",
                "default_model_filename: \"modl.onnx\"",
            ),
            14,
            "no version folder (`1`, `2`, `3`) has a `modl.onnx`",
        ),
        (
            from(
                "optimization { graph { level: 1 } }",
                "default_model_filename: \"../../digits/1/model.onnx\"",
            ),
            14,
            "must be a path inside the folder",
        ),
        (
            from(
                "optimization { graph { level: 1 } }",
                "default_model_filename: \"/etc/passwd\"",
            ),
            14,
            "must be a path inside the folder",
        ),
        (
            both("max_batch_size: 4", ""),
            10,
            "`digits` takes `image` FP32 of the shape [-1, 1, 16, 16], but `INPUT__0` is FP32 of the shape [1, 16, 16]",
        ),
        (
            both("max_batch_size: 4", "max_batch_size: 8"),
            3,
            "`max_batch_size` is above the limit 4 of `digits`",
        ),
        (
            both("dims: 10 }", "dims: 11 }"),
            5,
            "the output `1st.scores` is FP32 of the shape [-1, 11], but `1st.scores` is FP32 of the shape [-1, 10]",
        ),
        (
            both("value: \"1st_scores\"", "value: \"1st.scores\""),
            12,
            "`1st.scores` is produced more than once",
        ),
        (
            both("value: \"INPUT__0\"", "value: \"INPUT__1\""),
            10,
            "no input and no step produces `INPUT__1`",
        ),
    ] {
        let root = repository(&[("digits", DIGITS), ("model", &config)]);
        let file = root.path().join("model/config.pbtxt");
        let output = graphmill(&["check", path(&file)]);
        let shown = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{config}\n{shown}");
        let place = format!("model/config.pbtxt:{line}:");
        assert!(
            shown.contains(said) && shown.contains(&place),
            "{config}\n{shown}"
        );
    }
}

#[test]
fn a_model_that_does_not_fit_is_left_out() {
    let wrong = DIGITS
        .replace("name: \"digits\"", "")
        .replace("[ 1, 16, 16 ]", "[ 1, 16, 17 ]");
    let long = format!("{}{}", DIGITS, "# a comment\n".repeat(100_000));
    let many = format!("backend: \"onnxruntime\"{}", " input { }".repeat(5_000));
    let root = repository(&[
        ("digits", DIGITS),
        ("wrong", &wrong),
        ("long", &long),
        ("many", &many),
    ]);
    let mut server = Server::start(&["--model-repository", path(root.path())], |_| ());
    let told = server.says("ready after");
    for said in [
        "`wrong` is left out: ",
        "wrong/config.pbtxt:5:72: `1/model.onnx` has `image` in the shape",
        "`long` is left out: cannot read",
        "it has more than 1 MiB",
        "a model can have at most 4096 `input`",
    ] {
        assert!(told.contains(said), "{said}: {told}");
    }
    let names: Vec<String> = states(&server)
        .into_iter()
        .map(|it| it[0].clone())
        .collect();
    assert_eq!(names, ["digits", "digits"]);
}

#[test]
fn names_of_classes_that_do_not_fit_are_warned_of() {
    let config = DIGITS.replace(
        "dims: [ 10 ]",
        "dims: [ 10 ] label_filename: \"labels.txt\"",
    );
    let root = repository(&[("digits", &config)]);
    let folder = root.path().join("digits");
    let check = |labels: &str| {
        fs::write(folder.join("labels.txt"), labels).expect("writable");
        let output = graphmill(&["check", path(&folder.join("config.pbtxt"))]);
        let shown = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{labels}\n{shown}");
        shown
    };
    for (labels, said) in [
        ("", "with 0 names, but the output has 10 classes"),
        ("one\ntwo\n", "with 2 names, but the output has 10 classes"),
        ("one\n\nthree\n", "whose line 2 is empty"),
    ] {
        let shown = check(labels);
        assert!(shown.contains(said), "{labels}\n{shown}");
    }
    let fits = check("0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    assert!(!fits.contains("label_filename"), "{fits}");
}

#[test]
fn what_a_configuration_cannot_say_is_refused_at_its_place() {
    let lost = "input_map { key: \"image\" value: \"INPUT__0\" } output_map { key: \"scores\" value: \"1st.scores\" }";
    for (config, said) in [
        (
            DIGITS.replace("dynamic_batching {", "dynamic_batcing {"),
            "config.pbtxt:7:1",
        ),
        (
            DIGITS.replace("TYPE_FP32 format", "TYPE_FP31 format"),
            "config.pbtxt:5:",
        ),
        (
            DIGITS.replace("max_batch_size: 4", "max_batch_size: -4"),
            "config.pbtxt:4:17",
        ),
        (
            DIGITS.replace("KIND_CPU", "KIND_GPU gpus: [ 0 ]"),
            "`kind` can only be `KIND_CPU`",
        ),
        (
            DIGITS.replace("\"digits\"", "\"other\""),
            "the folder is `model`",
        ),
        (
            DIGITS.replace("name: \"digits\"", "sequence_batching { }"),
            "config.pbtxt:2:1",
        ),
        (
            DIGITS.replace("dims: [ 10 ]", "dims: [ 0 ]"),
            "neither -1 nor above 0",
        ),
        (
            DIGITS.replace("dims: [ 10 ]", "dims: 10 label_filename: \"none.txt\""),
            "`label_filename` of `scores` cannot be read",
        ),
        (
            DIGITS.replace("dims: [ 10 ]", "dims: 10 label_filename: \"../x\""),
            "leads out of the folder",
        ),
        (
            DIGITS.replace("format: FORMAT_NCHW", "label_filename: \"config.pbtxt\""),
            "`label_filename` is for outputs",
        ),
        (
            ENSEMBLE.replace(lost, ""),
            "`input_map` of `digits` has no `image`",
        ),
        (
            ENSEMBLE.replace("\"digits\"", "\"../model\""),
            "the repository has no model `../model`",
        ),
        (
            ENSEMBLE.replace("\"digits\"", "\"model\""),
            "`model` is not an ONNX model",
        ),
        (
            ENSEMBLE.replace("model_version: 1", "model_version: 9"),
            "`digits` has no version 9",
        ),
        ("name: ".to_owned(), "config.pbtxt:1:"),
        (
            format!("{TEXT} response_cache {{ enable: true }}"),
            "`response_cache` is for tensors",
        ),
        (String::new(), "`backend` is missing"),
    ] {
        let root = repository(&[("digits", DIGITS), ("model", &config)]);
        let file = root.path().join("model/config.pbtxt");
        let output = graphmill(&["check", path(&file)]);
        let shown = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{config}\n{shown}");
        assert!(shown.contains(said), "{config}\n{shown}");
    }
}

#[test]
fn a_label_file_is_a_short_text_in_the_folder() {
    let digits = DIGITS.replace(
        "dims: [ 10 ]",
        "dims: [ 10 ] label_filename: \"labels.txt\"",
    );
    let outside = tempfile::tempdir().expect("a folder");
    let secret = outside.path().join("secret.txt");
    fs::write(&secret, "a\n").expect("writable");
    for (content, said) in [
        (None, "leads out of the folder"),
        (Some("\n".repeat(65_537)), "of more than 65536 lines"),
        (Some("a\0\n".to_owned()), "a control character in line 1"),
        (
            Some("a\nb\u{1b}[31m\n".to_owned()),
            "a control character in line 2",
        ),
    ] {
        let root = repository(&[("digits", &digits)]);
        let labels = root.path().join("digits/labels.txt");
        match content {
            Some(content) => fs::write(&labels, content).expect("writable"),
            None => symlink(&secret, &labels).expect("writable"),
        }
        let output = graphmill(&["check", path(&root.path().join("digits/config.pbtxt"))]);
        let shown = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}\n{shown}");
        assert!(shown.contains(said), "{said}\n{shown}");
    }
}
