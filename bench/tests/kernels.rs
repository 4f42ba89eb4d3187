//! The CPU kernels on models of the bench: what they compute is what llama.cpp does, whoever else computes at the same time.

use asking::{PROMPTS, alone, engine, logprobs, start};
use graphmill_bench::model::Quantization;
use graphmill_kernels::Kernels;

mod asking;

fn bits(logprobs: &[f32]) -> Vec<u32> {
    logprobs.iter().map(|value| value.to_bits()).collect()
}

#[track_caller]
fn check(quantization: Quantization) {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(model) = asking::model(folder.path(), quantization) else {
        return;
    };
    if Kernels::detect().is_none() {
        eprintln!("skipped: there are no kernels for this processor");
        return;
    }
    let ours = engine(&model, r#"{"cpu_kernels": "on"}"#);
    let expected = alone(&ours);

    let together = PROMPTS.map(|length| start(&ours, length));
    for ((length, expected), (outputs, _handle)) in PROMPTS.iter().zip(&expected).zip(&together) {
        assert_eq!(
            bits(&logprobs(outputs)),
            bits(expected),
            "beside others: {length}"
        );
    }
    let one_thread = alone(&engine(&model, r#"{"cpu_kernels": "on", "threads": 1}"#));
    for ((length, expected), other) in PROMPTS.iter().zip(&expected).zip(&one_thread) {
        assert_eq!(bits(other), bits(expected), "on one thread: {length}");
    }

    let theirs = alone(&engine(&model, r#"{"cpu_kernels": "off"}"#)).concat();
    let ours = expected.concat();
    assert_eq!(ours.len(), theirs.len());
    let apart = ours.iter().zip(&theirs).map(|(ours, theirs)| ours - theirs);
    let mean = f64::from(apart.sum::<f32>()) / ours.len() as f64;
    assert!(mean.abs() < 1e-3, "perplexity times {}", mean.exp());
}

#[test]
fn a_model_of_8_bits_has_the_same_numbers_in_a_crowd() {
    check(Quantization::Q8_0);
}

#[test]
fn a_model_of_4_bits_has_the_same_numbers_in_a_crowd() {
    check(Quantization::Q4_0);
}

#[test]
fn a_model_of_several_types_has_the_same_numbers_in_a_crowd() {
    check(Quantization::Q4KM);
}
