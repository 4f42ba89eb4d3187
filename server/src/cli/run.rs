//! `graphmill run`: runs a graph without a server, with packets in and out as lines of JSON.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use clap::Args;
use graphmill_engine::{Environment, Error, Handle, Plan, Registry, SidePackets, Timestamp};
use serde_json::Value;
use tokio::sync::mpsc;

use super::{ending, registry, report, runtime};
use crate::{
    offline::{
        line::{Line, Reader, Shown},
        play::{End, NumberedLine, Patience, Play},
    },
    servable::compile,
};

/// Exit status of a program that Ctrl-C has ended.
const INTERRUPTED: u8 = 130;

/// Lines read ahead of the graph, so that reading and running seldom wait for each other.
const READ_AHEAD: usize = 64;

#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct RunArguments {
    /// Graph file to run; paths in it are relative to its folder.
    #[arg(value_name = "GRAPH")]
    graph: PathBuf,
    /// File of packets, one JSON object a line: {"stream": "in", "timestamp": 0, "value": 5}; `-` is
    /// standard input.
    ///
    /// Without it, all inputs are closed at once.
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Side packet; a value that is not JSON is a string.
    #[arg(long, value_name = "NAME=VALUE")]
    side: Vec<String>,
    /// Any stream of the graph to print; may be given several times [default: the graph's outputs].
    #[arg(long, value_name = "STREAM")]
    observe: Vec<String>,
    /// Prints what the graph waits for whenever nothing has come out for a second.
    #[arg(long)]
    why: bool,
    /// Seconds to wait for the next output packet once the input has ended. Then the run fails and
    /// prints what the graph waits for.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    timeout: u64,
    #[command(flatten)]
    subgraphs: registry::SubgraphFlags,
}

pub(super) fn run(arguments: &RunArguments) -> Result<ExitCode, String> {
    ending::prepare_run()?;
    let base = arguments.graph.parent().unwrap_or(Path::new(""));
    let environment = Environment::new(Registry::global());
    let subgraphs = arguments.subgraphs.named()?;
    let compiled = compile(&arguments.graph, base, &environment, &subgraphs)?;
    report::show(&compiled.sources, &compiled.diagnostics);
    let Some(plan) = compiled.plan else {
        return Ok(ExitCode::FAILURE);
    };
    let mut input = InputLines::open(arguments.input.as_deref(), &plan)?;
    let mut sides = given_sides(&arguments.side, &plan)?;
    let mut first = None;
    while let Some(line) = input.next() {
        match line {
            Ok((_, Line::Side { name, packet })) => sides = sides.with_packet(name, packet),
            other => {
                first = Some(other);
                break;
            }
        }
    }
    let started = start(arguments, &plan, sides).map_err(|error| error.to_string())?;
    let named = input.name.clone();
    let (sender, lines) = mpsc::channel(READ_AHEAD);
    std::thread::spawn(move || {
        for line in first.into_iter().chain(std::iter::from_fn(|| input.next())) {
            // The session may end before its input, and accepts no more lines then.
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
    });
    let runtime = runtime()?;
    let tell = |why: &str| report::note(&format!("nothing came out for a second\n{why}"));
    // A pipe or a terminal may stay open without another line.
    let reads_all = arguments.input.as_deref().is_some_and(Path::is_file);
    let patience = Patience {
        reads_all,
        close: true,
        silence: Duration::from_secs(arguments.timeout),
        tell: arguments.why.then_some(&tell),
    };
    ending::interruptible().map_err(|error| format!("cannot listen for signals: {error}"))?;
    let (end, handle) = runtime.block_on(started.run(lines, ending::interrupted(), patience));
    let code = conclude(end, &handle, &plan, &named);
    drop(handle);
    // A node's call that does not return does not keep the process alive.
    runtime.shutdown_background();
    code
}

/// Reads the side packets of the command line.
fn given_sides(given: &[String], plan: &Arc<Plan>) -> Result<SidePackets, String> {
    let mut sides = SidePackets::new();
    for side in given {
        let Some((name, text)) = side.split_once('=') else {
            return Err(format!("`--side {side}`: expected `name=value`"));
        };
        let value = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
        let reader = Reader::new(plan);
        let packet = reader
            .side(name, &value, None)
            // A string may look like another value: `--side name=5`.
            .or_else(|why| reader.side(name, &Value::from(text), None).map_err(|_| why))
            .map_err(|why| format!("`--side`: {why}"))?;
        sides = sides.with_packet(name, packet);
    }
    Ok(sides)
}

fn start(arguments: &RunArguments, plan: &Arc<Plan>, sides: SidePackets) -> Result<Play, Error> {
    let mut session = Play::new(plan, sides, None, "offline")?;
    let outputs: Vec<&str> = plan.graph_outputs().collect();
    let named: Vec<&str> = arguments.observe.iter().map(String::as_str).collect();
    for stream in if named.is_empty() { outputs } else { named } {
        let name = stream.to_owned();
        session.observe(stream, move |packet| {
            let line = Shown::from_packet(packet).stream_line(&name);
            writeln!(io::stdout(), "{line}").map_err(|error| match error.kind() {
                io::ErrorKind::BrokenPipe => Error::cancelled(NOBODY_READS),
                _ => Error::unavailable(report::unwritable(&error)),
            })
        })?;
    }
    Ok(session)
}

/// Error of a session whose output is a closed pipe.
const NOBODY_READS: &str = "nobody reads the output";

/// Prints the output side packets of a session that is done, and returns the exit status or the
/// error of its end. `input` is the name of its input in messages.
fn conclude(end: End, handle: &Handle, plan: &Plan, input: &str) -> Result<ExitCode, String> {
    Err(match end {
        End::Done => {
            let mut sides = String::new();
            for name in &plan.explain().side_outputs {
                if let Ok(Some(packet)) = handle.side_packet(name) {
                    sides += &Shown::from_packet(&packet).side_line(name);
                    sides.push('\n');
                }
            }
            return report::print(&sides);
        }
        End::Failed(error) if error.message == NOBODY_READS => return Ok(ExitCode::SUCCESS),
        End::Failed(error) => match error.time {
            Timestamp::UNSET => error.to_string(),
            time => format!("{error} (packet at {time})"),
        },
        End::Stuck(why) | End::BadLine(why) => why,
        End::Refused(number, problem) => format!("{input}:{number}: {problem}"),
        End::Interrupted => return Ok(ExitCode::from(INTERRUPTED)),
    })
}

/// Reader of the input's lines for a plan.
struct InputLines {
    name: String,
    lines: Box<dyn Iterator<Item = io::Result<String>> + Send>,
    number: usize,
    reader: Reader,
}

impl InputLines {
    fn open(path: Option<&Path>, plan: &Arc<Plan>) -> Result<Self, String> {
        let (name, lines): (_, Box<dyn Iterator<Item = _> + Send>) = match path {
            None => (String::new(), Box::new(std::iter::empty())),
            Some(path) if path == Path::new("-") => (
                "standard input".to_owned(),
                Box::new(BufReader::new(io::stdin()).lines()),
            ),
            Some(path) => {
                let name = path.display().to_string();
                let file =
                    File::open(path).map_err(|error| format!("cannot read `{name}`: {error}"))?;
                (name, Box::new(BufReader::new(file).lines()))
            }
        };
        Ok(Self {
            name,
            lines,
            number: 0,
            reader: Reader::new(plan),
        })
    }

    /// Returns the next line that is not empty; `None` at the end.
    fn next(&mut self) -> Option<NumberedLine> {
        loop {
            let line = self.lines.next()?;
            self.number += 1;
            let at = |why: String| format!("{}:{}: {why}", self.name, self.number);
            match line {
                Err(error) => return Some(Err(at(error.to_string()))),
                Ok(line) if line.trim().is_empty() => {}
                Ok(line) => {
                    let read = self.reader.read(&line).map_err(at);
                    return Some(read.map(|line| (self.number, line)));
                }
            }
        }
    }
}
