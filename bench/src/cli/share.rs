//! `graphmill-bench share`.

use std::{
    path::{Path, PathBuf},
    pin::pin,
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use clap::Args;
use graphmill_bench::{
    load::{
        client::Target,
        drive,
        workload::{Sizes, Workload},
    },
    raw::{Attention, Layout, Raw, Work},
    results::{Results, Share},
    servers::{self, Server},
    tables,
    turns::{self, Gate},
};
use graphmill_llm::spec::CpuKernels;
use reqwest::Client;
use serde_json::Map;
use tokio::time::sleep;

use super::{Outcome, contest, note, print, site::Site};

/// Seed of the texts.
const SEED: u64 = 1;
/// What is wrong where nothing can be compared.
const TOO_FEW: &str =
    "no turn has enough tokens of all sequences: use more `--tokens`, or shorter turns";

#[derive(Clone, Debug, Args)]
pub(super) struct Arguments {
    /// The model, a GGUF file.
    #[arg(long, value_name = "FILE")]
    pub(super) model: PathBuf,
    /// Options of our server's LLM node, as in a graph file.
    #[arg(long, value_name = "OPTIONS", default_value = "")]
    pub(super) node_options: String,
    /// Sequences that decode at once, one measurement for each number.
    #[arg(long, value_delimiter = ',', default_value = "1,4,8,16,32")]
    pub(super) sequences: Vec<usize>,
    /// Tokens of each prompt.
    #[arg(long, default_value_t = 16)]
    pub(super) prompt_tokens: usize,
    /// Tokens generated for each sequence; a measurement ends when either has them.
    #[arg(long, default_value_t = 400)]
    pub(super) tokens: usize,
    /// Cells that each sequence has at least without a server.
    #[arg(long, default_value_t = 0)]
    pub(super) context: usize,
    /// Seconds of a turn: many steps, and much less than what slows the machine down.
    #[arg(long, default_value_t = 0.5)]
    pub(super) turn: f64,
    /// Whether llama.cpp alone decodes without the fused attention kernel.
    #[arg(long)]
    pub(super) plain_attention: bool,
}

pub(super) fn run(arguments: &Arguments, json: Option<&Path>) -> Outcome {
    let mut results = Results::new();
    let outcome = measure(arguments, &mut results);
    print(&tables::all(&results));
    json.map_or(Ok(()), |path| results.save(path))?;
    outcome
}

/// Adds a share for each number of sequences; those that were measured stay when one fails or a signal stops this program.
pub(super) fn measure(arguments: &Arguments, results: &mut Results) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let stop = contest::stop()?;
        tokio::select! {
            outcome = all(arguments, results) => outcome,
            signal = stop => Err(format!("stopped by {signal}").into()),
        }
    })
}

async fn all(arguments: &Arguments, results: &mut Results) -> Outcome {
    let client = contest::client()?;
    let program = servers::own_program()?;
    let server = Server::own(&program, &arguments.model, &arguments.node_options, &client).await?;
    let site = Site::new(client.clone(), server, servers::MODEL.to_owned()).await?;
    for &sequences in &arguments.sequences {
        let share = in_turns(arguments, &client, &site, sequences).await?;
        note(&format!(
            "{sequences} sequences: {} pairs of turns",
            share.pairs.len()
        ));
        results.shares.push(share);
    }
    Ok(())
}

/// Has the server answer, and llama.cpp decode in a thread of this process, in turns until one of them is done.
async fn in_turns(
    arguments: &Arguments,
    client: &Client,
    site: &Site,
    sequences: usize,
) -> Outcome<Share> {
    let gate = Arc::new(Gate::default());
    let alone = thread::spawn({
        let (arguments, gate) = (arguments.clone(), Arc::clone(&gate));
        move || {
            let _leaving = gate.leaving();
            decode_alone(&arguments, sequences, &gate)
        }
    });
    if !gate.shut() {
        ended(alone)?;
        return Err(TOO_FEW.into());
    }
    let sizes = Sizes {
        streams: sequences,
        prompt_tokens: arguments.prompt_tokens,
        max_tokens: arguments.tokens as u32,
        ..Workload::Decode.sizes()
    };
    let plan = Workload::Decode.plan(&sizes, site.measure, SEED);
    let target = Target {
        base_url: site.server.base_url.clone(),
        model: servers::MODEL.to_owned(),
        completions: false,
        extra: Map::new(),
    };
    let turn = Duration::from_secs_f64(arguments.turn);
    let begun = Instant::now();
    let now = || begun.elapsed().as_secs_f64();
    let mut answers = pin!(drive::run(client, &target, &plan));
    let mut turns = Vec::new();
    let (samples, _) = loop {
        let start = now();
        site.server.resume()?;
        tokio::select! {
            answers = &mut answers => break answers,
            () = sleep(turn) => {}
        }
        let change = now();
        site.server.pause()?;
        gate.open();
        tokio::select! {
            answers = &mut answers => break answers,
            () = sleep(turn) => {}
        }
        let goes_on = gate.shut();
        turns.push((start..change, change..now()));
        if !goes_on {
            site.server.resume()?;
            break answers.await;
        }
    };
    gate.end();
    let steps = ended(alone)?;
    if let Some(error) = samples.iter().find_map(|sample| sample.error.as_ref()) {
        return Err(format!("an answer of the server failed: {error}").into());
    }
    let arrived: Vec<Vec<f64>> = samples.into_iter().map(|sample| sample.pieces).collect();
    let seconds = |step: &Instant| step.saturating_duration_since(begun).as_secs_f64();
    let decoded = vec![steps.iter().map(seconds).collect(); sequences];
    let pair = |(server, alone)| {
        Some((
            turns::rate(server, &arrived)?,
            turns::rate(alone, &decoded)?,
        ))
    };
    let pairs: Vec<(f64, f64)> = turns
        .iter()
        .map(|(server, alone)| (server, alone))
        .filter_map(pair)
        .collect();
    if pairs.is_empty() {
        return Err(TOO_FEW.into());
    }
    Ok(Share {
        model: contest::file_name(&arguments.model),
        sequences,
        turn: arguments.turn,
        pairs,
    })
}

/// What a thread has returned.
fn ended<T>(thread: JoinHandle<Result<T, String>>) -> Outcome<T> {
    Ok(thread.join().map_err(|_| "llama.cpp panicked")??)
}

/// Decodes whenever the gate is open; says when each step was done.
fn decode_alone(
    arguments: &Arguments,
    sequences: usize,
    gate: &Gate,
) -> Result<Vec<Instant>, String> {
    let attention = Attention {
        layout: Layout::Streams,
        flash: !arguments.plain_attention,
    };
    let work = Work {
        sequences,
        prompt_tokens: arguments.prompt_tokens,
        tokens: arguments.tokens,
    };
    let kernels = CpuKernels::default();
    let mut steps = Vec::with_capacity(arguments.tokens);
    Raw::load(&arguments.model, None, kernels, arguments.context)
        .and_then(|raw| {
            raw.decode(attention, work, || {
                steps.push(Instant::now());
                gate.pass()
            })
        })
        .map_err(|error| error.to_string())?;
    Ok(steps)
}
