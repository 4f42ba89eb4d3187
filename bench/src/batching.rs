//! What batching tensors of several requests gains: a classifier in this process, with clients that
//! each wait for an answer before they ask again.

use std::{
    sync::{Arc, Barrier},
    thread,
    time::{Duration, Instant},
};

use graphmill_calculators::tensor::{
    Datatype, Tensor, TensorInfo, TensorModel,
    batch::{Batcher, Batching, RequestScheduling},
};
use graphmill_engine::{Result, block_on};

use crate::{grpc::Measurement, samples::Samples};

/// Numbers of a row that goes in, of the layer inside, and of a row that comes out: 25 million
/// weights, as many as common classifiers of images have.
const WIDTHS: [usize; 3] = [2048, 8192, 1000];

/// Numbers that are added up side by side.
const LANES: usize = 16;

/// Rows for which a weight is loaded once.
const BLOCK: usize = 4;

/// What is measured.
#[derive(Clone, Debug)]
pub struct Load {
    /// How requests are batched.
    pub batching: Batching,
    /// Clients at once, each with a request of one row.
    pub clients: usize,
    /// How long.
    pub time: Duration,
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

/// What came back, and the mean number of rows of a batch.
pub fn measure(load: &Load) -> Result<(Measurement, f64)> {
    let batcher = Batcher::new(
        "classifier",
        Arc::new(Classifier::new()),
        load.batching.clone(),
    )?;
    let features: Vec<f32> = (0..WIDTHS[0]).map(|at| (at % 17) as f32).collect();
    let request = vec![tensor(1, &features)];
    let start = Barrier::new(load.clients);
    let begun = Instant::now();
    let latencies = thread::scope(|scope| {
        let client = || {
            start.wait();
            let mut latencies = Vec::new();
            while begun.elapsed() < load.time {
                let sent = Instant::now();
                block_on(batcher.submit(request.clone(), RequestScheduling::default())?)?;
                latencies.push(sent.elapsed().as_nanos() as f64);
            }
            Ok(latencies)
        };
        let clients: Vec<_> = (0..load.clients).map(|_| scope.spawn(client)).collect();
        let mut latencies = Vec::new();
        for client in clients {
            latencies.extend(client.join().expect("a client does not panic")?);
        }
        Ok::<_, graphmill_engine::Error>(latencies)
    })?;
    let measured = Measurement {
        rate: latencies.len() as f64 / begun.elapsed().as_secs_f64(),
        latencies: Samples::new(latencies),
    };
    let rows = batcher.measurements().batch_rows;
    Ok((measured, rows.sum / rows.count as f64))
}
