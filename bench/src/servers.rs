//! The servers under load: started here or already running, and the resources of their processes.

use std::{
    env,
    fs::{self, File},
    io,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use reqwest::Client;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tempfile::TempDir;

/// The longest that a server may take to load its model.
const READY_WITHIN: Duration = Duration::from_mins(5);
/// Ticks a second of the times in `/proc`: fixed for programs, whatever the kernel itself counts
/// in.
const TICKS: f64 = 100.0;
/// The name that our server knows the model by.
pub(crate) const MODEL: &str = "bench";

/// A way to a server.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// Ours, beside this program, is started with options of its LLM node, as in a graph file.
    Own {
        model: PathBuf,
        node_options: String,
    },
    /// Another is started by a command line in which `{model}` and `{port}` stand for what they say,
    /// and is ready when a path answers with success.
    Command {
        line: String,
        model: PathBuf,
        ready_path: String,
    },
    /// It runs already; its process is known if it is on this machine.
    Running { url: String, process: Option<u32> },
}

/// A server that can be asked.
pub(crate) struct BenchServer {
    /// Name of the server in results.
    pub(crate) name: String,
    /// The address that requests go below, such as `http://127.0.0.1:8000/v1`.
    pub(crate) base_url: String,
    /// Time from its start until it was ready, if it was started here.
    pub(crate) ready_after: Option<Duration>,
    process: Option<u32>,
    child: Option<Child>,
    /// Its files, which go with it.
    _folder: Option<TempDir>,
}

impl Origin {
    /// Starts the server, if it does not run, and waits until it is ready. Fails if it cannot be
    /// started or ends before.
    pub(crate) async fn open(&self, client: &Client) -> io::Result<BenchServer> {
        let folder = tempfile::tempdir()?;
        match self {
            Self::Own {
                model,
                node_options,
            } => {
                let graph = graph(&found(model)?, node_options);
                fs::write(folder.path().join("graph.pbtxt"), graph)?;
                let config = json!({
                    "model_config_list": [],
                    "mediapipe_config_list": [{"name": MODEL, "base_path": folder.path()}],
                });
                let config_path = folder.path().join("config.json");
                fs::write(&config_path, config.to_string())?;
                let mut command = Command::new(env::current_exe()?.with_file_name("graphmill"));
                command.arg("serve").arg("--config_path").arg(config_path);
                // It prints the address that it gets.
                command.args(["--rest_bind_address", "127.0.0.1", "--rest_port", "0"]);
                let ready_path = "/v2/health/ready";
                start("graphmill", command, None, folder, ready_path, client).await
            }
            Self::Command {
                line,
                model,
                ready_path,
            } => {
                // The port was free just before.
                let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
                let line = line
                    .replace("{model}", &found(model)?.display().to_string())
                    .replace("{port}", &port.to_string());
                let mut shell = Command::new("sh");
                // `exec`: the process that is measured and ended is the server, not the shell.
                shell.arg("-c").arg(format!("exec {line}"));
                let address = Some(format!("http://127.0.0.1:{port}"));
                start("peer", shell, address, folder, ready_path, client).await
            }
            Self::Running { url, process } => Ok(BenchServer {
                name: url.clone(),
                base_url: url.trim_end_matches('/').to_owned(),
                ready_after: None,
                process: *process,
                child: None,
                _folder: None,
            }),
        }
    }
}

/// Starts a server at an address, or at the one that it prints.
async fn start(
    name: &str,
    mut command: Command,
    mut address: Option<String>,
    folder: TempDir,
    ready_path: &str,
    client: &Client,
) -> io::Result<BenchServer> {
    let log_path = folder.path().join("log");
    let log = File::create(&log_path)?;
    let begun = Instant::now();
    let child = command
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()?;
    let mut server = BenchServer {
        name: name.to_owned(),
        base_url: String::new(),
        ready_after: None,
        process: Some(child.id()),
        child: Some(child),
        _folder: Some(folder),
    };
    loop {
        let log = fs::read_to_string(&log_path).unwrap_or_default();
        let ended = server.child.as_mut().map(Child::try_wait);
        let ended = ended.transpose()?.flatten().is_some();
        if ended || begun.elapsed() > READY_WITHIN {
            let lines: Vec<&str> = log.lines().collect();
            let last = lines[lines.len().saturating_sub(20)..].join("\n");
            let what = if ended {
                "ended"
            } else {
                "was not ready in time"
            };
            return Err(io::Error::other(format!("the server {what}:\n{last}")));
        }
        address = address.or_else(|| printed_address(&log));
        if let Some(address) = &address {
            let answer = client.get(format!("{address}{ready_path}")).send().await;
            if answer.is_ok_and(|answer| answer.status().is_success()) {
                server.base_url = format!("{address}/v1");
                server.ready_after = Some(begun.elapsed());
                return Ok(server);
            }
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

impl BenchServer {
    /// Makes the server stand still until it is told to go on, if its process is known. Fails if its
    /// process is not there any more.
    pub(crate) fn pause(&self) -> io::Result<()> {
        self.send(Signal::STOP)
    }

    /// Has the server go on.
    pub(crate) fn resume(&self) -> io::Result<()> {
        self.send(Signal::CONT)
    }

    fn send(&self, signal: Signal) -> io::Result<()> {
        let process = self.process.and_then(|id| Pid::from_raw(id as i32));
        process.map_or(Ok(()), |process| Ok(kill_process(process, signal)?))
    }

    /// Processor seconds that the server has taken since its start; `None` if its process is not
    /// known.
    pub(crate) fn processor_seconds(&self) -> Option<f64> {
        processor_seconds(&self.process?.to_string())
    }

    /// The most memory that the server has had, in MiB; `None` if its process is not known.
    pub(crate) fn peak_mib(&self) -> Option<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process?)).ok()?;
        let mut lines = status.lines();
        let line = lines.find_map(|line| line.strip_prefix("VmHWM:"))?;
        let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib / 1024.0)
    }
}

impl Drop for BenchServer {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It may have ended by itself.
            child.kill().ok();
            child.wait().ok();
        }
    }
}

/// Processor seconds that a process has taken since its start; `self` is this one.
pub(crate) fn processor_seconds(process: &str) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    ticks(&stat).map(|ticks| ticks / TICKS)
}

/// User and system time in the text of `/proc/PID/stat`.
fn ticks(stat: &str) -> Option<f64> {
    // The second field is the program's name in parentheses, which may have spaces and parentheses
    // in it.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some(number(11)? + number(12)?)
}

/// The absolute path of a model's file.
fn found(model: &Path) -> io::Result<PathBuf> {
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("`{}`: {error}", model.display()));
    model.canonicalize().map_err(named)
}

/// The line of what a server has printed that is an address. The last line may not be complete.
fn printed_address(log: &str) -> Option<String> {
    let mut lines = log.split_inclusive('\n');
    let address = lines.find(|line| line.starts_with("http://") && line.ends_with('\n'))?;
    Some(address.trim_end().to_owned())
}

/// The graph of one LLM node.
fn graph(model: &Path, node_options: &str) -> String {
    let model = json!(model.display().to_string());
    format!(
        r#"input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {{
  name: "LLMExecutor"
  calculator: "HttpLLMCalculator"
  input_stream: "LOOPBACK:loopback"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  input_side_packet: "LLM_NODE_RESOURCES:llm"
  output_stream: "LOOPBACK:loopback"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
  input_stream_info {{ tag_index: "LOOPBACK:0" back_edge: true }}
  node_options {{
    [type.googleapis.com/mediapipe.LLMCalculatorOptions] {{ models_path: {model} {node_options} }}
  }}
  input_stream_handler {{
    input_stream_handler: "SyncSetInputStreamHandler"
    options {{ [mediapipe.SyncSetInputStreamHandlerOptions.ext] {{ sync_set {{ tag_index: "LOOPBACK:0" }} }} }}
  }}
}}
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_behind_a_name_with_anything_in_it() {
        let stat = "7 (a ) b) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0";
        assert_eq!(ticks(stat), Some(300.0));
        assert_eq!(ticks("7 (a) S 1"), None);
    }
}
