//! `graphmill-bench grpc`.

use std::{fs, path::Path, time::Duration};

use clap::Args;
use graphmill_bench::grpc::{Load, measure};
use serde_json::json;

use super::{Outcome, print};

#[derive(Clone, Debug, Args)]
pub(super) struct Arguments {
    /// A running server's address for gRPC, with a graph that gives back its one tensor.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9000")]
    base_url: String,
    /// The graph.
    #[arg(long, value_name = "NAME", default_value = "mirror")]
    model: String,
    /// Its input.
    #[arg(long, value_name = "NAME", default_value = "x")]
    input: String,
    /// The bytes of the tensor.
    #[arg(long, default_value_t = 1024)]
    bytes: usize,
    /// Requests at once; each number is a measurement.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8, 64])]
    streams: Vec<usize>,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
}

pub(super) fn run(arguments: &Arguments, json: Option<&Path>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    print("| streams | runs/s | median us | p99 us |");
    print("|---:|---:|---:|---:|");
    let mut measured = Vec::new();
    for &streams in &arguments.streams {
        let load = Load {
            url: arguments.base_url.clone(),
            graph: arguments.model.clone(),
            input: arguments.input.clone(),
            bytes: arguments.bytes,
            streams,
            time: Duration::from_secs(arguments.seconds),
        };
        let found = runtime.block_on(measure(&load))?;
        let microseconds = |at| found.latencies.quantile(at) / 1e3;
        let (rate, median, p99) = (found.rate, microseconds(0.5), microseconds(0.99));
        print(&format!(
            "| {streams} | {rate:.0} | {median:.0} | {p99:.0} |"
        ));
        measured.push(json!({
            "streams": streams, "bytes": arguments.bytes, "runs_per_second": rate, "median_us": median, "p99_us": p99,
        }));
    }
    if let Some(file) = json {
        fs::write(file, serde_json::to_vec_pretty(&measured)?)?;
    }
    Ok(())
}
