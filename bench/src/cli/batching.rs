//! `graphmill-bench batching`.

use std::{fs, path::Path, time::Duration};

use clap::Args;
use graphmill_bench::batching::{Load, measure};
use graphmill_calculators::tensor::batch::Batching;
use serde_json::json;

use super::{Outcome, print};

#[derive(Clone, Debug, Args)]
pub(super) struct Arguments {
    /// Most rows of a batch; each number is a measurement, and 1 is without batching.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8, 32])]
    max_batch_size: Vec<u32>,
    /// Microseconds that a request waits for others.
    #[arg(long, default_value_t = 0)]
    max_queue_delay_microseconds: u64,
    /// Threads that compute batches.
    #[arg(long, default_value_t = 1)]
    instances: u32,
    /// Clients at once, each with one row; each number is a measurement.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8, 64])]
    clients: Vec<usize>,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 3)]
    seconds: u64,
}

pub(super) fn run(arguments: &Arguments, json: Option<&Path>) -> Outcome {
    print("| clients | max_batch_size | rows a batch | runs/s | median us | p99 us |");
    print("|---:|---:|---:|---:|---:|---:|");
    let mut measured = Vec::new();
    for &clients in &arguments.clients {
        for &most in &arguments.max_batch_size {
            let load = Load {
                batching: Batching {
                    max_queue_delay_microseconds: arguments.max_queue_delay_microseconds,
                    instances: arguments.instances,
                    ..Batching::with_max_batch_size(most)
                },
                clients,
                time: Duration::from_secs(arguments.seconds),
            };
            let (found, rows) = measure(&load)?;
            let microseconds = |at| found.latencies.quantile(at) / 1e3;
            let (rate, median, p99) = (found.rate, microseconds(0.5), microseconds(0.99));
            print(&format!(
                "| {clients} | {most} | {rows:.1} | {rate:.0} | {median:.0} | {p99:.0} |"
            ));
            measured.push(json!({
                "clients": clients, "max_batch_size": most, "rows_per_batch": rows,
                "runs_per_second": rate, "median_us": median, "p99_us": p99,
            }));
        }
    }
    if let Some(file) = json {
        fs::write(file, serde_json::to_vec_pretty(&measured)?)?;
    }
    Ok(())
}
