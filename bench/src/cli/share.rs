//! `graphmill-bench share`.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use clap::Args;
use graphmill_llm::settings::CpuKernels;
use reqwest::Client;
use serde_json::json;
use tokio::time::sleep;

use super::{
    BenchResult, MOVES_IN,
    contest::{Entrant, Site, client, until_stopped},
    file_name, seconds,
};
use crate::{
    load::{
        drive,
        plan::plan,
        stats::{common_rate, median, quantile},
        workload::{Sizes, Workload},
    },
    raw::{Attention, Layout, Raw, Work},
    results::Results,
};

/// Time that a stopped server is given to get its threads running again.
const SETTLES: Duration = Duration::from_millis(100);

#[derive(Clone, Debug, Args)]
pub(super) struct ShareArguments {
    /// The model, a GGUF file.
    #[arg(long, value_name = "FILE")]
    model: PathBuf,
    /// Options of our server's LLM node, as in a graph file.
    #[arg(long, value_name = "OPTIONS", default_value = "")]
    node_options: String,
    /// Number of sequences that decode at once, one measurement for each number.
    #[arg(long, value_delimiter = ',', default_value = "1,4,8,16,32")]
    sequences: Vec<usize>,
    /// Number of tokens in each prompt.
    #[arg(long, default_value_t = 16)]
    prompt_tokens: usize,
    /// Number of tokens generated for each sequence.
    #[arg(long, default_value_t = 64)]
    tokens: usize,
    /// Cells that each sequence has at least without a server.
    #[arg(long, default_value_t = 0)]
    context: usize,
    /// Turns of each for each number of sequences.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Seconds per turn; the workload repeats until they are over, at least once.
    #[arg(long, default_value = "1", value_parser = seconds)]
    turn: Duration,
    /// Decodes without the fused attention kernel where llama.cpp is alone.
    #[arg(long)]
    plain_attention: bool,
}

/// Adds a row for each number of sequences; those that were measured stay when one fails or a signal
/// stops this program. While llama.cpp computes, signals wait.
pub(super) fn run(arguments: &ShareArguments, results: &mut Results) -> BenchResult {
    until_stopped(async {
        let client = client()?;
        let own = Entrant::own(&arguments.model, &arguments.node_options);
        let site = Site::open(&own, &client).await?;
        let (kernels, context) = (CpuKernels::default(), arguments.context);
        let raw = Raw::load(&arguments.model, None, kernels, context)?;
        sleep(MOVES_IN).await;
        site.server.pause()?;
        let mut texts = 0;
        for &sequences in &arguments.sequences {
            let mut pairs = Vec::new();
            for _ in 0..arguments.rounds {
                site.server.resume()?;
                sleep(SETTLES).await;
                let arrived = over_http(arguments, sequences, &site, &client, &mut texts).await?;
                site.server.pause()?;
                pairs.push((arrived, alone(arguments, sequences, &raw)?));
            }
            let mut ratios: Vec<f64> = pairs.iter().map(|pair| pair.0 / pair.1).collect();
            ratios.sort_by(f64::total_cmp);
            results.add(json!({
                "model": file_name(&arguments.model),
                "sequences": sequences,
                "prompt_tokens": arguments.prompt_tokens,
                "tokens": arguments.tokens,
                "llama.cpp_alone": median(pairs.iter().map(|pair| pair.1).collect()),
                "over_HTTP": median(pairs.iter().map(|pair| pair.0).collect()),
                "ratio": quantile(&ratios, 0.5),
                "lower_quarter": quantile(&ratios, 0.25),
                "upper_quarter": quantile(&ratios, 0.75),
                "pairs": pairs,
            }));
        }
        Ok(())
    })
}

/// Rates of one generation after another, until the turn is over: their median.
struct MeasuredTurn {
    ends: Instant,
    rates: Vec<f64>,
}

impl MeasuredTurn {
    fn begin(arguments: &ShareArguments) -> Self {
        Self {
            ends: Instant::now() + arguments.turn,
            rates: Vec::new(),
        }
    }

    /// Takes in when the tokens of a generation came; says what the turn gave if it is over. A
    /// generation whose answers hardly overlapped says nothing; a turn of only such ones is an
    /// error.
    fn take(&mut self, streams: &[&[f64]]) -> BenchResult<Option<f64>> {
        self.rates.extend(common_rate(streams));
        if Instant::now() < self.ends {
            return Ok(None);
        }
        if self.rates.is_empty() {
            return Err("the answers hardly overlap: use more `--tokens`".into());
        }
        Ok(Some(median(self.rates.clone())))
    }
}

/// A turn of our server, with texts that it has not had.
async fn over_http(
    arguments: &ShareArguments,
    sequences: usize,
    site: &Site,
    client: &Client,
    texts: &mut u64,
) -> BenchResult<f64> {
    let sizes = Sizes {
        streams: sequences,
        prompt_tokens: arguments.prompt_tokens,
        max_tokens: arguments.tokens as u32,
        ..Workload::Decode.sizes()
    };
    let mut turn = MeasuredTurn::begin(arguments);
    loop {
        *texts += 1;
        let actors = plan("share", &sizes, site.measure, *texts);
        let (samples, _) = drive::run(client, &site.target, &actors).await;
        if let Some(error) = samples.iter().find_map(|it| it.reply.error.as_ref()) {
            return Err(format!("an answer of the server failed: {error}").into());
        }
        let pieces = samples.iter().map(|sample| sample.reply.pieces.as_slice());
        if let Some(rate) = turn.take(&pieces.collect::<Vec<_>>())? {
            return Ok(rate);
        }
    }
}

/// A turn of llama.cpp in this process.
fn alone(arguments: &ShareArguments, sequences: usize, raw: &Raw) -> BenchResult<f64> {
    let attention = Attention {
        layout: Layout::PerSequence,
        flash: !arguments.plain_attention,
    };
    let work = Work {
        sequences,
        prompt_tokens: arguments.prompt_tokens,
        tokens: arguments.tokens,
    };
    let mut turn = MeasuredTurn::begin(arguments);
    loop {
        let begun = Instant::now();
        let mut steps = Vec::with_capacity(arguments.tokens);
        raw.decode(attention, work, || {
            steps.push(begun.elapsed().as_secs_f64());
        })?;
        if let Some(rate) = turn.take(&vec![steps.as_slice(); sequences])? {
            return Ok(rate);
        }
    }
}
