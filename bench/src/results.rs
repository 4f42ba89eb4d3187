//! What was measured, as a JSON file and as tables in Markdown.

use std::{
    fs, io,
    path::Path,
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::Serialize;

use crate::{
    load::{stats::median, summary::Summary},
    raw::{Attention, Layout},
};

/// Everything that one call of the bench measured.
#[derive(Debug, Serialize)]
pub struct Results {
    /// Where and when.
    pub about: About,
    /// llama.cpp and the engine without a server.
    pub speeds: Vec<Speed>,
    /// What arrives over HTTP of what llama.cpp alone can do.
    pub shares: Vec<Share>,
    /// Servers that were started.
    pub starts: Vec<Start>,
    /// Loads over HTTP, each run by itself.
    pub runs: Vec<Run>,
}

/// Where and when something was measured.
#[derive(Debug, Serialize)]
pub struct About {
    /// Seconds since 1970.
    pub time: u64,
    /// The processor's name.
    pub processor: String,
    /// Processors that this process may use.
    pub processors: usize,
    /// The vector and matrix instructions of the processor.
    pub instructions: Vec<String>,
    /// The system's kernel.
    pub kernel: String,
    /// The commit of the source tree, with `-dirty` when it was changed; empty outside of one.
    pub commit: String,
    /// The command line.
    pub command: Vec<String>,
}

/// A speed in tokens a second.
#[derive(Debug, Serialize)]
pub struct Speed {
    /// The model's file name.
    pub model: String,
    /// `decode` or `prefill`.
    pub work: &'static str,
    /// What did it.
    pub by: By,
    /// Sequences at once.
    pub sequences: usize,
    /// Tokens of each prompt.
    pub prompt_tokens: usize,
    /// Tokens generated for each sequence.
    pub tokens: usize,
    /// The rounds, in order.
    pub rounds: Vec<f64>,
}

/// What computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// `llama_decode` in a loop.
    Llama(Attention),
    /// The engine.
    LlmEngine,
}

/// Tokens a second over HTTP beside those of `llama_decode` in a loop, in turns.
#[derive(Debug, Serialize)]
pub struct Share {
    /// The model's file name.
    pub model: String,
    /// Sequences at once.
    pub sequences: usize,
    /// Tokens of each prompt.
    pub prompt_tokens: usize,
    /// Tokens generated for each sequence.
    pub tokens: usize,
    /// Seconds of a turn.
    pub turn: f64,
    /// Of our server and of the loop, in each pair of turns.
    pub pairs: Vec<(f64, f64)>,
}

/// How a server started.
#[derive(Debug, Serialize)]
pub struct Start {
    /// `graphmill` or `peer`.
    pub server: String,
    /// The model's file.
    pub model: String,
    /// From the start of the process until it was ready.
    pub seconds: f64,
    /// The most memory that it had by then, in MiB.
    pub mib: Option<f64>,
}

/// One run of one load against one server.
#[derive(Debug, Serialize)]
pub struct Run {
    /// `graphmill`, `peer`, or the address of a server that ran already.
    pub server: String,
    /// The model's name or file.
    pub model: String,
    /// The load's name, with what varies in it.
    pub load: String,
    /// The round, from 0.
    pub round: usize,
    /// What came out.
    pub summary: Summary,
}

impl Results {
    /// Nothing measured yet.
    pub fn new() -> Self {
        Self {
            about: About::here(),
            speeds: Vec::new(),
            shares: Vec::new(),
            starts: Vec::new(),
            runs: Vec::new(),
        }
    }

    /// Writes all to a file; its folder is made.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, serde_json::to_vec_pretty(self)?)
    }
}

impl Default for Results {
    fn default() -> Self {
        Self::new()
    }
}

impl About {
    /// This machine, now.
    fn here() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let instructions = field(&cpuinfo, "flags").split_whitespace();
        let vectors =
            instructions.filter(|flag| flag.starts_with("avx") || flag.starts_with("amx"));
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            time: now.map_or(0, |now| now.as_secs()),
            processor: field(&cpuinfo, "model name").to_owned(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            instructions: vectors.map(str::to_owned).collect(),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
                .unwrap_or_default()
                .trim()
                .to_owned(),
            commit: commit(),
            command: std::env::args().collect(),
        }
    }
}

/// The first value of a field of `/proc/cpuinfo`.
fn field<'a>(cpuinfo: &'a str, name: &str) -> &'a str {
    let value = |line: &'a str| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then_some(value.trim())
    };
    cpuinfo.lines().find_map(value).unwrap_or_default()
}

fn commit() -> String {
    let git = Command::new("git")
        .args(["describe", "--always", "--dirty", "--exclude=*"])
        .output();
    let said = git.ok().filter(|output| output.status.success());
    said.map_or_else(String::new, |output| {
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    })
}

impl By {
    /// What it is called in tables.
    pub fn name(self) -> &'static str {
        let Self::Llama(attention) = self else {
            return "engine";
        };
        match (attention.layout, attention.flash) {
            (Layout::PerSequence, true) => "per sequence, flash",
            (Layout::PerSequence, false) => "per sequence, plain",
            (Layout::Unified, true) => "unified, flash",
            (Layout::Unified, false) => "unified, plain",
        }
    }
}

impl Share {
    /// The server's part of the loop's rate in each pair, ascending.
    pub fn ratios(&self) -> Vec<f64> {
        let ratio = |(server, alone): &(f64, f64)| server / alone;
        let mut ratios: Vec<f64> = self.pairs.iter().map(ratio).collect();
        ratios.sort_by(f64::total_cmp);
        ratios
    }
}

impl Speed {
    /// The middle of its rounds.
    pub fn median(&self) -> f64 {
        median(self.rounds.clone())
    }
}
