//! `graphmill-bench share`.

use std::{
    path::{Path, PathBuf},
    sync::mpsc::{self, Sender},
    thread,
    time::{Duration, Instant},
};

use clap::Args;
use graphmill_bench::{
    load::{
        client::Target,
        drive,
        stats::{common_rate, median},
        workload::{Sizes, Workload},
    },
    raw::{Attention, Layout, Raw, Work},
    results::{Results, Share},
    servers::{self, Server},
    tables,
};
use graphmill_llm::spec::CpuKernels;
use reqwest::Client;
use serde_json::Map;
use tokio::{sync::oneshot, time::sleep};

use super::{MOVES_IN, Outcome, note, print, rounds, target::Site};

/// A server that stood still needs so long until its threads are where they were.
const SETTLES: Duration = Duration::from_millis(100);
/// What is wrong where nothing can be compared.
const TOO_FEW: &str = "the answers hardly overlap: use more `--tokens`";
/// Why the thread of llama.cpp does not answer.
const PANICKED: &str = "llama.cpp panicked";

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
    /// Tokens generated for each sequence.
    #[arg(long, default_value_t = 64)]
    pub(super) tokens: usize,
    /// Cells that each sequence has at least without a server.
    #[arg(long, default_value_t = 0)]
    pub(super) context: usize,
    /// Turns of each for each number of sequences.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) rounds: u64,
    /// Seconds per turn; the workload repeats until they are over, at least once.
    #[arg(long, default_value_t = 1.0, value_parser = seconds)]
    pub(super) turn: f64,
    /// Whether llama.cpp alone decodes without the fused attention kernel.
    #[arg(long)]
    pub(super) plain_attention: bool,
}

/// A time in seconds that is not below zero.
fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|error| format!("{error}"))?;
    let time = Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
    Ok(time.as_secs_f64())
}

pub(super) fn run(arguments: &Arguments, json: Option<&Path>) -> Outcome {
    let mut results = Results::new();
    let outcome = measure(arguments, &mut results);
    print(&tables::all(&results));
    json.map_or(Ok(()), |path| results.save(path))?;
    outcome
}

/// Adds a share for each number of sequences; those that were measured stay when one fails or a
/// signal stops this program.
pub(super) fn measure(arguments: &Arguments, results: &mut Results) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let stop = rounds::stop()?;
        tokio::select! {
            outcome = all(arguments, results) => outcome,
            signal = stop => Err(format!("stopped by {signal}").into()),
        }
    })
}

async fn all(arguments: &Arguments, results: &mut Results) -> Outcome {
    let client = rounds::client()?;
    let program = servers::own_program()?;
    let server = Server::own(&program, &arguments.model, &arguments.node_options, &client).await?;
    let mut over_http = OverHttp {
        site: Site::new(client.clone(), server, servers::MODEL.to_owned()).await?,
        client,
        texts: 0,
    };
    let alone = Alone::start(arguments).await?;
    sleep(MOVES_IN).await;
    over_http.site.server.pause()?;
    for &sequences in &arguments.sequences {
        let mut pairs = Vec::new();
        for _ in 0..arguments.rounds {
            let arrived = over_http.turn(arguments, sequences).await?;
            pairs.push((arrived, alone.turn(sequences).await?));
        }
        note(&format!("{sequences} sequences: done"));
        results.shares.push(Share {
            model: rounds::file_name(&arguments.model),
            sequences,
            prompt_tokens: arguments.prompt_tokens,
            tokens: arguments.tokens,
            turn: arguments.turn,
            pairs,
        });
    }
    Ok(())
}

/// Rates of one generation after another, until the turn is over: their median.
struct Turn {
    ends: Instant,
    rates: Vec<f64>,
}

impl Turn {
    fn begin(arguments: &Arguments) -> Self {
        Self {
            ends: Instant::now() + Duration::from_secs_f64(arguments.turn),
            rates: Vec::new(),
        }
    }

    /// Takes in when the tokens of a generation came; says what the turn gave if it is over. A
    /// generation whose answers hardly overlapped says nothing; a turn of only such ones is an
    /// error.
    fn take(&mut self, streams: &[Vec<f64>]) -> Result<Option<f64>, String> {
        self.rates.extend(common_rate(streams));
        if Instant::now() < self.ends {
            return Ok(None);
        }
        if self.rates.is_empty() {
            return Err(TOO_FEW.to_owned());
        }
        Ok(Some(median(self.rates.clone())))
    }
}

/// Our server, whose process stands still outside of its turns.
struct OverHttp {
    site: Site,
    client: Client,
    /// Texts that it was sent.
    texts: u64,
}

impl OverHttp {
    async fn turn(&mut self, arguments: &Arguments, sequences: usize) -> Outcome<f64> {
        let sizes = Sizes {
            streams: sequences,
            prompt_tokens: arguments.prompt_tokens,
            max_tokens: arguments.tokens as u32,
            ..Workload::Decode.sizes()
        };
        let target = Target {
            base_url: self.site.server.base_url.clone(),
            model: servers::MODEL.to_owned(),
            completions: false,
            extra: Map::new(),
        };
        self.site.server.resume()?;
        sleep(SETTLES).await;
        let mut turn = Turn::begin(arguments);
        loop {
            self.texts += 1;
            let plan = Workload::Decode.plan(&sizes, self.site.measure, self.texts);
            let (samples, _) = drive::run(&self.client, &target, &plan).await;
            if let Some(error) = samples.iter().find_map(|sample| sample.error.as_ref()) {
                return Err(format!("an answer of the server failed: {error}").into());
            }
            let arrived: Vec<_> = samples.into_iter().map(|sample| sample.pieces).collect();
            if let Some(rate) = turn.take(&arrived)? {
                self.site.server.pause()?;
                return Ok(rate);
            }
        }
    }
}

/// llama.cpp in a thread of this process, which does nothing outside of its turns.
struct Alone(Sender<(usize, oneshot::Sender<Result<f64, String>>)>);

impl Alone {
    /// Returns once the model is loaded: nobody has a turn meanwhile.
    async fn start(arguments: &Arguments) -> Outcome<Self> {
        let (turns, asked) = mpsc::channel::<(usize, oneshot::Sender<_>)>();
        let (ready, loaded) = oneshot::channel();
        let arguments = arguments.clone();
        thread::spawn(move || {
            let (kernels, context) = (CpuKernels::default(), arguments.context);
            let raw = match Raw::load(&arguments.model, None, kernels, context) {
                Ok(raw) => raw,
                Err(error) => return ready.send(Err(error.to_string())),
            };
            // Nobody waits for this or a rate where a signal stops the program.
            ready.send(Ok(())).ok();
            for (sequences, rate) in asked {
                rate.send(decode_alone(&raw, &arguments, sequences)).ok();
            }
            Ok(())
        });
        loaded.await.map_err(|_| PANICKED)??;
        Ok(Self(turns))
    }

    async fn turn(&self, sequences: usize) -> Outcome<f64> {
        let (sender, rate) = oneshot::channel();
        self.0.send((sequences, sender)).ok(); // a thread that has ended does not answer either
        Ok(rate.await.map_err(|_| PANICKED)??)
    }
}

fn decode_alone(raw: &Raw, arguments: &Arguments, sequences: usize) -> Result<f64, String> {
    let attention = Attention {
        layout: Layout::PerSequence,
        flash: !arguments.plain_attention,
    };
    let work = Work {
        sequences,
        prompt_tokens: arguments.prompt_tokens,
        tokens: arguments.tokens,
    };
    let mut turn = Turn::begin(arguments);
    loop {
        let begun = Instant::now();
        let mut steps = Vec::with_capacity(arguments.tokens);
        let after = || steps.push(begun.elapsed().as_secs_f64());
        raw.decode(attention, work, after)
            .map_err(|error| error.to_string())?;
        if let Some(rate) = turn.take(&vec![steps; sequences])? {
            return Ok(rate);
        }
    }
}
