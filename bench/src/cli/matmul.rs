//! `graphmill-bench matmul`.

use std::thread::available_parallelism;

use clap::Args;
use graphmill_llm::backend::{MeasuredMatmul, matmul_time};
use serde_json::json;

use super::{Outcome, note};
use crate::results::Results;

/// Which multiplications.
#[derive(Clone, Debug, Args)]
pub(super) struct Arguments {
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
    /// How many activations are multiplied at once.
    #[arg(long, value_delimiter = ',', default_value = "1,8,32,128,512")]
    activations: Vec<usize>,
    /// Threads; without this, one for each processor that this process may use.
    #[arg(long)]
    threads: Option<u32>,
}

fn shape(text: &str) -> Result<(usize, usize), String> {
    let parsed = text
        .split_once('x')
        .and_then(|(rows, columns)| Some((rows.parse().ok()?, columns.parse().ok()?)));
    parsed.ok_or_else(|| "expected rows x columns, as in `4864x896`".to_owned())
}

pub(super) fn run(arguments: &Arguments, results: &mut Results) -> Outcome {
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
                let stock = match matmul_time(&matmul, false) {
                    Ok(stock) => stock,
                    Err(message) => {
                        note(&format!("left out: {message}"));
                        continue;
                    }
                };
                let rate = |seconds| 2e-9 * (rows * columns * activations) as f64 / seconds;
                let (ours, ratio) = match matmul_time(&matmul, true) {
                    Ok(ours) => (
                        json!(rate(ours.seconds)),
                        Some(stock.seconds / ours.seconds),
                    ),
                    Err(message) => (json!(message), None),
                };
                results.add(json!({
                    "type": matmul.format,
                    "matrix": format!("{rows} x {columns}"),
                    "activations": activations,
                    "threads": threads,
                    "kernels": ours,
                    "llama.cpp": rate(stock.seconds),
                    "in_its_buffer_type": stock.buffer_type,
                    "ratio": ratio,
                }));
            }
        }
    }
    Ok(())
}
