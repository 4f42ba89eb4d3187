//! `graphmill-bench suite`.

use std::path::Path;

use clap::Args;
use graphmill_bench::{
    load::workload::{Sizes, Workload},
    model::Recipe,
    results::{Results, Speed},
};
use graphmill_llm::spec::CpuKernels;
use serde_json::{Map, Value, json};

use super::{
    Outcome,
    compare::PeerArguments,
    http::LIMITS,
    http_share,
    model::{self, Kind, Store},
    rounds::{self, Contest, Entrant},
    speed::{self, Flash, LlmEngineArguments},
    target::Case,
};

/// Seed of models and texts.
const SEED: u64 = 1;

#[derive(Clone, Debug, Args)]
pub(super) struct Arguments {
    /// The shapes of the models.
    #[arg(long, value_delimiter = ',', default_value = "tiny,0.5b", value_parser = ["tiny", "tiny-moe", "moe", "hybrid", "0.5b", "1.5b"])]
    shapes: Vec<String>,
    /// The types of their matrices.
    #[arg(
        long = "type",
        value_enum,
        value_delimiter = ',',
        default_value = "q8_0"
    )]
    kinds: Vec<Kind>,
    #[command(flatten)]
    store: Store,
    /// Options of our server's LLM node, as in a graph file.
    #[arg(long, value_name = "OPTIONS", default_value = "")]
    node_options: String,
    #[command(flatten)]
    peer: PeerArguments,
    /// How often each load is run.
    #[arg(long, default_value_t = 1)]
    rounds: usize,
}

pub(super) fn run(arguments: &Arguments, json: Option<&Path>) -> Outcome {
    let mut results = Results::new();
    let mut contests = Vec::new();
    for name in &arguments.shapes {
        for &kind in &arguments.kinds {
            let small = name == "tiny";
            let plain = Recipe {
                shape: model::shape(name)?,
                quantization: kind.quantization(),
                loops: false,
                seed: SEED,
            };
            let path = arguments.store.model(&plain)?;
            results.speeds.extend(speeds(&path, small)?);
            http_share::measure(&share(&path, small), &mut results)?;
            contests.push(contest(arguments, &path, cases(small)));
            let loops = arguments.store.model(&Recipe {
                loops: true,
                ..plain
            })?;
            contests.push(contest(arguments, &loops, drafts(small)));
        }
    }
    rounds::run(&contests, results, json)
}

fn contest(arguments: &Arguments, model: &Path, cases: Vec<Case>) -> Contest {
    let own = Entrant::own(model, &arguments.node_options);
    Contest {
        entrants: std::iter::once(own)
            .chain(arguments.peer.entrant(model))
            .collect(),
        cases,
        rounds: arguments.rounds,
        restart: false,
    }
}

/// llama.cpp and the engine by themselves.
fn speeds(model: &Path, small: bool) -> Outcome<Vec<Speed>> {
    let sequences = if small {
        vec![1, 2, 4, 8, 16, 32]
    } else {
        vec![1, 8, 32]
    };
    speed::with_engine(&LlmEngineArguments {
        common: speed::Arguments {
            model: model.to_owned(),
            sequences,
            prompt_tokens: 128,
            tokens: if small { 64 } else { 24 },
            prefill_tokens: 512,
            rounds: if small { 2 } else { 1 },
            flash_attention: Flash::Both,
            threads: None,
            cpu_kernels: CpuKernels::default(),
            context: 0,
        },
        plugin_config: String::new(),
        max_num_seqs: None,
        max_num_batched_tokens: None,
    })
}

/// What arrives over HTTP of what llama.cpp alone can do.
fn share(model: &Path, small: bool) -> http_share::Arguments {
    http_share::Arguments {
        model: model.to_owned(),
        node_options: "max_num_seqs: 32 max_context: 4096 cache_size: 2".to_owned(),
        sequences: if small { vec![1, 8, 32] } else { vec![1, 8] },
        prompt_tokens: 16,
        tokens: if small { 256 } else { 32 },
        context: 4096,
        rounds: if small { 10 } else { 5 },
        turn: if small { 0.5 } else { 1.0 },
        plain_attention: false,
    }
}

/// The loads; fewer and smaller ones for a model that is not small.
fn cases(small: bool) -> Vec<Case> {
    let decode = |streams: usize| {
        let max_tokens = if small { 256 } else { 64 };
        case(Workload::Decode, |sizes| Sizes {
            streams,
            max_tokens,
            ..sizes
        })
    };
    let same = |workload| case(workload, |sizes| sizes);
    if small {
        let mut cases: Vec<Case> = [1, 4, 8, 16, 32].map(decode).into();
        cases.extend([
            drafted(decode(1)),
            same(Workload::Short),
            same(Workload::Shared),
            same(Workload::LivePrefix),
            same(Workload::Chat),
            case(Workload::Arrivals, |sizes| Sizes {
                every: 0.2,
                max_tokens: 1536,
                ..sizes
            }),
            same(Workload::OneToken),
            case(Workload::Trace, |sizes| Sizes { rate: 8.0, ..sizes }),
            same(Workload::Many),
            case(Workload::Poisson, |sizes| Sizes {
                turns: 192,
                ..sizes
            }),
        ]);
        return cases;
    }
    vec![
        decode(1),
        drafted(decode(1)),
        decode(8),
        same(Workload::Shared),
        same(Workload::LivePrefix),
        case(Workload::Chat, |sizes| Sizes {
            turns: 4,
            max_tokens: 24,
            ..sizes
        }),
        case(Workload::Arrivals, |sizes| Sizes {
            arrivals: 1,
            max_tokens: 256,
            ..sizes
        }),
    ]
}

/// The loads of a model whose text repeats itself, without and with drafts from the text.
fn drafts(small: bool) -> Vec<Case> {
    let turns = if small { 8 } else { 2 };
    let repeat = case(Workload::Repeat, |sizes| Sizes { turns, ..sizes });
    let with_drafts = drafted(repeat.clone());
    vec![repeat, with_drafts]
}

/// A load that asks for drafts from the text.
fn drafted(mut case: Case) -> Case {
    let extra = json!({"num_assistant_tokens": 5, "max_ngram_size": 3});
    "drafts".clone_into(&mut case.label);
    case.extra = extra.as_object().cloned().unwrap_or_default();
    case
}

fn case(workload: Workload, change: impl FnOnce(Sizes) -> Sizes) -> Case {
    Case {
        workload,
        label: String::new(),
        sizes: change(workload.sizes()),
        limits: LIMITS,
        capacity: None,
        completions: false,
        extra: Map::<String, Value>::new(),
        seed: SEED,
    }
}
