//! `graphmill-bench ceiling` and `graphmill-bench engine`.

use std::{
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use clap::{Args, ValueEnum};
use graphmill_bench::{
    generation,
    raw::{Attention, Layout, Raw, Work},
    results::{By, Results, Speed},
    tables,
};
use graphmill_llm::{LlmEngine, LlmEngineSpec, PluginConfig, spec::CpuKernels};

use super::{MOVES_IN, Outcome, note, print};

/// An engine without work for 200 ms ends its waiting threads.
const THREADS_END: Duration = Duration::from_millis(300);

#[derive(Clone, Debug, Args)]
pub(super) struct Arguments {
    /// The model, a GGUF file.
    #[arg(long, value_name = "FILE")]
    pub(super) model: PathBuf,
    /// Sequences that decode at once, one measurement for each number.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16,32")]
    pub(super) sequences: Vec<usize>,
    /// Tokens of each prompt.
    #[arg(long, default_value_t = 128)]
    pub(super) prompt_tokens: usize,
    /// Tokens generated for each sequence.
    #[arg(long, default_value_t = 64)]
    pub(super) tokens: usize,
    /// Tokens of the prompt that prefill is measured with.
    #[arg(long, default_value_t = 512)]
    pub(super) prefill_tokens: usize,
    /// How often everything is measured.
    #[arg(long, default_value_t = 3)]
    pub(super) rounds: usize,
    /// Whether the fused attention kernel is used by llama.cpp alone; measured with and without it
    /// unless given.
    #[arg(long, value_enum, default_value = "both")]
    pub(super) flash_attention: Flash,
    /// Threads of llama.cpp; one for each processor without it.
    #[arg(long)]
    pub(super) threads: Option<u32>,
    /// Who multiplies quantized matrices in main memory: `auto`, `on` or `off`, as in
    /// `plugin_config`.
    #[arg(long, value_parser = cpu_kernels, default_value = "auto")]
    pub(super) cpu_kernels: CpuKernels,
    /// Cells that each sequence has at least, as a server with such a `max_context` gives it: the
    /// further apart cells are, the longer it takes to read them. As few as its tokens need without
    /// it.
    #[arg(long, default_value_t = 0)]
    pub(super) context: usize,
}

fn cpu_kernels(name: &str) -> Result<CpuKernels, String> {
    [CpuKernels::Auto, CpuKernels::On, CpuKernels::Off]
        .into_iter()
        .find(|choice| choice.to_string() == name)
        .ok_or_else(|| "use auto, on or off".to_owned())
}

#[derive(Clone, Debug, Args)]
pub(super) struct LlmEngineArguments {
    #[command(flatten)]
    pub(super) common: Arguments,
    /// The engine's `plugin_config`, a JSON object.
    #[arg(long, value_name = "JSON", default_value = "")]
    pub(super) plugin_config: String,
    /// The engine's `max_num_seqs`; the most sequences of the measurements without it.
    #[arg(long)]
    pub(super) max_num_seqs: Option<u32>,
    /// The engine's `max_num_batched_tokens`.
    #[arg(long)]
    pub(super) max_num_batched_tokens: Option<u32>,
}

/// With which kernels of attention something is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Flash {
    /// The fused one.
    On,
    /// The plain ones.
    Off,
    /// Each by itself.
    Both,
}

impl Flash {
    fn flags(self) -> &'static [bool] {
        match self {
            Self::On => &[true],
            Self::Off => &[false],
            Self::Both => &[true, false],
        }
    }
}

pub(super) fn ceiling(arguments: &Arguments, json: Option<&Path>) -> Outcome {
    let mut results = Results::new();
    results.speeds = measure(arguments, None)?;
    finish(&results, json)
}

pub(super) fn engine(arguments: &LlmEngineArguments, json: Option<&Path>) -> Outcome {
    let mut results = Results::new();
    results.speeds = with_engine(arguments)?;
    finish(&results, json)
}

fn finish(results: &Results, json: Option<&Path>) -> Outcome {
    print(&tables::all(results));
    json.map_or(Ok(()), |path| results.save(path))?;
    Ok(())
}

/// Measures llama.cpp and the engine in turn.
pub(super) fn with_engine(arguments: &LlmEngineArguments) -> Outcome<Vec<Speed>> {
    let common = &arguments.common;
    let mut spec = LlmEngineSpec::new(&common.model);
    spec.plugin_config = PluginConfig::from_json(&arguments.plugin_config)?;
    if common.cpu_kernels != CpuKernels::default() {
        spec.plugin_config.cpu_kernels = common.cpu_kernels;
    }
    spec.plugin_config.threads = common.threads.or(spec.plugin_config.threads);
    let most = common.sequences.iter().copied().max().unwrap_or(1);
    spec.max_num_seqs = arguments.max_num_seqs.unwrap_or(most as u32);
    if let Some(tokens) = arguments.max_num_batched_tokens {
        spec.max_num_batched_tokens = tokens;
    }
    spec.max_context = Some(context(common, most, spec.max_num_batched_tokens));
    measure(common, Some(&spec))
}

/// A context that the longest sequence fits into, as llama.cpp by itself gets: with a longer one,
/// the cache may have no room for all of them, and is then unified.
fn context(common: &Arguments, sequences: usize, chunk: u32) -> u32 {
    let work = Work {
        sequences,
        prompt_tokens: common.prompt_tokens,
        tokens: common.tokens,
    };
    let cells = generation::cells(work, chunk)
        .max(common.prefill_tokens + 1)
        .max(common.context);
    cells.next_multiple_of(256) as u32
}

/// Measures every point once a round, so that what the machine does meanwhile falls on all of them.
///
/// The engine stays over all rounds, as a server's does: a new one finds memory for its cells while
/// it decodes. llama.cpp by itself is loaded when the engine's threads are gone: the threads that
/// OpenMP keeps for both would be more than the machine has processors, and OpenMP then makes them
/// sleep at every barrier, which costs a small model most of its speed.
fn measure(arguments: &Arguments, spec: Option<&LlmEngineSpec>) -> Outcome<Vec<Speed>> {
    let mut speeds = points(arguments, spec.is_some());
    // First the engine, which initializes llama.cpp for both.
    let engine = spec.cloned().map(LlmEngine::load).transpose()?;
    if engine.is_some() {
        thread::sleep(MOVES_IN);
    }
    for round in 0..arguments.rounds {
        if let Some(engine) = &engine {
            let seed = round as u64;
            each(&mut speeds, true, round, |_, work| match work.tokens {
                0 => generation::prefill_rate(engine, work.prompt_tokens, seed),
                _ => generation::decode_rate(engine, work, seed),
            })?;
            thread::sleep(THREADS_END);
        }
        // OpenMP's threads end with the thread that they work for.
        let llama = || {
            let raw = Raw::load(
                &arguments.model,
                arguments.threads,
                arguments.cpu_kernels,
                arguments.context,
            )
            .map_err(|error| error.to_string())?;
            let measured = each(&mut speeds, false, round, |by, work| {
                match (by, work.tokens) {
                    (By::Llama(attention), 0) => raw.prefill_rate(attention, work.prompt_tokens),
                    (By::Llama(attention), _) => raw.decode_rate(attention, work),
                    (By::LlmEngine, _) => Err("the engine is measured by itself".into()),
                }
            });
            measured.map_err(|error| error.to_string())
        };
        let measured = thread::scope(|scope| scope.spawn(llama).join());
        measured.map_err(|_| "llama.cpp panicked")??;
    }
    Ok(speeds)
}

/// Measures the points of the engine, or those of llama.cpp.
fn each(
    speeds: &mut [Speed],
    of_engine: bool,
    round: usize,
    rate: impl Fn(By, Work) -> Outcome<f64>,
) -> Outcome {
    for speed in speeds
        .iter_mut()
        .filter(|speed| (speed.by == By::LlmEngine) == of_engine)
    {
        let (work, by, sequences) = (speed.work, speed.by.name(), speed.sequences);
        let rate = rate(
            speed.by,
            Work {
                sequences,
                prompt_tokens: speed.prompt_tokens,
                tokens: speed.tokens,
            },
        )?;
        note(&format!(
            "round {round}: {work} by {by}, {sequences} sequences: {rate:.1} tok/s"
        ));
        speed.rounds.push(rate);
    }
    Ok(())
}

/// What is measured in each round, in order.
fn points(arguments: &Arguments, engine: bool) -> Vec<Speed> {
    let name = arguments.model.file_name().unwrap_or_default();
    let speed = |work, by, sequences, prompt_tokens, tokens| Speed {
        model: name.to_string_lossy().into_owned(),
        work,
        by,
        sequences,
        prompt_tokens,
        tokens,
        rounds: Vec::new(),
    };
    let ways = |layouts: &[Layout]| {
        let mut ways = Vec::new();
        for &layout in layouts {
            ways.extend(
                arguments
                    .flash_attention
                    .flags()
                    .iter()
                    .map(|&flash| By::Llama(Attention { layout, flash })),
            );
        }
        ways.extend(engine.then_some(By::LlmEngine));
        ways
    };
    // One sequence alone has the same cells in both layouts.
    let mut points = Vec::new();
    if arguments.prefill_tokens > 0 {
        let prefill = |by| speed("prefill", by, 1, arguments.prefill_tokens, 0);
        points.extend(ways(&[Layout::PerSequence]).into_iter().map(prefill));
    }
    for &sequences in &arguments.sequences {
        let layouts = if sequences == 1 {
            &[Layout::PerSequence][..]
        } else {
            &[Layout::PerSequence, Layout::Unified]
        };
        let decode = |by| {
            speed(
                "decode",
                by,
                sequences,
                arguments.prompt_tokens,
                arguments.tokens,
            )
        };
        points.extend(ways(layouts).into_iter().map(decode));
    }
    points
}
