//! Finding model files and reading specs: what users write, and what they are told.

use std::fs;
use std::path::Path;

use graphmill_llm::{
    Device, Engine, EngineSpec, FlashAttention, KvType, LoadError, PluginConfig, SpecError,
    resolve_model_path,
};

fn touch(path: &Path) {
    fs::write(path, b"").expect("the temporary folder is writable");
}

#[test]
fn the_one_model_of_a_folder_is_found() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    touch(&folder.path().join("model.gguf"));
    touch(&folder.path().join("graph.pbtxt"));
    let expected = folder.path().join("model.gguf");
    assert_eq!(
        resolve_model_path(folder.path(), "./")
            .expect("found")
            .canonicalize()
            .ok(),
        expected.canonicalize().ok()
    );
    assert_eq!(
        resolve_model_path(folder.path(), "model.gguf"),
        Ok(expected.clone())
    );
    assert_eq!(
        resolve_model_path(Path::new("/"), expected.to_str().expect("utf-8")),
        Ok(expected)
    );
}

#[test]
fn a_folder_without_or_with_several_models_says_so() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let error = resolve_model_path(folder.path(), ".").expect_err("no model");
    assert!(
        error.to_string().contains("holds no `.gguf` file"),
        "{error}"
    );
    touch(&folder.path().join("b.gguf"));
    touch(&folder.path().join("a.gguf"));
    let error = resolve_model_path(folder.path(), ".").expect_err("two models");
    assert!(
        error
            .to_string()
            .contains("holds 2 `.gguf` files (a.gguf, b.gguf): name one of them"),
        "{error}"
    );
}

#[test]
fn a_missing_path_names_what_was_tried() {
    let error = resolve_model_path(Path::new("/models"), "nowhere/x.gguf").expect_err("missing");
    assert!(matches!(error, SpecError::Missing { .. }));
    assert_eq!(
        error.to_string(),
        "`nowhere/x.gguf` does not exist (tried `/models/nowhere/x.gguf` and `nowhere/x.gguf`)"
    );
}

#[test]
fn a_file_of_another_kind_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    touch(&folder.path().join("model.bin"));
    let error = resolve_model_path(folder.path(), "model.bin").expect_err("not a model");
    assert!(
        error
            .to_string()
            .ends_with("is neither a folder nor a `.gguf` file"),
        "{error}"
    );
}

#[test]
fn knobs_are_read_and_unknown_ones_named() {
    let knobs = PluginConfig::from_json(
        r#"{"threads": 4, "flash_attention": "on", "kv_type_k": "q8_0", "mmap": false}"#,
    );
    let expected = PluginConfig {
        threads: Some(4),
        flash_attention: FlashAttention::On,
        kv_type_k: KvType::Q8_0,
        mmap: Some(false),
        ..PluginConfig::default()
    };
    assert_eq!(knobs, Ok(expected));
    assert_eq!(PluginConfig::from_json(""), Ok(PluginConfig::default()));
    let error = PluginConfig::from_json(r#"{"treads": 4}"#).expect_err("unknown knob");
    assert!(
        error.to_string().contains("`treads`") && error.to_string().contains("`threads`"),
        "{error}"
    );
    let error = PluginConfig::from_json("threads=4").expect_err("not JSON");
    assert!(
        error.to_string().starts_with("`plugin_config`: "),
        "{error}"
    );
}

#[test]
fn devices_are_read() {
    assert_eq!("cpu".parse(), Ok(Device::Cpu));
    assert_eq!("GPU.1".parse(), Ok(Device::Gpu(1)));
    assert_eq!("".parse(), Ok(Device::Auto));
    let error = "NPU".parse::<Device>().expect_err("unknown");
    assert_eq!(
        error.to_string(),
        "unknown device `NPU`, expected `AUTO`, `CPU`, `GPU` or `GPU.<number>`"
    );
}

#[test]
fn values_out_of_range_are_refused_before_anything_is_loaded() {
    let spec = EngineSpec {
        max_num_seqs: 0,
        ..EngineSpec::new("missing.gguf")
    };
    let error = Engine::load(spec).expect_err("out of range");
    assert!(
        matches!(
            error,
            LoadError::Spec {
                field: "max_num_seqs",
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(
        error.to_string(),
        "`max_num_seqs` must be at least 1, not 0"
    );
}

#[test]
fn a_script_with_a_mistake_is_refused_with_its_place() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("model.script.json");
    fs::write(&path, "{\n  \"replys\": []\n}").expect("the temporary folder is writable");
    let error = Engine::load(EngineSpec::new(path)).expect_err("a misspelt field");
    assert!(
        error.to_string().contains("`replys`") && error.to_string().contains("line 2"),
        "{error}"
    );
}
