//! Trials of models in a separate process before they are loaded. If llama.cpp crashes on a model,
//! only that process ends, and the crash becomes a diagnostic. The process runs the same program,
//! computes a step with a small context and ends.
//!
//! The library cannot know whether its program may be started again. A program that allows it calls
//! [`answer`] first in its `main`, and [`begin`] before models are loaded. Otherwise models are
//! loaded without a trial.

use std::collections::HashSet;
use std::env;
use std::io::{self, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::child;
use crate::lock::lock;
use crate::memory_budget;
use crate::model::files::{FileState, ModelFiles};
use crate::protocol::LoadError;
use crate::settings::{EmbeddingSpec, LlmEngineSpec, TRIAL_VARIABLE, is_trial};

/// Prefix of the output line with the verdict.
pub(super) const VERDICT: &str = "graphmill trial: ";
/// Maximum duration of a trial: half a minute, plus the time of a disk that reads 20 MB per second.
const PATIENCE: Duration = Duration::from_secs(30);
const BYTES_PER_SECOND: u64 = 20_000_000;
/// Size of the end of the process's output that is kept, in bytes. The cause comes last.
const KEPT_BYTES: usize = 16 << 10;
/// Number of lines that a diagnostic quotes.
const QUOTED_LINES: usize = 3;

/// True if models are tried.
static IS_ENABLED: AtomicBool = AtomicBool::new(false);

/// Successful trials. There is an entry for each model, file and set of options that this process
/// has loaded.
static PASSED: LazyLock<Mutex<HashSet<TrialKey>>> = LazyLock::new(Mutex::default);

#[derive(PartialEq, Eq, Hash)]
struct TrialKey {
    task: Task,
    files: Vec<FileState>,
}

/// The subject of a trial.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum Task {
    Generates(LlmEngineSpec),
    Embeds(EmbeddingSpec),
    /// A file in one of the formats of [`FileTrial`].
    Reads {
        format: String,
        path: PathBuf,
    },
}

/// A format of model files that this crate does not know, by its name, and a function that tries
/// such a file. Its error says what is wrong with the file.
pub type FileTrial = (&'static str, fn(&Path) -> Result<(), String>);

/// Checks of a model that the program adds to those of this crate.
#[derive(Clone, Copy, Debug)]
pub struct Knowledge {
    /// File formats of the program, in addition to those of this crate.
    pub formats: &'static [FileTrial],
    /// Compiles and renders a chat template; the result is ignored.
    pub try_template: fn(&str),
}

/// The task of the process, sent to its standard input.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TrialOrder {
    pub(super) task: Task,
    /// Number of bytes that it may allocate; `None` for no limit.
    pub(super) memory: Option<u64>,
}

/// Outcome of a trial, if the process lived to report it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Verdict {
    Good,
    /// The model cannot be used.
    Refused {
        path: PathBuf,
        message: String,
    },
    /// Something other than the model is wrong; loading will report it, too.
    Elsewhere,
}

/// Enables trials before models are loaded. The program must call [`answer`] when it starts.
pub fn begin() {
    IS_ENABLED.store(true, Ordering::Relaxed);
}

/// Runs the trial and ends, if this process was started for one. Must be called first in `main`.
pub fn answer(knowledge: Knowledge) {
    if env::var_os(TRIAL_VARIABLE).is_some() {
        child::answer(knowledge);
    }
}

/// Tries a file of one of the formats in the [`Knowledge`] passed to [`answer`].
///
/// # Errors
/// [`LoadError::Model`] for a file that cannot be used, [`LoadError::Read`] for one that cannot be
/// examined.
pub fn try_file(format: &str, path: &Path) -> Result<(), LoadError> {
    let files = ModelFiles::read([path])?;
    let task = || Task::Reads {
        format: format.to_owned(),
        path: path.to_owned(),
    };
    try_task(task, path, &files)
}

/// Tries `model` and its other files, unless trials are off or these files were tried before.
///
/// # Errors
/// [`LoadError::Model`] for a model that cannot be loaded or does not compute.
pub(super) fn try_task(
    task: impl FnOnce() -> Task,
    model: &Path,
    files: &ModelFiles,
) -> Result<(), LoadError> {
    if !IS_ENABLED.load(Ordering::Relaxed) || is_trial() {
        return Ok(());
    }
    let tried = TrialKey {
        task: task(),
        files: files.files.clone(),
    };
    if lock(&PASSED).contains(&tried) {
        return Ok(());
    }
    let patience = PATIENCE + Duration::from_secs(files.bytes() / BYTES_PER_SECOND);
    let order = TrialOrder {
        task: tried.task.clone(),
        memory: memory(),
    };
    let mut ended = run(&order, model, patience);
    if ended.as_ref().is_ok_and(ProcessEnd::was_signaled) {
        // The signal says nothing about the model.
        ended = run(&order, model, patience);
    }
    let ended = match ended {
        Ok(ended) => ended,
        Err(error) => {
            tracing::warn!(model = %model.display(), %error, "the model is loaded without a trial: no process could be started");
            return Ok(());
        }
    };
    match ended.verdict {
        Some(Verdict::Good) => {
            lock(&PASSED).insert(tried);
            Ok(())
        }
        Some(Verdict::Elsewhere) => Ok(()),
        Some(Verdict::Refused { path, message }) => Err(LoadError::Model { path, message }),
        None => {
            let message = why(ended.status, &ended.output_end, patience);
            Err(LoadError::model(model, message))
        }
    }
}

/// Returns the memory limit of a trial in bytes: most of the available memory, so that a model that
/// needs more than the machine has ends the trial.
fn memory() -> Option<u64> {
    /// Minimum limit in bytes; a trial with less would fail for lack of memory.
    const LEAST: u64 = 512 << 20;
    memory_budget::available_bytes().map(|available| (available / 4 * 3).max(LEAST))
}

/// Observations about a process that has ended.
struct ProcessEnd {
    verdict: Option<Verdict>,
    /// `None` if it was killed because it took too long.
    status: Option<ExitStatus>,
    output_end: String,
}

impl ProcessEnd {
    /// Returns true if a signal ended the process. A signal to the server's group can reach a new
    /// process before it leaves the group.
    fn was_signaled(&self) -> bool {
        const HANGUP_INTERRUPT_QUIT_TERMINATE: [i32; 4] = [1, 2, 3, 15];
        let signal = self.status.and_then(|status| status.signal());
        signal.is_some_and(|signal| HANGUP_INTERRUPT_QUIT_TERMINATE.contains(&signal))
    }
}

/// Runs a process for a trial and waits for its end.
fn run(order: &TrialOrder, model: &Path, patience: Duration) -> io::Result<ProcessEnd> {
    let mut order = serde_json::to_vec(order)?;
    order.push(b'\n');
    let (output, input) = io::pipe()?;
    let mut command = Command::new(this_program()?);
    command
        .args([Path::new("try_model"), model])
        .env(TRIAL_VARIABLE, "1")
        // A trial computes on CPUs. It uses no memory of GPUs, and no time to initialize them.
        .env("CUDA_VISIBLE_DEVICES", "-1")
        .env("HIP_VISIBLE_DEVICES", "-1")
        .env("GGML_VK_VISIBLE_DEVICES", "")
        .env("GGML_NO_BACKTRACE", "1")
        // A signal to the server's group stops the server but not the trial, because the server may
        // finish its load while it ends.
        .process_group(0)
        // Waiting threads sleep, so that they do not keep processors from threads that compute.
        .env("GOMP_SPINCOUNT", "1000")
        .stdin(Stdio::piped())
        .stdout(input.try_clone()?)
        .stderr(input);
    let mut process = Process(command.spawn()?);
    // The command also holds this end of the pipe, which would then never close.
    drop(command);
    let mut stdin = process.0.stdin.take();
    let (sender, ended) = crossbeam_channel::bounded(1);
    let reader = thread::Builder::new().name("trial".to_owned());
    reader.spawn(move || {
        sender.send(last_of(output)).ok(); // nobody waits any more after a timeout
    })?;
    if let Some(stdin) = &mut stdin {
        // If the process ends before it reads, its output says why.
        stdin.write_all(&order).ok();
    }
    let mut output_end = ended.recv_timeout(patience);
    let in_time = output_end.is_ok();
    if !in_time {
        process.0.kill()?;
        output_end = ended.recv_timeout(Duration::from_secs(1));
    }
    let output_end: String = output_end.unwrap_or_default();
    // The process ends when it cannot read any more.
    drop(stdin);
    let status = process.0.wait()?;
    let verdict = output_end
        .lines()
        .rev()
        .find_map(|line| serde_json::from_str(line.strip_prefix(VERDICT)?).ok());
    Ok(ProcessEnd {
        verdict: verdict.filter(|_| in_time && status.success()),
        status: in_time.then_some(status),
        output_end,
    })
}

/// Returns the path of this program, even if its file was replaced since the start.
pub fn this_program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") {
        Ok("/proc/self/exe".into())
    } else {
        env::current_exe()
    }
}

/// A child process that is killed when this value is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended already, unless something went wrong here.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Reads to the end, and returns the last part of the output.
fn last_of(mut output: impl io::Read) -> String {
    let (mut kept, mut read) = (Vec::new(), [0; 4 << 10]);
    while let Ok(count @ 1..) = output.read(&mut read) {
        kept.extend_from_slice(&read[..count]);
        let over = kept.len().saturating_sub(KEPT_BYTES);
        kept.drain(..over);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

/// Describes the end of a process that reported no verdict.
fn why(status: Option<ExitStatus>, output_end: &str, patience: Duration) -> String {
    let ended = match status {
        None => format!("did not finish within {} s", patience.as_secs()),
        Some(status) => format!("ended with {status}"),
    };
    let mut lines: Vec<&str> = output_end
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with(VERDICT))
        .collect();
    lines.drain(..lines.len().saturating_sub(QUOTED_LINES));
    if lines.is_empty() {
        format!("the process that tried it {ended}")
    } else {
        format!("the process that tried it {ended}: {}", lines.join("; "))
    }
}
