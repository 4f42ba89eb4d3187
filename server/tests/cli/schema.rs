//! The JSON schema of a configuration, beside what reads it.

use std::path::Path;

use graphmill_server::config;
use serde_json::{Value, json};

use crate::cli::support::{graphmill, text};

#[test]
fn the_schema_allows_what_the_server_reads_and_nothing_else() {
    let output = graphmill(&["schema"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let schema: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../config.json");
    let shipped = std::fs::read_to_string(shipped).expect("readable");
    let shipped: Value = serde_json::from_str(&shipped).expect("JSON");
    let graph = |graph: Value| json!({ "model_config_list": [{ "config": graph }] });
    for (file, is_right) in [
        (shipped, true),
        (json!({}), true),
        (
            json!({ "$schema": "./config.schema.json", "subgraph_list": [] }),
            true,
        ),
        (json!({ "$schema": 1 }), false),
        (
            graph(json!({ "name": "a", "base_path": "b", "graph_path": "c", "subconfig": "d" })),
            true,
        ),
        (
            graph(json!({
                "name": "a", "optional": true, "load": "on_demand", "idle_unload_seconds": 60, "canary": {},
            })),
            true,
        ),
        (graph(json!({ "name": "a", "optional": 1 })), false),
        (graph(json!({ "name": "a", "load": "later" })), false),
        (
            graph(json!({ "name": "a", "idle_unload_seconds": -1 })),
            false,
        ),
        (
            graph(json!({ "name": "a", "idle_unload_seconds": null })),
            false,
        ),
        (
            graph(json!({ "name": "a", "canary": { "2": "10" } })),
            false,
        ),
        (
            graph(json!({ "name": "a", "model_version_policy": {} })),
            false,
        ),
        (
            graph(json!({ "name": "a", "model_version_policy": { "newest": {} } })),
            false,
        ),
        (
            graph(json!({ "name": "a", "model_version_policy": { "all": {}, "latest": {} } })),
            false,
        ),
        (
            graph(
                json!({ "name": "a", "model_version_policy": { "latest": { "num_versions": 0 } } }),
            ),
            false,
        ),
        (
            graph(
                json!({ "name": "a", "model_version_policy": { "specific": { "versions": [] } } }),
            ),
            false,
        ),
        (graph(json!({ "base_path": "b" })), false),
        (
            graph(json!({
                "name": "a", "allow_cache": true, "batch_size": "auto", "custom_loader_options": { "loader_name": "x" },
                "layout": "NHWC", "nireq": 1, "plugin_config": { "NUM_STREAMS": 1 }, "shape": { "in": "(1,3)" },
                "target_device": "CPU",
            })),
            true,
        ),
        (json!({ "model_config_list": [["a"]] }), false),
        (json!({ "mediapipe_config_lst": [] }), false),
        (json!({ "pipeline_config_list": [] }), true),
        (json!({ "pipeline_config_list": [{}] }), false),
        (
            json!({ "monitoring": { "metrics": { "enable": true, "metrics_list": ["a"] } } }),
            true,
        ),
        (json!({ "monitoring": { "metrics": {} } }), false),
        (json!([]), false),
    ] {
        let read = config::parse(Path::new("config.json"), &file.to_string());
        assert_eq!(
            read.config.is_some(),
            is_right,
            "{file}: {:?}",
            read.diagnostics
        );
        assert_eq!(validator.is_valid(&file), is_right, "{file}");
    }
}
