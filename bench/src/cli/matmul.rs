//! `graphmill-bench matmul`.

use std::{
    thread::available_parallelism,
    time::{Duration, Instant},
};

use crate::samples::Samples;
use clap::Args;
use graphmill_llm::backend::{MeasuredMatmul, measure_matmul};
use serde_json::json;

use super::{BenchResult, note};
use crate::results::Results;

/// Time for which a product is repeated, in about as many rounds as fit in it.
const TIME: Duration = Duration::from_millis(400);
/// Rounds that a product is repeated for at least.
const MIN_ROUNDS: usize = 3;

#[derive(Clone, Debug, Args)]
pub(super) struct MatmulArguments {
    /// The types of the weights.
    #[arg(
        long = "type",
        value_name = "TYPE",
        value_delimiter = ',',
        default_value = "q8_0,q4_0,q4_k,q5_k,q6_k"
    )]
    types: Vec<String>,
    /// The matrices, as rows x columns: those of Qwen2.5 0.5B and 1.5B.
    #[arg(
        long,
        value_name = "ROWSxCOLUMNS",
        value_delimiter = ',',
        default_value = "896x896,4864x896,896x4864,1536x1536,8960x1536,1536x8960",
        value_parser = shape
    )]
    shapes: Vec<(usize, usize)>,
    /// Number of activations that are multiplied at once, one measurement for each number.
    #[arg(long, value_delimiter = ',', default_value = "1,8,32,128,512")]
    activations: Vec<usize>,
    /// Number of threads; by default one for each processor that this process may use.
    #[arg(long)]
    threads: Option<u32>,
}

fn shape(text: &str) -> Result<(usize, usize), String> {
    let parsed = text
        .split_once('x')
        .and_then(|(rows, columns)| Some((rows.parse().ok()?, columns.parse().ok()?)));
    parsed.ok_or_else(|| "expected rows x columns, as in `4864x896`".to_owned())
}

/// Returns the median duration of a product in seconds, and the name of the buffer type with its
/// weights.
fn time(matmul: &MeasuredMatmul, by_kernels: bool) -> Result<(f64, String), String> {
    measure_matmul(matmul, by_kernels, |products, round| {
        let begun = Instant::now();
        round();
        let fit = TIME.div_duration_f64(begun.elapsed()) as usize;
        Samples::time(fit.max(MIN_ROUNDS), products, round).median() / 1e9
    })
}

pub(super) fn run(arguments: &MatmulArguments, results: &mut Results) -> BenchResult {
    let threads = match arguments.threads {
        Some(threads) => threads,
        None => available_parallelism()?.get() as u32,
    };
    note("10^9 operations a second, weights from memory");
    for format in &arguments.types {
        for &(rows, columns) in &arguments.shapes {
            for &activations in &arguments.activations {
                let matmul = MeasuredMatmul {
                    format: format.to_uppercase(),
                    rows,
                    columns,
                    activations,
                    threads,
                };
                let (stock, buffer_type) = match time(&matmul, false) {
                    Ok(stock) => stock,
                    Err(message) => {
                        note(&format!("left out: {message}"));
                        continue;
                    }
                };
                let rate = |seconds| 2e-9 * (rows * columns * activations) as f64 / seconds;
                let (ours, ratio) = match time(&matmul, true) {
                    Ok((ours, _)) => (json!(rate(ours)), Some(stock / ours)),
                    Err(message) => (json!(message), None),
                };
                results.add(json!({
                    "type": matmul.format,
                    "matrix": format!("{rows} x {columns}"),
                    "activations": activations,
                    "threads": threads,
                    "kernels": ours,
                    "llama.cpp": rate(stock),
                    "in_its_buffer_type": buffer_type,
                    "ratio": ratio,
                }));
            }
        }
    }
    Ok(())
}
