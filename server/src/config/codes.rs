//! The diagnostic codes of `config.json`: `GM0901` and on.

use graphmill_grammar::codes::Code;

/// All codes of this crate, by number.
pub const ALL: &[&Code] = &[
    &UNREADABLE,
    &NOT_JSON,
    &UNKNOWN_KEY,
    &WRONG_VALUE,
    &CLASSIC_MODEL,
    &DUPLICATE_NAME,
    &NO_EFFECT,
    &SUBGRAPH,
    &TWO_FILES,
    &VERSIONS,
    &ALIAS,
    &TRITON,
];

/// The configuration file cannot be read.
pub static UNREADABLE: Code = Code {
    number: 901,
    title: "the configuration cannot be read",
    explanation: "The file that `--config_path` names does not exist, is a folder, or is not readable by the server's user. A \
                  relative path is relative to the folder that the server is started in.",
    wrong: "graphmill serve --config_path missing.json --rest_port 8000",
    right: "graphmill serve --config_path config.json --rest_port 8000",
};

/// The configuration file is not JSON.
pub static NOT_JSON: Code = Code {
    number: 902,
    title: "the configuration is not JSON",
    explanation: "The file must be one JSON object. JSON has no comments, no comma after the last element, and its strings \
                  are in double quotes.",
    wrong: r#"{"model_config_list": [],}"#,
    right: r#"{"model_config_list": []}"#,
};

/// A key that is not known at this place.
pub static UNKNOWN_KEY: Code = Code {
    number: 903,
    title: "a key is unknown",
    explanation: "An unknown key is refused rather than ignored, so that a misspelled key cannot change what is served.",
    wrong: r#"{"model_config_list": [], "mediapipe_config_lst": []}"#,
    right: r#"{"model_config_list": [], "mediapipe_config_list": []}"#,
};

/// A value of the wrong type, or a missing one.
pub static WRONG_VALUE: Code = Code {
    number: 904,
    title: "a value is missing or of the wrong type",
    explanation: "Every graph needs a `name`: a string with or without slashes, but without control characters and segments `.` or \
                  `..`. Paths are strings, lists are lists of objects; each element of `model_config_list` is an object with the \
                  one key `config`.",
    wrong: r#"{"model_config_list": [{"config": {"base_path": "chat"}}]}"#,
    right: r#"{"model_config_list": [{"config": {"name": "chat", "base_path": "chat"}}]}"#,
};

/// A setting that only classic OpenVINO models have.
pub static CLASSIC_MODEL: Code = Code {
    number: 905,
    title: "classic OpenVINO models are not served",
    explanation: "Graphmill serves graphs. Pipelines of classic models, their custom loaders and libraries of custom nodes are refused. The options of classic models (`batch_size`, \
                  `shape`, `target_device`, ...) are accepted and have no effect on a graph: its options are in its nodes. The file that `subconfig` names (by default \
                  `subconfig.json` in the graph's folder) may be absent or list no models. A graph whose file lists models is not served.",
    wrong: r#"{"model_config_list": [], "pipeline_config_list": [{"name": "resnet"}]}"#,
    right: r#"{"model_config_list": [{"config": {"name": "chat", "base_path": "chat"}}]}"#,
};

/// Two graphs with one name.
pub static DUPLICATE_NAME: Code = Code {
    number: 906,
    title: "two graphs have the same name",
    explanation: "The `model` of a request selects the graph by its name, so the second graph cannot be reached: the first one is \
                  served. `mediapipe_config_list` comes before `model_config_list`.",
    wrong: r#"{"mediapipe_config_list": [{"name": "chat"}, {"name": "chat", "base_path": "other"}]}"#,
    right: r#"{"mediapipe_config_list": [{"name": "chat"}, {"name": "other"}]}"#,
};

/// A setting that is accepted but has no effect.
pub static NO_EFFECT: Code = Code {
    number: 907,
    title: "a setting has no effect",
    explanation: "The setting is accepted so that existing configurations run unchanged, but this build does not have what it configures.",
    wrong: r#"{"model_config_list": [], "monitoring": {"metrics": {"enable": true}}}"#,
    right: r#"{"model_config_list": []}"#,
};

/// An entry of `subgraph_list` without a subgraph.
pub static SUBGRAPH: Code = Code {
    number: 908,
    title: "a subgraph cannot be registered",
    explanation: "Each entry of `subgraph_list` is the path of a graph file with a `type`, or of a folder with such files. Relative \
                  paths start at the folder of the configuration. Nodes of all graphs can name these types, so each type must be \
                  unique.",
    wrong: r#"{"model_config_list": [], "subgraph_list": ["missing.pbtxt"]}"#,
    right: r#"{"model_config_list": [], "subgraph_list": []}"#,
};

/// Two files that have the type of a node.
pub static TWO_FILES: Code = Code {
    number: 909,
    title: "two files have the same type",
    explanation: "A node can be a graph file with a `type` in the folder of its graph, or in a folder `subgraphs` there. Two of these \
                  files have the type that the node names, so the node is ambiguous. Files named with `--subgraphs` take precedence \
                  over all others, then files in folders that are named, then files in the graph's folder.",
    wrong: "",
    right: "",
};

/// Versions of a graph that do not exist.
pub static VERSIONS: Code = Code {
    number: 910,
    title: "a version of a graph cannot be served",
    explanation: "A version is a folder in `base_path` whose name is a number above 0, with the graph file in it. If \
                  `model_version_policy` or `canary` is set, at least one version must be served. A listed version that does \
                  not exist is a warning: it is served once its folder exists. `canary` can only name versions that the \
                  policy serves.",
    wrong: r#"{"model_config_list": [{"config": {"name": "chat", "model_version_policy": {"all": {}}}}]}"#,
    right: r#"{"model_config_list": [{"config": {"name": "chat"}}]}"#,
};

/// An alias that another graph has, or that is not a valid name.
pub static ALIAS: Code = Code {
    number: 911,
    title: "an alias cannot be used",
    explanation: "`aliases` of a graph are additional names for the `model` of requests. An alias must be unique and must not be \
                  the name of a graph. Like a name, it may contain slashes, but no control characters and no segments `.` or `..`.",
    wrong: r#"{"model_config_list": [{"config": {"name": "chat", "aliases": ["gpt-4o", "gpt-4o"]}}]}"#,
    right: r#"{"model_config_list": [{"config": {"name": "chat", "aliases": ["gpt-4o", "gpt-4o-mini"]}}]}"#,
};

/// A model of Triton whose configuration is refused or has no effect.
pub static TRITON: Code = Code {
    number: 912,
    title: "a model configuration of Triton is refused or has no effect",
    explanation: "A folder of `--model_repository_path` with a `config.pbtxt` is a model of Triton. ONNX models, GGUF models, and ensembles of \
                  ONNX models become graphs, which `serve --model_repository_path FOLDER --model_name NAME --emit_graph` prints. An \
                  unsupported field that would change answers is an error; a field without effect is a warning.",
    wrong: r#"name: "text" platform: "pytorch_libtorch" max_batch_size: 8 input { name: "x" data_type: TYPE_FP32 dims: 4 } output { name: "y" data_type: TYPE_FP32 dims: 2 }"#,
    right: r#"name: "text" platform: "onnxruntime_onnx" max_batch_size: 8 input { name: "x" data_type: TYPE_FP32 dims: 4 } output { name: "y" data_type: TYPE_FP32 dims: 2 }"#,
};
