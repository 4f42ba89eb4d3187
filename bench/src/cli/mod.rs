//! The command line: one file a command.

mod batching;
mod contest;
mod grpc;
mod loads;
mod matmul;
mod model;
mod share;
mod speed;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use clap::{Parser, Subcommand};
use serde_json::{Value, json};

use crate::{BenchResult, results::Results, samples::Samples};

/// A new engine moves its memory to huge pages in its first idle seconds.
const MOVES_IN: Duration = Duration::from_secs(5);

/// Measures models, the engine and the server, alone or beside another server.
#[derive(Debug, Parser)]
#[command(name = "graphmill-bench", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Write what was measured to this file as JSON.
    #[arg(long, global = true, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a model of a real shape with random weights, unless it is there; print its path.
    Model(model::ModelArguments),
    /// Tokens a second of llama.cpp alone: decoding with both layouts of the KV cache, and prefill.
    Ceiling(speed::SpeedArguments),
    /// Single matmuls, by our kernels and by llama.cpp's.
    Matmul(matmul::MatmulArguments),
    /// Tokens a second of the engine alone, beside llama.cpp's.
    #[command(name = "engine")]
    LlmEngine(speed::LlmEngineArguments),
    /// Send loads to a server and measure what comes back.
    Http(Box<loads::HttpArguments>),
    /// Requests a second of a classifier in this process, with and without batching.
    Batching(batching::BatchingArguments),
    /// Send tensors to a graph over gRPC and measure how fast they come back.
    Grpc(grpc::GrpcArguments),
    /// Measure the share of llama.cpp's own rate of tokens that arrives over HTTP, both in turns.
    Share(share::ShareArguments),
    /// Send loads to our server and to another in turn, and compare.
    Compare(Box<loads::CompareArguments>),
}

/// Runs the command line of this process. Results so far are printed and saved also if the
/// measurement fails later.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut results = Results::new();
    let outcome = match &cli.command {
        Command::Model(arguments) => return exit(model::run(arguments)),
        Command::Ceiling(arguments) => speed::ceiling(arguments, &mut results),
        Command::Matmul(arguments) => matmul::run(arguments, &mut results),
        Command::LlmEngine(arguments) => speed::engine(arguments, &mut results),
        Command::Http(arguments) => loads::http(arguments, &mut results),
        Command::Batching(arguments) => batching::run(arguments, &mut results),
        Command::Grpc(arguments) => grpc::run(arguments, &mut results),
        Command::Share(arguments) => share::run(arguments, &mut results),
        Command::Compare(arguments) => loads::compare(arguments, &mut results),
    };
    print(&results.table());
    let saved = cli.json.map_or(Ok(()), |path| results.save(&path));
    exit(outcome.and(saved.map_err(Into::into)))
}

fn exit(outcome: BenchResult) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stdout, reason = "the results are the program's output")]
fn print(text: &str) {
    println!("{text}");
}

/// Says on the error stream how far the measurement is.
#[expect(clippy::print_stderr, reason = "progress is not a part of the results")]
fn note(text: &str) {
    eprintln!("{text}");
}

/// A file's name as text.
fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Reads a time in seconds, which is not below zero.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|error| format!("{error}"))?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// Adds the rate of runs to a row, and the median and 99th percentile of their durations.
fn add_rate(row: &mut Value, latencies: Vec<f64>, time: Duration) {
    row["runs_per_second"] = json!(latencies.len() as f64 / time.as_secs_f64());
    let latencies = Samples::new(latencies);
    for (name, at) in [("median_us", 0.5), ("p99_us", 0.99)] {
        row[name] = json!(latencies.quantile(at) / 1e3);
    }
}
