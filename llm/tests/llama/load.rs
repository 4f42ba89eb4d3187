//! Loading on llama.cpp with the repository's small model: knobs take effect, weights are shared,
//! what cannot be is refused.

use std::path::{Path, PathBuf};

use graphmill_llm::{Device, LlmEngine, LlmEngineInfo, LlmEngineSpec, LoadError, PluginConfig};

use crate::llama::families::Family;
use crate::llama::support::{Generation, model, tokenize};

fn spec(model: PathBuf, plugin_config: &str) -> LlmEngineSpec {
    LlmEngineSpec {
        max_num_seqs: 4,
        max_context: Some(512),
        plugin_config: PluginConfig::from_json(plugin_config).expect("good knobs"),
        ..LlmEngineSpec::new(model)
    }
}

fn shared(info: &LlmEngineInfo) -> bool {
    info.backend.weights.as_ref().expect("weights").shared
}

#[test]
fn engines_with_different_limits_share_weights_that_are_loaded_alike() {
    let path = model();
    // Knobs that no other test of this process has, so that nobody else's weights are shared.
    let knobs = r#"{"mmap": false}"#;
    let first = LlmEngine::load(spec(path.clone(), knobs)).expect("it loads");
    assert!(!shared(first.info()));
    let second = LlmEngineSpec {
        max_num_seqs: 2,
        max_context: Some(256),
        ..spec(
            path.clone(),
            r#"{"mmap": false, "threads": 1, "kv_type_k": "q8_0"}"#,
        )
    };
    let second = LlmEngine::load(second).expect("it loads");
    assert!(shared(second.info()));
    assert_eq!(
        (first.context_length(), second.context_length()),
        (512, 256)
    );

    let otherwise = r#"{"mmap": false, "override_tensor": ["ffn=CPU"]}"#;
    let otherwise = LlmEngine::load(spec(path.clone(), otherwise)).expect("it loads");
    assert!(!shared(otherwise.info()));

    drop((first, second));
    let again = LlmEngine::load(spec(path, knobs)).expect("it loads");
    assert!(!shared(again.info()), "nobody held the weights");
}

#[test]
fn what_recurrent_layers_keep_is_counted_apart_from_cells() {
    let folder = tempfile::tempdir().expect("a folder");
    let sizes = |family: Family, knobs: &str| {
        let engine = LlmEngine::load(spec(family.make(folder.path()), knobs)).expect("it loads");
        let kv = engine.info().backend.kv.clone().expect("cells");
        (kv.bytes_per_cell, kv.state_bytes)
    };
    // Two of four layers have cells: keys and values of two heads of 16 numbers, of two bytes each.
    let cell = 2 * 2 * 2 * 16 * 2;
    let (bytes_per_cell, state_bytes) = sizes(Family::ImageHybrid, r#"{"rollback_states": 5}"#);
    assert_eq!(bytes_per_cell, cell);
    // The others have a matrix of 16 by 64 numbers and what a convolution of 4 tokens needs, of four
    // sequences, each now and at 5 tokens before.
    let states = 4 * 6 * 2 * 4 * (16 * 64 + 3 * (64 + 2 * 2 * 16));
    // llama.cpp rounds each sequence's to hundredths of a mebibyte.
    let rounded = 4 * (1 << 20) / 200;
    assert!(
        state_bytes.abs_diff(states) <= rounded,
        "{state_bytes} {states}"
    );
    let (_, without_rollback) = sizes(Family::ImageHybrid, r#"{"rollback_states": 0}"#);
    assert!(
        without_rollback.abs_diff(states / 6) <= rounded,
        "{without_rollback}"
    );
    assert_eq!(sizes(Family::Hybrid, "{}").0, cell);
    assert_eq!(sizes(Family::Window, "{}").1, 0);
}

/// Kilobytes of this file's mappings that are in this process's memory.
#[cfg(target_os = "linux")]
fn resident_kb(file: &Path) -> u64 {
    let smaps = std::fs::read_to_string("/proc/self/smaps").expect("readable");
    let mut of_file = false;
    let mut sum = 0;
    for line in smaps.lines() {
        if let Some(kb) = line.strip_prefix("Rss:").filter(|_| of_file) {
            let kb = kb.trim().strip_suffix(" kB").expect("in kilobytes");
            sum += kb.parse::<u64>().expect("a number");
        }
        if line.contains("-s ") || line.contains("-p ") {
            of_file = line.ends_with(file.to_str().expect("UTF-8"));
        }
    }
    sum
}

#[cfg(target_os = "linux")]
#[test]
fn pages_of_weights_that_were_copied_are_not_kept_beside_the_copies() {
    let path = model();
    // A file of its own, whose mappings no other test has.
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().canonicalize().expect("there");
    let file = folder.join("copied weights.gguf");
    std::fs::copy(path, &file).expect("copied");
    let engine = LlmEngine::load(spec(file.clone(), "")).expect("it loads");
    let buffers = &engine.info().backend.buffers;
    let mut weights = buffers.iter().filter(|buffer| buffer.content == "weights");
    if weights.all(|buffer| buffer.memory == "CPU_Mapped") {
        eprintln!("skipped: the weights are used as they are in the file on this processor");
        return;
    }
    assert_eq!(resident_kb(&file), 0);
    // What is read from the mapping comes back.
    Generation::start(&engine, tokenize(&engine, "Hi"), |_| {}).finish();
    assert!(resident_kb(&file) > 0);
}

#[test]
fn knobs_take_effect() {
    let path = model();
    let knobs = r#"{
        "threads": 1, "batch_threads": 2, "ubatch": 32, "flash_attention": "on", "kv_type_k": "q8_0", "kv_type_v": "q8_0",
        "kv_unified": true, "thread_priority": "low", "cpu_affinity": [0], "swa_full": true, "numa": "off",
        "rope_scaling": "yarn", "rope_freq_base": 20000, "rope_freq_scale": 0.5, "yarn_ext_factor": 1, "yarn_attn_factor": 1,
        "yarn_beta_fast": 32, "yarn_beta_slow": 1, "yarn_orig_ctx": 512, "tensor_split": [1], "op_offload": true
    }"#;
    let engine = LlmEngine::load(spec(path, knobs)).expect("it loads");
    let info = engine.info();
    let (kv, compute) = (
        info.backend.kv.as_ref().expect("a cache"),
        info.backend.compute.as_ref().expect("numbers"),
    );
    assert_eq!(
        (compute.threads, compute.batch_threads, compute.ubatch),
        (1, 2, 32)
    );
    assert!(compute.flash_attention && kv.unified);
    assert_eq!(compute.cpu_affinity, [0]);
    assert_eq!(kv.bytes, u64::from(info.kv_cells) * kv.bytes_per_cell);
    let allocated = info.backend.buffers.iter();
    let allocated: u64 = allocated
        .filter(|buffer| buffer.content == "kv")
        .map(|buffer| buffer.bytes)
        .sum();
    // The log that tells it has two digits.
    assert!(
        allocated.abs_diff(kv.bytes) < 1 << 15,
        "{allocated} {}",
        kv.bytes
    );
}

#[test]
fn what_this_process_cannot_give_is_refused() {
    let path = model();
    let refusal = |plugin_config: &str, device| {
        let spec = LlmEngineSpec {
            device,
            ..spec(path.clone(), plugin_config)
        };
        match LlmEngine::load(spec).expect_err("refused") {
            LoadError::Spec { field, message } => (field, message),
            other => panic!("{other}"),
        }
    };
    let (field, message) = refusal(r#"{"cpu_affinity": [511]}"#, Device::Auto);
    assert_eq!(field, "cpu_affinity");
    assert!(message.starts_with("names CPU 511, but this process may only use [0"));
    let (field, message) = refusal(r#"{"override_tensor": ["ffn=HBM"]}"#, Device::Auto);
    assert_eq!(field, "override_tensor");
    assert!(
        message.contains("`HBM`") && message.contains("`CPU`"),
        "{message}"
    );
    let (field, message) = refusal("", Device::Gpu(77));
    assert_eq!(field, "device");
    assert!(
        message.starts_with("`GPU.77` does not exist: "),
        "{message}"
    );
    // An engine without a wish keeps what the first one chose.
    let first = LlmEngine::load(spec(path.clone(), "")).expect("it loads");
    let (field, message) = refusal(r#"{"numa": "isolate"}"#, Device::Auto);
    assert_eq!(field, "numa");
    assert!(message.contains("runs with `off`"), "{message}");
    drop(first);
}

#[test]
fn a_context_that_memory_cannot_hold_is_refused_with_the_arithmetic() {
    let path = model();
    let spec = LlmEngineSpec {
        max_context: Some(i32::MAX as u32),
        ..spec(path, r#"{"kv_type_k": "f32", "kv_type_v": "f32"}"#)
    };
    let error = LlmEngine::load(spec).expect_err("two billion cells");
    let message = error.to_string();
    assert!(matches!(error, LoadError::Memory { .. }), "{message}");
    for part in [
        "weights ",
        " + KV cache ",
        " + compute ",
        "are available",
        "lower `max_context` to ",
    ] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_prefix_cache_that_memory_cannot_hold_is_refused_with_the_arithmetic() {
    let path = model();
    let asking_for = |prefix_caching| LlmEngineSpec {
        prefix_caching,
        prefix_cache_size: Some(1 << 50),
        ..spec(path.clone(), "")
    };
    let error = LlmEngine::load(asking_for(true)).expect_err("a pebibyte");
    let message = error.to_string();
    assert!(matches!(error, LoadError::Memory { .. }), "{message}");
    for part in [
        "weights ",
        " + compute ",
        " + prefix cache 1073741824 MiB = ",
        "lower `prefix_cache_size` to ",
    ] {
        assert!(message.contains(part), "{message}");
    }
    // Nothing is kept where nothing is shared.
    LlmEngine::load(asking_for(false)).expect("it loads");
}
