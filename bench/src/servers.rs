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

/// Maximum time for a server to load its model.
const READY_WITHIN: Duration = Duration::from_mins(5);
/// Ticks per second of the times in `/proc`. Programs see this value whatever rate the kernel uses.
const TICKS: f64 = 100.0;
/// Name of the model on a Graphmill server that is started here.
pub(crate) const MODEL: &str = "bench";

/// The origin of a server: started here, or already running.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// The `graphmill` program next to this one, started here. `node_options` are options of its
    /// LLM node, as in a graph file.
    Own {
        model: PathBuf,
        node_options: String,
    },
    /// Another server, started here by a shell command. `{model}` and `{port}` in it are replaced.
    /// The server is ready when `ready_path` answers with success.
    Command {
        line: String,
        model: PathBuf,
        ready_path: String,
    },
    /// A server that already runs. `process` can be given if it is on this machine.
    Running { url: String, process: Option<u32> },
}

/// A server to send requests to.
pub(crate) struct BenchServer {
    /// Name of the server in results.
    pub(crate) name: String,
    /// Base URL of requests, such as `http://127.0.0.1:8000/v1`.
    pub(crate) base_url: String,
    /// Time from its start until it was ready, if it was started here.
    pub(crate) ready_after: Option<Duration>,
    process: Option<u32>,
    child: Option<Child>,
    /// Folder of the server's files, deleted with this value.
    _folder: Option<TempDir>,
}

impl Origin {
    /// Starts the server and waits until it is ready. Uses a running server as it is. Fails if the
    /// server cannot be started, ends early, or is not ready in time.
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
                // With port 0 the system chooses the port, and the server prints its address.
                command.args(["--rest_bind_address", "127.0.0.1", "--rest_port", "0"]);
                let ready_path = "/v2/health/ready";
                start("graphmill", command, None, folder, ready_path, client).await
            }
            Self::Command {
                line,
                model,
                ready_path,
            } => {
                // The port is free now. Nothing reserves it until the server listens.
                let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
                let line = line
                    .replace("{model}", &found(model)?.display().to_string())
                    .replace("{port}", &port.to_string());
                let mut shell = Command::new("sh");
                // With `exec`, the process that is measured and killed is the server, not the
                // shell.
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

/// Starts a server. Without an `address`, the server prints it.
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
    /// Suspends the server's process until [`resume`](Self::resume). Does nothing if the process is
    /// not known; fails if it has ended.
    pub(crate) fn pause(&self) -> io::Result<()> {
        self.send(Signal::STOP)
    }

    /// Continues a suspended server.
    pub(crate) fn resume(&self) -> io::Result<()> {
        self.send(Signal::CONT)
    }

    fn send(&self, signal: Signal) -> io::Result<()> {
        let process = self.process.and_then(|id| Pid::from_raw(id as i32));
        process.map_or(Ok(()), |process| Ok(kill_process(process, signal)?))
    }

    /// CPU seconds that the server has used since its start; `None` if its process is not known or
    /// has ended.
    pub(crate) fn processor_seconds(&self) -> Option<f64> {
        processor_seconds(&self.process?.to_string())
    }

    /// Peak resident memory of the server, in MiB; `None` if its process is not known or has ended.
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

/// CPU seconds that a process has used since its start. `process` is its id, or `self` for this
/// process.
pub(crate) fn processor_seconds(process: &str) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    ticks(&stat).map(|ticks| ticks / TICKS)
}

/// Sum of the user and system time in the text of `/proc/PID/stat`, in ticks.
fn ticks(stat: &str) -> Option<f64> {
    // The second field is the program's name in parentheses. The name itself may contain spaces and
    // parentheses.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some(number(11)? + number(12)?)
}

/// Returns the absolute path of a model's file.
fn found(model: &Path) -> io::Result<PathBuf> {
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("`{}`: {error}", model.display()));
    model.canonicalize().map_err(named)
}

/// Returns the first line of a log that is an address. The last line may be incomplete.
fn printed_address(log: &str) -> Option<String> {
    let mut lines = log.split_inclusive('\n');
    let address = lines.find(|line| line.starts_with("http://") && line.ends_with('\n'))?;
    Some(address.trim_end().to_owned())
}

/// Returns the text of a graph with one LLM node.
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
