//! `graphmill-bench batching`: what batching tensors of several requests gains, for a classifier in
//! this process, with clients that each wait for an answer before they ask again.

use std::{
    sync::{Arc, Barrier},
    thread,
    time::{Duration, Instant},
};

use clap::Args;
use graphmill_calculators::tensor::{
    Datatype, Tensor, TensorInfo, TensorModel,
    batch::{Batcher, Batching, RequestScheduling},
};
use graphmill_engine::{Error, Result, block_on};
use serde_json::json;

use super::{BenchResult, add_rate};
use crate::results::Results;

/// Numbers of a row that goes in, of the layer inside, and of a row that comes out: 25 million
/// weights, as many as common classifiers of images have.
const WIDTHS: [usize; 3] = [2048, 8192, 1000];

/// Numbers that are added up side by side.
const LANES: usize = 16;

/// Rows for which a weight is loaded once.
const BLOCK: usize = 4;

#[derive(Clone, Debug, Args)]
pub(super) struct BatchingArguments {
    /// Maximum number of rows in a batch, one measurement for each number; 1 is without batching.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8, 32])]
    max_batch_size: Vec<u32>,
    /// Microseconds that a request waits for others.
    #[arg(long, default_value_t = 0)]
    max_queue_delay_microseconds: u64,
    /// Number of threads that compute batches.
    #[arg(long, default_value_t = 1)]
    instances: u32,
    /// Number of concurrent clients, each with one row; one measurement for each number.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8, 64])]
    clients: Vec<usize>,
    /// Duration of each measurement in seconds.
    #[arg(long, default_value_t = 3)]
    seconds: u64,
}

pub(super) fn run(arguments: &BatchingArguments, results: &mut Results) -> BenchResult {
    let time = Duration::from_secs(arguments.seconds);
    for &clients in &arguments.clients {
        for &most in &arguments.max_batch_size {
            let batching = Batching {
                max_queue_delay_microseconds: arguments.max_queue_delay_microseconds,
                instances: arguments.instances,
                ..Batching::with_max_batch_size(most)
            };
            let batcher = Batcher::new("classifier", Arc::new(Classifier::new()), batching)?;
            let begun = Instant::now();
            let latencies = load(&batcher, clients, time)?;
            let mut row = json!({"clients": clients, "max_batch_size": most});
            add_rate(&mut row, latencies, begun.elapsed());
            let rows = batcher.measurements().batch_rows;
            row["rows_per_batch"] = json!(rows.sum / rows.count as f64);
            results.add(row);
        }
    }
    Ok(())
}

/// Returns the duration of each request, in nanoseconds.
fn load(batcher: &Batcher, clients: usize, time: Duration) -> Result<Vec<f64>> {
    let features: Vec<f32> = (0..WIDTHS[0]).map(|at| (at % 17) as f32).collect();
    let request = vec![tensor(1, &features)];
    let start = Barrier::new(clients);
    let begun = Instant::now();
    thread::scope(|scope| {
        let client = || {
            start.wait();
            let mut latencies = Vec::new();
            while begun.elapsed() < time {
                let sent = Instant::now();
                block_on(batcher.submit(request.clone(), RequestScheduling::default())?)?;
                latencies.push(sent.elapsed().as_nanos() as f64);
            }
            Ok::<_, Error>(latencies)
        };
        let clients: Vec<_> = (0..clients).map(|_| scope.spawn(client)).collect();
        let mut latencies = Vec::new();
        for client in clients {
            latencies.extend(client.join().expect("a client does not panic")?);
        }
        Ok(latencies)
    })
}

/// A classifier of two layers. Its weights are read once for a batch, so that a batch of a few rows
/// takes hardly longer than one row.
struct Classifier {
    input: [TensorInfo; 1],
    output: [TensorInfo; 1],
    layers: [Vec<f32>; 2],
}

impl Classifier {
    fn new() -> Self {
        let info = |name: &str, width: usize| TensorInfo {
            name: name.to_owned(),
            datatype: Datatype::Fp32,
            shape: vec![-1, width as i64],
        };
        let weights = |from: usize, to: usize| {
            let weight = |at: usize| (at % 251) as f32 / 251.0 - 0.5;
            (0..from * to).map(weight).collect()
        };
        Self {
            input: [info("features", WIDTHS[0])],
            output: [info("scores", WIDTHS[2])],
            layers: [weights(WIDTHS[0], WIDTHS[1]), weights(WIDTHS[1], WIDTHS[2])],
        }
    }
}

impl TensorModel for Classifier {
    fn inputs(&self) -> &[TensorInfo] {
        &self.input
    }

    fn outputs(&self) -> &[TensorInfo] {
        &self.output
    }

    fn run(&self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>> {
        let rows = inputs[0].shape()[0];
        let (bytes, _) = inputs[0].data().as_chunks();
        let features: Vec<f32> = bytes.iter().map(|it| f32::from_le_bytes(*it)).collect();
        let mut hidden = layer(&self.layers[0], &features, WIDTHS[0], WIDTHS[1]);
        for number in &mut hidden {
            *number = number.max(0.0);
        }
        let scores = layer(&self.layers[1], &hidden, WIDTHS[1], WIDTHS[2]);
        Ok(vec![tensor(rows, &scores)])
    }
}

/// The rows multiplied by the weights, each of which is used for all rows before the next.
fn layer(weights: &[f32], rows: &[f32], from: usize, to: usize) -> Vec<f32> {
    let rows: Vec<&[f32]> = rows.chunks(from).collect();
    let mut out = vec![0.0; rows.len() * to];
    for (column, weights) in weights.chunks(from).enumerate() {
        let (blocks, rest) = rows.as_chunks::<BLOCK>();
        let blocks = blocks.iter().flat_map(|block| dots(weights, *block));
        let products = blocks.chain(rest.iter().flat_map(|row| dots(weights, [*row])));
        for (row, product) in products.enumerate() {
            out[row * to + column] = product;
        }
    }
    out
}

/// The dot products of some rows with the same weights.
fn dots<const N: usize>(weights: &[f32], rows: [&[f32]; N]) -> [f32; N] {
    let rows = rows.map(|row| row.as_chunks::<LANES>().0);
    let mut sums = [[0.0; LANES]; N];
    for (at, weights) in weights.as_chunks::<LANES>().0.iter().enumerate() {
        for (sums, row) in sums.iter_mut().zip(rows) {
            for lane in 0..LANES {
                sums[lane] += weights[lane] * row[at][lane];
            }
        }
    }
    sums.map(|sums| sums.iter().sum())
}

fn tensor(rows: usize, numbers: &[f32]) -> Tensor {
    let bytes: Vec<u8> = numbers.iter().flat_map(|it| it.to_le_bytes()).collect();
    let shape = [rows, numbers.len() / rows];
    Tensor::new(Datatype::Fp32, shape, bytes).expect("as many bytes as the shape says")
}
