//! The CPU kernels on models of the bench: what they compute is what llama.cpp does, whoever else
//! computes at the same time.

use std::path::{Path, PathBuf};
use std::process::Command;

use asking::{PROMPTS, alone, engine, logprobs, start};
use graphmill_kernels::Kernels;
use graphmill_llm::{LlmEngine, LlmEngineSpec, LoadError, PluginConfig};
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::model::{LlamaModel, params::LlamaModelParams};

use crate::asking;

const ON: &str = r#"{"cpu_kernels": "on"}"#;
const OFF: &str = r#"{"cpu_kernels": "off"}"#;
/// Models whose numbers are compared together. With one, rounding by chance moves the mean by
/// about 0.001.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=3;

/// A model, where this processor has kernels.
fn model(folder: &Path, shape: &str, kind: &'static str) -> Option<PathBuf> {
    if Kernels::detect().is_none() {
        eprintln!("skipped: there are no kernels for this processor");
        return None;
    }
    Some(asking::model(folder, shape, kind))
}

fn bits(logprobs: &[f32]) -> Vec<u32> {
    logprobs.iter().map(|value| value.to_bits()).collect()
}

/// What each prompt is worth, without the tokens that follow it: where two are nearly as likely,
/// rounding chooses another one.
fn of_prompts(answers: &[Vec<f32>]) -> Vec<f32> {
    let of_prompt = |(answer, length): (&Vec<f32>, i32)| answer[..length as usize - 1].to_vec();
    answers.iter().zip(PROMPTS).flat_map(of_prompt).collect()
}

/// Asserts that prompts are as likely as llama.cpp finds them, with a difference of at most a part.
#[track_caller]
fn assert_as_likely(ours: &[f32], theirs: &[f32], part: f64) {
    assert_eq!(ours.len(), theirs.len());
    let apart = ours.iter().zip(theirs).map(|(ours, theirs)| ours - theirs);
    let mean = f64::from(apart.sum::<f32>()) / ours.len() as f64;
    assert!(mean.abs() < part, "perplexity times {}", mean.exp());
}

#[track_caller]
fn check(kind: &'static str, part: f64) {
    check_cells(kind, "f16", part);
}

/// The same with keys and values of a type.
#[track_caller]
fn check_cells(kind: &'static str, cells: &str, part: f64) {
    let config =
        |rest: &str| format!(r#"{{"kv_type_k": "{cells}", "kv_type_v": "{cells}", {rest}}}"#);
    if Kernels::detect().is_none() {
        eprintln!("skipped: there are no kernels for this processor");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for seed in SEEDS {
        let model = asking::model_of_seed(folder.path(), "tiny", kind, seed);
        let engine_of_ours = engine(&model, &config(r#""cpu_kernels": "on""#));
        let expected = alone(&engine_of_ours);

        let together = PROMPTS.map(|length| start(&engine_of_ours, length));
        for ((length, expected), (outputs, _handle)) in PROMPTS.iter().zip(&expected).zip(&together)
        {
            assert_eq!(
                bits(&logprobs(outputs)),
                bits(expected),
                "beside others: {length}"
            );
        }
        let one_thread = config(r#""cpu_kernels": "on", "threads": 1"#);
        let one_thread = alone(&engine(&model, &one_thread));
        for ((length, expected), other) in PROMPTS.iter().zip(&expected).zip(&one_thread) {
            assert_eq!(bits(other), bits(expected), "on one thread: {length}");
        }
        ours.extend(of_prompts(&expected));
        let their_engine = engine(&model, &config(r#""cpu_kernels": "off""#));
        theirs.extend(of_prompts(&alone(&their_engine)));
    }
    assert_as_likely(&ours, &theirs, part);
}

#[test]
fn a_model_of_8_bits_has_the_same_numbers_in_a_burst() {
    check("Q8_0", 1e-3);
}

#[test]
fn a_model_of_4_bits_has_the_same_numbers_in_a_burst() {
    check("Q4_0", 1e-3);
}

#[test]
fn a_model_of_several_types_has_the_same_numbers_in_a_burst() {
    // llama.cpp rounds 256 activations at a time for these types.
    check("Q4_K_M", 2e-3);
}

#[test]
fn a_model_of_16_bits_has_the_same_numbers_in_a_burst() {
    // Activations are not rounded to 8 bits, so less is to be different.
    check("F16", 2e-4);
}

#[test]
fn cells_of_8_bits_have_the_same_numbers_in_a_burst() {
    // llama.cpp rounds queries to 8 bits for these.
    check_cells("Q8_0", "q8_0", 5e-3);
}

#[test]
fn experts_are_multiplied_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(model) = model(folder.path(), "tiny-moe", "Q8_0") else {
        return;
    };
    let ours = engine(&model, ON);
    let info = ours.info().backend.kernels.clone().expect("they are on");
    // Four matrices of attention and three of experts in each of four layers, and the output.
    assert_eq!(info.matrices, 29, "{info:?}");
    // What chooses the experts, in each layer.
    assert_eq!(info.left, [("F32".to_owned(), 4)].into(), "{info:?}");
    let theirs = engine(&model, OFF);
    // Where two experts are nearly as good, rounding can choose the other.
    assert_as_likely(
        &of_prompts(&alone(&ours)),
        &of_prompts(&alone(&theirs)),
        0.02,
    );
}

/// A process in which llama.cpp has loaded a model before it was asked for one with kernels.
#[test]
fn kernels_that_come_too_late_are_off() {
    const LATE: &str = "MODEL_THAT_IS_LOADED_BEFORE";
    let load = |model: &Path, config: &str| {
        LlmEngine::load(LlmEngineSpec {
            max_context: Some(512),
            plugin_config: PluginConfig::from_json(config).expect("good knobs"),
            ..LlmEngineSpec::new(model)
        })
    };
    if let Some(model) = std::env::var_os(LATE) {
        tracing_subscriber::fmt()
            .with_writer(std::io::stderr)
            .init();
        let model = PathBuf::from(model);
        let backend = LlamaBackend::init().expect("it is the first");
        let params = LlamaModelParams::default().with_n_gpu_layers(0);
        drop(LlamaModel::load_from_file(&backend, &model, &params).expect("it loads"));
        drop(backend);
        let by_default = load(&model, "{}").expect("it loads");
        assert_eq!(by_default.info().backend.kernels, None);
        let refused = load(&model, ON).map(|_| ()).expect_err("they are off");
        assert!(
            matches!(
                refused,
                LoadError::Spec {
                    field: "cpu_kernels",
                    ..
                }
            ),
            "{refused}"
        );
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let Some(model) = model(folder.path(), "tiny", "Q8_0") else {
        return;
    };
    let run = Command::new(std::env::current_exe().expect("a program"))
        .args([
            "--exact",
            "kernels::kernels_that_come_too_late_are_off",
            "--nocapture",
        ])
        .env(LATE, &model)
        .output()
        .expect("it runs");
    let log = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{log}");
    assert!(log.contains("llama.cpp has loaded a model before"), "{log}");
}
