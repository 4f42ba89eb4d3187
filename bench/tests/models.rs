//! Models of the bench in all their types: rounded, they are still the model that they were made
//! from.

use asking::{alone, engine};
use graphmill_bench::model::Quantization;

use crate::asking;

/// Pearson's correlation.
fn correlation(ours: &[f32], theirs: &[f32]) -> f64 {
    let mean = |values: &[f32]| {
        values.iter().map(|value| f64::from(*value)).sum::<f64>() / values.len() as f64
    };
    let (our_mean, their_mean) = (mean(ours), mean(theirs));
    let [mut both, mut our, mut their] = [0.0; 3];
    for (ours, theirs) in ours.iter().zip(theirs) {
        let (ours, theirs) = (f64::from(*ours) - our_mean, f64::from(*theirs) - their_mean);
        both += ours * theirs;
        our += ours * ours;
        their += theirs * theirs;
    }
    both / (our * their).sqrt()
}

#[test]
fn fewer_bits_say_the_same_less_exactly() {
    let folder = tempfile::tempdir().expect("a folder");
    // Of the prompts alone: the tokens that follow may differ.
    let of_prompts = |quantization| {
        let model = asking::model(folder.path(), "tiny", quantization);
        let mut logprobs = alone(&engine(&model, r#"{"cpu_kernels": "off"}"#));
        for of_prompt in &mut logprobs {
            of_prompt.truncate(of_prompt.len() - 4);
        }
        logprobs.concat()
    };
    let exact = of_prompts(Quantization::F16);
    assert!(exact.len() > 800, "{}", exact.len());
    let correlations = [Quantization::Q8_0, Quantization::Q4_0, Quantization::Q4KM]
        .map(|quantization| correlation(&exact, &of_prompts(quantization)));
    let [eight, four, mixed] = correlations;
    // Errors of random layers add up: a matrix that is laid out wrongly leaves next to nothing.
    assert!(
        eight > 0.99 && four > 0.7 && mixed > 0.7,
        "{correlations:?}"
    );
}
