//! Finding model files and reading specs: what users write, and what they are told.

use std::fs;
use std::path::Path;

use graphmill_llm::{
    Device, FlashAttention, KvType, LlmEngine, LlmEngineSpec, LoadError, PluginConfig, SpecError,
    projector_beside, resolve_model_path,
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
fn projectors_are_no_models_and_are_found_beside_them() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let model = folder.path().join("a.gguf");
    touch(&model);
    assert_eq!(projector_beside(&model), None);
    let projector = folder.path().join("mmproj-a-f16.gguf");
    touch(&projector);
    let found = resolve_model_path(folder.path(), ".").expect("one model");
    assert_eq!(found.file_name(), model.file_name());
    assert_eq!(projector_beside(&model), Some(projector));
    touch(&folder.path().join("mmproj-b.gguf"));
    assert_eq!(
        projector_beside(&model),
        None,
        "which of two is not guessed"
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

/// What `plugin_config` is refused with.
fn refusal(text: &str) -> String {
    match PluginConfig::from_json(text) {
        Err(error) => error.to_string(),
        Ok(plugin_config) => LlmEngineSpec {
            plugin_config,
            ..LlmEngineSpec::new("model.gguf")
        }
        .validate()
        .expect_err("a wrong knob")
        .to_string(),
    }
}

#[test]
fn a_wrong_value_names_its_knob_and_what_was_expected() {
    for (text, parts) in [
        (r#"{"thread": 4}"#, ["`thread`", "did you mean `threads`"]),
        (r#"{"threads": "many"}"#, ["`threads`", "expected u32"]),
        (r#"{"threads": 0}"#, ["`threads`", "from 1 to 512, not 0"]),
        (
            r#"{"batch_threads": 513}"#,
            ["`batch_threads`", "from 1 to 512, not 513"],
        ),
        (r#"{"rope_freq_base": -1}"#, ["`rope_freq_base`", "above 0"]),
        (
            r#"{"yarn_ext_factor": 2}"#,
            ["`yarn_ext_factor`", "from 0 to 1"],
        ),
        (r#"{"numa": "on"}"#, ["`numa`", "`distribute`"]),
        (
            r#"{"cpu_affinity": []}"#,
            ["`cpu_affinity`", "at least one"],
        ),
        (
            r#"{"tensor_split": [0, 0]}"#,
            ["`tensor_split`", "one above 0"],
        ),
        (
            r#"{"main_gpu": 1}"#,
            ["`main_gpu`", "`\"split_mode\": \"none\"`"],
        ),
        (
            r#"{"override_tensor": ["ffn"]}"#,
            ["`override_tensor[0]`", "`pattern=buffer`"],
        ),
    ] {
        let message = refusal(text);
        for part in parts {
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}

#[test]
fn knobs_of_a_gpu_need_one() {
    let spec = LlmEngineSpec {
        device: Device::Cpu,
        plugin_config: PluginConfig::from_json(r#"{"gpu_layers": 3}"#).expect("a knob"),
        ..LlmEngineSpec::new("model.gguf")
    };
    assert_eq!(
        spec.validate().map_err(|error| error.to_string()),
        Err("`gpu_layers` needs a GPU, and `device` is `CPU`".to_owned())
    );
}

#[test]
fn properties_of_openvino_that_mean_the_same_are_mapped() {
    let knobs = PluginConfig::from_json(
        r#"{"KV_CACHE_PRECISION": "u8", "INFERENCE_NUM_THREADS": "2", "ENABLE_MMAP": "NO", "ENABLE_CPU_PINNING": false, "NUM_STREAMS": 1, "CACHE_DIR": "/tmp"}"#,
    );
    let expected = PluginConfig {
        kv_type_k: KvType::Q8_0,
        kv_type_v: KvType::Q8_0,
        threads: Some(2),
        cpu_strict: Some(false),
        mmap: Some(false),
        ..PluginConfig::default()
    };
    assert_eq!(knobs, Ok(expected));
    let message = refusal(r#"{"KV_CACHE_PRECISION": "u7"}"#);
    assert!(message.contains("`KV_CACHE_PRECISION`"), "{message}");
    let message = refusal(r#"{"KV_CACHE_PRECISION": "u8", "kv_type_k": "f16"}"#);
    assert!(
        message.contains("`KV_CACHE_PRECISION`") || message.contains("`kv_type_k`"),
        "{message}"
    );
    let message = refusal(r#"{"KV_CACHE_PRECISON": "u8"}"#);
    assert!(message.contains("`KV_CACHE_PRECISION`"), "{message}");
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
fn lists_of_devices_are_read_where_one_engine_can_follow_them() {
    for (text, device) in [
        ("AUTO:GPU,CPU", Device::Auto),
        ("AUTO:CPU,GPU", Device::Cpu),
        ("HETERO:GPU,CPU", Device::Gpu(0)),
        ("hetero: gpu.1, cpu", Device::Gpu(1)),
        ("MULTI:CPU", Device::Cpu),
    ] {
        assert_eq!(text.parse(), Ok(device), "{text}");
    }
    for (text, part) in [
        ("AUTO:GPU.1,CPU", "chooses among several GPUs"),
        ("HETERO:GPU.0,GPU.1", "write `AUTO`, and `tensor_split`"),
        ("MULTI:GPU,CPU", "a copy of the model on each device"),
        ("MULTI:NPU,CPU", "unknown device"),
        ("AUTO:", "unknown device"),
        ("BATCH:GPU", "unknown device `BATCH:GPU`"),
    ] {
        let error = text.parse::<Device>().expect_err(text).to_string();
        assert!(error.contains(part) && error.contains(text), "{error}");
    }
}

#[test]
fn values_out_of_range_are_refused_before_anything_is_loaded() {
    let spec = LlmEngineSpec {
        max_num_seqs: 0,
        ..LlmEngineSpec::new("missing.gguf")
    };
    let error = LlmEngine::load(spec).expect_err("out of range");
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
    let error = LlmEngine::load(LlmEngineSpec::new(path)).expect_err("a misspelt field");
    assert!(
        error.to_string().contains("`replys`") && error.to_string().contains("line 2"),
        "{error}"
    );
}
