//! `graphmill-bench ceiling` and `graphmill-bench engine`.

use std::{path::PathBuf, thread, time::Duration};

use clap::{Args, ValueEnum};
use graphmill_llm::{LlmEngine, LlmEngineSpec, PluginConfig, settings::CpuKernels};
use serde_json::json;

use super::{BenchResult, MOVES_IN, file_name, note};
use crate::{
    generation,
    load::stats::median,
    raw::{Attention, Layout, Raw, Work},
    results::Results,
};

/// An engine without work for 200 ms ends its waiting threads.
const THREADS_END: Duration = Duration::from_millis(300);

#[derive(Clone, Debug, Args)]
pub(super) struct SpeedArguments {
    /// The model, a GGUF file.
    #[arg(long, value_name = "FILE")]
    model: PathBuf,
    /// Number of sequences that decode at once, one measurement for each number.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16,32")]
    sequences: Vec<usize>,
    /// Number of tokens in each prompt.
    #[arg(long, default_value_t = 128)]
    prompt_tokens: usize,
    /// Number of tokens generated for each sequence.
    #[arg(long, default_value_t = 64)]
    tokens: usize,
    /// Number of tokens in the prompt that prefill is measured with.
    #[arg(long, default_value_t = 512)]
    prefill_tokens: usize,
    /// Number of times that everything is measured.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Use of the fused attention kernel by llama.cpp alone; by default, both ways are measured.
    #[arg(long, value_enum, default_value = "both")]
    flash_attention: Flash,
    /// Number of threads of llama.cpp; by default one for each processor.
    #[arg(long)]
    threads: Option<u32>,
    /// Use of our own kernels for quantized matrices in main memory: `auto`, `on` or `off`, as in
    /// `plugin_config`.
    #[arg(long, value_parser = cpu_kernels, default_value = "auto")]
    cpu_kernels: CpuKernels,
    /// Cells that each sequence has at least, as a server with such a `max_context` gives it: the
    /// further apart cells are, the longer it takes to read them. As few as its tokens need without
    /// it.
    #[arg(long, default_value_t = 0)]
    context: usize,
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
    common: SpeedArguments,
    /// The engine's `plugin_config`, a JSON object.
    #[arg(long, value_name = "JSON", default_value = "")]
    plugin_config: String,
    /// The engine's `max_num_seqs`; by default the largest number of sequences that is measured.
    #[arg(long)]
    max_num_seqs: Option<u32>,
    /// The engine's `max_num_batched_tokens`, if not its default.
    #[arg(long)]
    max_num_batched_tokens: Option<u32>,
}

/// The attention kernels that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Flash {
    /// Measure only the fused kernel.
    On,
    /// Measure only the plain kernels.
    Off,
    /// Measure both, each by itself.
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

/// Work in tokens a second, by llama.cpp alone or by the engine.
struct Speed {
    work: Work,
    /// Attention of llama.cpp; `None` for the engine.
    attention: Option<Attention>,
    rounds: Vec<f64>,
}

pub(super) fn ceiling(arguments: &SpeedArguments, results: &mut Results) -> BenchResult {
    measure(arguments, None, results)
}

/// Measures llama.cpp and the engine in turn.
pub(super) fn engine(arguments: &LlmEngineArguments, results: &mut Results) -> BenchResult {
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
    // A context that the longest sequence fits into, as llama.cpp by itself gets: with a longer
    // one, the cache may have no room for all of them, and is then unified.
    let cells = generation::cells(common.work(most), spec.max_num_batched_tokens)
        .max(common.prefill_tokens + 1)
        .max(common.context);
    spec.max_context = Some(cells.next_multiple_of(256) as u32);
    measure(common, Some(spec), results)
}

/// Measures every point once a round, so that what the machine does meanwhile falls on all of them.
///
/// The engine stays over all rounds, as a server's does: a new one finds memory for its cells while
/// it decodes. llama.cpp by itself is loaded when the engine's threads are gone: the threads that
/// OpenMP keeps for both would be more than the machine has processors, and OpenMP then makes them
/// sleep at every barrier, which costs a small model most of its speed.
fn measure(
    arguments: &SpeedArguments,
    spec: Option<LlmEngineSpec>,
    results: &mut Results,
) -> BenchResult {
    let mut points = arguments.points(spec.is_some());
    // First the engine, which initializes llama.cpp for both.
    let engine = spec.map(LlmEngine::load).transpose()?;
    if engine.is_some() {
        thread::sleep(MOVES_IN);
    }
    for round in 0..arguments.rounds {
        note(&format!("round {round}"));
        if let Some(engine) = &engine {
            let seed = round as u64;
            for point in points.iter_mut().filter(|point| point.attention.is_none()) {
                point.rounds.push(match point.work.tokens {
                    0 => generation::prefill_rate(engine, point.work.prompt_tokens, seed)?,
                    _ => generation::decode_rate(engine, point.work, seed)?,
                });
            }
            thread::sleep(THREADS_END);
        }
        // OpenMP's threads end with the thread that they work for.
        let llama = || arguments.llama(&mut points).map_err(|why| why.to_string());
        let measured = thread::scope(|scope| scope.spawn(llama).join());
        measured.map_err(|_| "llama.cpp panicked")??;
    }
    for point in &points {
        let (work, rate) = (point.work, median(point.rounds.clone()));
        let others = points.iter().filter(|other| other.work == work);
        let alone = others.filter(|other| other.attention.is_some());
        let rates = alone.map(|other| median(other.rounds.clone()));
        let ceiling = rates.fold(0.0, f64::max);
        results.add(json!({
            "model": file_name(&arguments.model),
            "work": if work.tokens == 0 { "prefill" } else { "decode" },
            "sequences": work.sequences,
            "prompt_tokens": work.prompt_tokens,
            "tokens": work.tokens,
            "by": point.attention.map_or("engine", Attention::name),
            "tokens_per_second": rate,
            "of_the_fastest_alone": rate / ceiling,
            "rounds": point.rounds,
        }));
    }
    Ok(())
}

impl SpeedArguments {
    /// Returns the work of decoding this number of sequences.
    fn work(&self, sequences: usize) -> Work {
        Work {
            sequences,
            prompt_tokens: self.prompt_tokens,
            tokens: self.tokens,
        }
    }

    /// Measures the points of llama.cpp alone.
    fn llama(&self, points: &mut [Speed]) -> BenchResult {
        let raw = Raw::load(&self.model, self.threads, self.cpu_kernels, self.context)?;
        for point in points {
            if let Some(attention) = point.attention {
                point.rounds.push(match point.work.tokens {
                    0 => raw.prefill_rate(attention, point.work.prompt_tokens)?,
                    _ => raw.decode_rate(attention, point.work)?,
                });
            }
        }
        Ok(())
    }

    /// Returns the points that each round measures, in order.
    fn points(&self, engine: bool) -> Vec<Speed> {
        let prefill = Work {
            sequences: 1,
            prompt_tokens: self.prefill_tokens,
            tokens: 0,
        };
        let prefill = (self.prefill_tokens > 0).then_some(prefill);
        let decode = self.sequences.iter().map(|sequences| self.work(*sequences));
        let mut points = Vec::new();
        for work in prefill.into_iter().chain(decode) {
            // One sequence alone has the same cells in both layouts.
            let layouts = &[Layout::PerSequence, Layout::Unified][..work.sequences.min(2)];
            let ways = layouts.iter().flat_map(|&layout| {
                let flags = self.flash_attention.flags().iter();
                flags.map(move |&flash| Some(Attention { layout, flash }))
            });
            points.extend(ways.chain(engine.then_some(None)).map(|attention| Speed {
                work,
                attention,
                rounds: Vec::new(),
            }));
        }
        points
    }
}
