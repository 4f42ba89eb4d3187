//! `graphmill replay`: runs a recorded session again with its recorded tokens, so that no language
//! model computes.

use std::{
    fs,
    path::{Component, Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use clap::Args;
use graphmill_engine::{Environment, Packet, Plan, Registry};

use super::{diff, ending, registry, report, runtime};
use crate::{
    offline::{
        difference,
        play::{End, Patience, Play, complete},
        recording::{PacketRecord, Recording},
        saved_test,
    },
    servable::{compile, compile_text},
};

#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct ReplayArguments {
    /// Recording, as `graphmill record` writes it.
    #[arg(value_name = "FILE")]
    recording: PathBuf,
    /// Graph file to use in place of the recorded graph. Nodes with language models must keep their
    /// names.
    #[arg(long, value_name = "GRAPH")]
    graph: Option<PathBuf>,
    /// Folder that paths in the recorded graph are relative to: that of its file.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    base_path: PathBuf,
    /// Recording of this run to write.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Test to write for `graphmill test`, with the inputs, the recorded tokens and the outputs; its
    /// name ends in `.test.toml`.
    #[arg(long, value_name = "FILE")]
    save_test: Option<PathBuf>,
    /// Seconds without a packet after which the replay fails.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    timeout: u64,
    #[command(flatten)]
    subgraphs: registry::SubgraphFlags,
}

pub(super) fn run(arguments: &ReplayArguments) -> Result<ExitCode, String> {
    ending::prepare_run()?;
    let recording = Recording::read(&arguments.recording)?;
    if let Some(gaps) = recording.gaps() {
        return Err(gaps);
    }
    let Some(plans) = Plans::compile(arguments, &recording)? else {
        return Ok(ExitCode::FAILURE);
    };
    let packets = play(arguments, &recording, &plans)?;
    let played = recording.with_packets(plans.text.clone(), packets);
    if let Some(path) = &arguments.output {
        write(path, &played.lines()?)?;
    }
    if let Some(path) = &arguments.save_test {
        let graph = match &arguments.graph {
            Some(graph) => saved_test::Graph::File(seen_from(path, graph)?),
            None => saved_test::Graph::Recorded {
                base: seen_from(path, &arguments.base_path)?,
            },
        };
        let plans = (&*plans.recorded, &*plans.played);
        write(
            path,
            &saved_test::format(&recording, &played, plans, graph)?,
        )?;
    }
    let producer = |stream: &str| diff::producer(&plans.played, stream);
    match difference::between(&recording, &played, producer) {
        None => {
            let count = played.packets.len();
            report::note(&format!("{count} packets, the same as recorded"));
            Ok(ExitCode::SUCCESS)
        }
        Some(difference) => {
            report::print(&difference)?;
            Ok(ExitCode::FAILURE)
        }
    }
}

/// The graph to play, and the graph of the recording.
struct Plans {
    recorded: Arc<Plan>,
    played: Arc<Plan>,
    /// Text of the graph to play.
    text: String,
}

impl Plans {
    /// Compiles both graphs. `None` if one has errors, which have been shown.
    fn compile(arguments: &ReplayArguments, recording: &Recording) -> Result<Option<Self>, String> {
        let named = arguments.subgraphs.named()?;
        let text = &recording.head.text;
        if text.is_empty() {
            return Err(
                "the recording has no graph, because it was not read from a file".to_owned(),
            );
        }
        let base = &arguments.base_path;
        let of_recorded = |environment: &Environment| {
            let file = base.join("recorded.pbtxt");
            let compiled = compile_text(&file, text.clone(), base, environment, &named);
            report::show(&compiled.sources, &compiled.diagnostics);
            compiled.plan
        };
        let environment = Environment::new(Registry::global());
        let Some(path) = &arguments.graph else {
            return Ok(of_recorded(&environment).map(|plan| Self {
                recorded: Arc::clone(&plan),
                played: plan,
                text: text.clone(),
            }));
        };
        // Only its streams are needed, so no model is loaded.
        let looking = Environment::new(Registry::global()).without_loading();
        let Some(recorded) = of_recorded(&looking) else {
            return Ok(None);
        };
        let folder = path.parent().unwrap_or(Path::new(""));
        let compiled = compile(path, folder, &environment, &named)?;
        report::show(&compiled.sources, &compiled.diagnostics);
        let text = fs::read_to_string(path)
            .map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
        Ok(compiled.plan.map(|played| Self {
            recorded,
            played,
            text,
        }))
    }
}

/// Runs the session, and returns the packets of all streams.
fn play(
    arguments: &ReplayArguments,
    recording: &Recording,
    plans: &Plans,
) -> Result<Vec<PacketRecord>, String> {
    let plan = &plans.played;
    let (sides, lines) = recording.input(plan)?;
    tell_of_lost(recording, plans, lines.is_empty())?;
    let tokens = recording.tokens(&plans.recorded)?;
    let in_words = |error: graphmill_engine::Error| error.to_string();
    let id = &recording.head.id;
    let mut session = Play::new(plan, sides, Some(tokens), id).map_err(in_words)?;
    let kept = session.keep(plan.streams(), usize::MAX).map_err(in_words)?;
    let runtime = runtime()?;
    ending::interruptible().map_err(|error| format!("cannot listen for signals: {error}"))?;
    let patience = Patience {
        reads_all: false,
        close: true,
        silence: Duration::from_secs(arguments.timeout),
        tell: None,
    };
    let (end, handle) =
        runtime.block_on(session.run(complete(lines), ending::interrupted(), patience));
    drop(handle);
    runtime.shutdown_background();
    match end {
        End::Done => {}
        // The recorded session may have failed likewise, so the packets before it are compared.
        End::Failed(error) => report::note(&format!("the session ended with an error: {error}")),
        End::Refused(number, error) => report::note(&format!(
            "the session ended with an error at {}:{number}: {error}",
            arguments.recording.display()
        )),
        End::Stuck(why) | End::BadLine(why) => return Err(why),
        End::Interrupted => return Err("interrupted".to_owned()),
    }
    let recorded = |(stream, packet): &(String, Packet)| PacketRecord::from_packet(stream, packet);
    Ok(kept.take().iter().map(recorded).collect())
}

/// Reports recorded inputs that the graph to play does not have.
///
/// # Errors
/// If it has none of them.
fn tell_of_lost(recording: &Recording, plans: &Plans, sends_nothing: bool) -> Result<(), String> {
    let lost = recording.lost(&plans.recorded, &plans.played);
    if lost.is_empty() {
        return Ok(());
    }
    let listed = |names: &[&str]| match names {
        [] => "none".to_owned(),
        names => format!("`{}`", names.join("`, `")),
    };
    let inputs: Vec<&str> = plans.played.graph_inputs().collect();
    let why = format!(
        "recorded inputs that this graph does not have: {}; its inputs: {}",
        listed(&lost),
        listed(&inputs)
    );
    if sends_nothing {
        return Err(format!("nothing can be sent: {why}"));
    }
    report::note(&why);
    Ok(())
}

/// Returns `other` relative to the folder of `file`.
fn seen_from(file: &Path, other: &Path) -> Result<PathBuf, String> {
    let found = |path: &Path| {
        path.canonicalize()
            .map_err(|error| format!("cannot find `{}`: {error}", path.display()))
    };
    let folder = file.parent().unwrap_or(Path::new(""));
    let (folder, other) = (found(&Path::new(".").join(folder))?, found(other)?);
    let shared = folder.components().zip(other.components());
    let shared = shared.take_while(|(one, another)| one == another).count();
    let up = folder
        .components()
        .skip(shared)
        .map(|_| Component::ParentDir);
    let path: PathBuf = up.chain(other.components().skip(shared)).collect();
    // An empty path would mean no folder.
    Ok(if path.as_os_str().is_empty() {
        ".".into()
    } else {
        path
    })
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("cannot write `{}`: {error}", path.display()))
}
