//! The command line: one file a command.

mod batching;
mod compare;
mod grpc;
mod http;
mod http_share;
mod matmul;
mod model;
mod rounds;
mod speed;
mod suite;
mod target;

use std::{error::Error, path::PathBuf, process::ExitCode, time::Duration};

use clap::{Parser, Subcommand};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

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
    Model(model::Arguments),
    /// Tokens a second of llama.cpp alone: decoding with both layouts of the KV cache, and prefill.
    Ceiling(speed::Arguments),
    /// Single matmuls, by our kernels and by llama.cpp's.
    Matmul(matmul::Arguments),
    /// Tokens a second of the engine alone, beside llama.cpp's.
    #[command(name = "engine")]
    LlmEngine(speed::LlmEngineArguments),
    /// Send loads to a server and measure what comes back.
    Http(Box<http::Arguments>),
    /// Requests a second of a classifier in this process, with and without batching.
    Batching(batching::Arguments),
    /// Send tensors to a graph over gRPC and measure how fast they come back.
    Grpc(grpc::Arguments),
    /// What arrives over HTTP of the tokens that llama.cpp alone can make, both in turns.
    Share(Box<http_share::Arguments>),
    /// Send loads to our server and to another in turn, and compare.
    Compare(Box<compare::Arguments>),
    /// All of these on models of its own.
    Suite(Box<suite::Arguments>),
}

/// Runs the command line of this process.
pub(crate) fn main() -> ExitCode {
    let cli = Cli::parse();
    let json = cli.json.as_deref();
    let outcome = match &cli.command {
        Command::Model(arguments) => model::run(arguments),
        Command::Ceiling(arguments) => speed::ceiling(arguments, json),
        Command::Matmul(arguments) => matmul::run(arguments, json),
        Command::LlmEngine(arguments) => speed::engine(arguments, json),
        Command::Http(arguments) => http::run(arguments, json),
        Command::Batching(arguments) => batching::run(arguments, json),
        Command::Grpc(arguments) => grpc::run(arguments, json),
        Command::Share(arguments) => http_share::run(arguments, json),
        Command::Compare(arguments) => compare::run(arguments, json),
        Command::Suite(arguments) => suite::run(arguments, json),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Prints a line of results.
#[expect(clippy::print_stdout, reason = "the results are the program's output")]
fn print(text: &str) {
    println!("{text}");
}

/// Says on the error stream how far the measurement is.
#[expect(clippy::print_stderr, reason = "progress is not a part of the results")]
fn note(text: &str) {
    eprintln!("{text}");
}
