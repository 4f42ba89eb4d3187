//! The servers under load: started here or already running, and the resources of their processes.

use std::{
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
pub const MODEL: &str = "bench";

/// A server that can be asked.
pub struct Server {
    /// What it is called in results.
    pub name: String,
    /// Its address up to the port.
    pub address: String,
    /// The address that requests go below, such as `http://127.0.0.1:8000/v1`.
    pub base_url: String,
    /// How long it took from its start until it was ready, if it was started here.
    pub ready_after: Option<Duration>,
    process: Option<u32>,
    child: Option<Child>,
    /// Its files, which go with it.
    folder: Option<TempDir>,
}

impl Server {
    /// A server that runs already; `process` is its id if it is on this machine.
    pub fn at(base_url: &str, process: Option<u32>) -> Self {
        let base_url = base_url.trim_end_matches('/').to_owned();
        let scheme = base_url.find("://").map_or(0, |at| at + 3);
        let end = base_url[scheme..]
            .find('/')
            .map_or(base_url.len(), |at| scheme + at);
        Self {
            name: base_url.clone(),
            address: base_url[..end].to_owned(),
            base_url,
            ready_after: None,
            process,
            child: None,
            folder: None,
        }
    }

    /// Starts our server, `program`, with one graph for a model, and waits until it is ready.
    /// `node_options` are further options of the LLM node, as in a graph file.
    ///
    /// # Errors
    ///
    /// If it cannot be started or ends before it is ready.
    pub async fn own(
        program: &Path,
        model: &Path,
        node_options: &str,
        client: &Client,
    ) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let model = found(model)?;
        fs::write(
            folder.path().join("graph.pbtxt"),
            graph(&model, node_options),
        )?;
        let config = json!({
            "model_config_list": [],
            "mediapipe_config_list": [{"name": MODEL, "base_path": folder.path()}],
        });
        let config_path = folder.path().join("config.json");
        fs::write(&config_path, config.to_string())?;
        let mut command = Command::new(program);
        command.arg("serve").arg("--config_path").arg(config_path);
        // It prints the address that it gets.
        command.args(["--rest_bind_address", "127.0.0.1", "--rest_port", "0"]);
        let mut server = Self::start(command, None, folder, "/v2/health/ready", client).await?;
        "graphmill".clone_into(&mut server.name);
        Ok(server)
    }

    /// Starts a server by a command line in which `{model}` and `{port}` stand for what they say,
    /// and waits until `ready_path` answers with success. The port was free just before.
    ///
    /// # Errors
    ///
    /// If it cannot be started or ends before it is ready.
    pub async fn other(
        command: &str,
        model: &Path,
        ready_path: &str,
        client: &Client,
    ) -> io::Result<Self> {
        let port = free_port()?;
        let model = found(model)?;
        let line = command
            .replace("{model}", &model.display().to_string())
            .replace("{port}", &port.to_string());
        let mut shell = Command::new("sh");
        // `exec`: the process that is measured and ended is the server, not the shell.
        shell.arg("-c").arg(format!("exec {line}"));
        let mut server =
            Self::start(shell, Some(port), tempfile::tempdir()?, ready_path, client).await?;
        "peer".clone_into(&mut server.name);
        Ok(server)
    }

    async fn start(
        mut command: Command,
        port: Option<u16>,
        folder: TempDir,
        ready_path: &str,
        client: &Client,
    ) -> io::Result<Self> {
        let log_path = folder.path().join("log");
        let log = File::create(&log_path)?;
        let begun = Instant::now();
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        let mut address = port.map(|port| format!("http://127.0.0.1:{port}"));
        let mut server = Self::at("", Some(child.id()));
        server.child = Some(child);
        server.folder = Some(folder);
        while begun.elapsed() < READY_WITHIN {
            if server.has_ended()? {
                let log = fs::read_to_string(&log_path).unwrap_or_default();
                return Err(io::Error::other(format!(
                    "the server ended:\n{}",
                    tail(&log, 20)
                )));
            }
            address = address.or_else(|| printed_address(&log_path));
            if let Some(address) = &address {
                let answer = client.get(format!("{address}{ready_path}")).send().await;
                if answer.is_ok_and(|answer| answer.status().is_success()) {
                    server.base_url = format!("{address}/v1");
                    server.address.clone_from(address);
                    server.ready_after = Some(begun.elapsed());
                    return Ok(server);
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let log = fs::read_to_string(&log_path).unwrap_or_default();
        Err(io::Error::other(format!(
            "the server was not ready in time:\n{}",
            tail(&log, 20)
        )))
    }

    fn has_ended(&mut self) -> io::Result<bool> {
        match &mut self.child {
            Some(child) => Ok(child.try_wait()?.is_some()),
            None => Ok(false),
        }
    }

    /// Makes the server stand still until it is told to go on, if its process is known.
    ///
    /// # Errors
    ///
    /// If its process is not there any more.
    pub fn pause(&self) -> io::Result<()> {
        self.send(Signal::STOP)
    }

    /// Has the server go on.
    ///
    /// # Errors
    ///
    /// If its process is not there any more.
    pub fn resume(&self) -> io::Result<()> {
        self.send(Signal::CONT)
    }

    fn send(&self, signal: Signal) -> io::Result<()> {
        let process = self.process.and_then(|id| Pid::from_raw(id as i32));
        process.map_or(Ok(()), |process| Ok(kill_process(process, signal)?))
    }

    /// Processor seconds that the server has taken since its start; `None` if its process is not
    /// known.
    pub fn processor_seconds(&self) -> Option<f64> {
        processor_seconds(&self.process?.to_string())
    }

    /// The most memory that the server has had, in MiB; `None` if its process is not known.
    pub fn peak_mib(&self) -> Option<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process?)).ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))?;
        let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib / 1024.0)
    }

    /// KV cells in use now; `None` if the server has no such metric.
    pub async fn kv_cells(&self, client: &Client) -> Option<u64> {
        let answer = client
            .get(format!("{}/metrics", self.address))
            .send()
            .await
            .ok()?;
        kv_cells(&answer.text().await.ok()?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It may have ended by itself.
            child.kill().ok();
            child.wait().ok();
        }
    }
}

/// Processor seconds that this process has taken since its start.
pub fn own_processor_seconds() -> f64 {
    processor_seconds("self").unwrap_or_default()
}

/// Our server's binary, beside this program.
///
/// # Errors
///
/// If this program does not know where it is.
pub fn own_program() -> io::Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("graphmill"))
}

fn processor_seconds(process: &str) -> Option<f64> {
    ticks(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?).map(|ticks| ticks / TICKS)
}

/// User and system time in the text of `/proc/PID/stat`.
fn ticks(stat: &str) -> Option<f64> {
    // The second field is the program's name in parentheses, which may have spaces and parentheses
    // in it.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some(number(11)? + number(12)?)
}

/// The sum of the metrics in Prometheus' text format that count KV cells in use.
fn kv_cells(metrics: &str) -> Option<u64> {
    let values = metrics.lines().filter_map(|line| {
        let (name, value) = line.rsplit_once(' ')?;
        let name = name.split('{').next()?;
        let counts_cells = name.ends_with("kv_cells_used") || name.ends_with("kv_cache_tokens");
        counts_cells.then(|| value.parse::<f64>().ok())?
    });
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() as u64)
}

/// The absolute path of a model's file.
fn found(model: &Path) -> io::Result<PathBuf> {
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("`{}`: {error}", model.display()));
    model.canonicalize().map_err(named)
}

/// The line of what a server has printed that is an address.
fn printed_address(log: &Path) -> Option<String> {
    let printed = fs::read_to_string(log).ok()?;
    // The last line may not be complete.
    let mut lines = printed
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'));
    let address = lines.find(|line| line.starts_with("http://"))?;
    Some(address.trim_end().to_owned())
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
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
    fn addresses_end_before_the_path() {
        let server = Server::at("http://host:80/v1/", None);
        assert_eq!(
            (server.address.as_str(), server.base_url.as_str()),
            ("http://host:80", "http://host:80/v1")
        );
        assert_eq!(Server::at("http://host:80", None).address, "http://host:80");
    }

    #[test]
    fn processor_time_is_read_behind_a_name_with_anything_in_it() {
        let stat = "7 (a ) b) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0";
        assert_eq!(ticks(stat), Some(300.0));
        assert_eq!(ticks("7 (a) S 1"), None);
    }

    #[test]
    fn cells_are_summed_over_engines() {
        let metrics = "# HELP x kv_cells_used\nx_kv_cells_used{model=\"a b\"} 3\nx_kv_cells_used{model=\"c\"} 4\nother 9\n";
        assert_eq!(kv_cells(metrics), Some(7));
        assert_eq!(kv_cells("other 9\n"), None);
    }
}
