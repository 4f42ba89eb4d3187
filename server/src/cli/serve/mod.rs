//! `graphmill serve`: runs the server.

mod accepted;
pub(super) mod environment;
mod loading;
pub(super) mod properties;
mod property_keys;
mod repository;
mod run;
mod sequences;
mod sources;

use std::{
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::{
    ArgAction, ArgMatches, Args, CommandFactory as _, builder::NonEmptyStringValueParser,
    parser::ValueSource, value_parser,
};
use graphmill_llm::{backend, trial};

use super::{
    Cli, Switch,
    access::Access,
    ending, heading,
    listening::Listening,
    report, runtime,
    source::{ModelFlags, SamplingFlags, ServeSource},
    telemetry::Telemetry,
};
use crate::{
    app::state::Options,
    http::media::MediaHost,
    telemetry::log::{self, Level, LogFormat},
};
use run::{THREADS_GRACE, serve};

#[derive(Debug, Args)]
#[command(rename_all = "snake_case", after_help = EXAMPLES)]
pub(super) struct ServeArguments {
    #[command(flatten)]
    sources: sources::Sources,
    /// Port of the REST API; 0 picks a free one and prints the address on standard output.
    #[arg(help_heading = heading::NETWORK, long, alias = "http_port", value_name = "PORT", default_value_t = DEFAULT_PORT, value_parser = value_parser!(u16))]
    pub(super) rest_port: u16,
    #[command(flatten)]
    listening: Listening,
    #[command(flatten)]
    access: Access,
    /// Port of the gRPC API: KServe's protocol and TorchServe's services. The REST API has
    /// `--rest_port`. Off by default and with 0.
    #[arg(help_heading = heading::NETWORK, long, alias = "grpc_port", value_name = "PORT")]
    pub(super) port: Option<u16>,
    /// Lowest level that is logged: TRACE, DEBUG, INFO, WARNING or ERROR.
    #[arg(help_heading = heading::OBSERVABILITY, long, value_name = "LEVEL", default_value = "INFO")]
    log_level: Level,
    /// Format of the log: `text` for people, `json` for programs (one object a line).
    #[arg(help_heading = heading::OBSERVABILITY, long, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,
    /// File that the log is appended to, instead of standard error.
    ///
    /// SIGUSR1 opens the file again, for programs that rotate logs.
    #[arg(help_heading = heading::OBSERVABILITY, long, alias = "log_file", value_name = "FILE")]
    log_path: Option<PathBuf>,
    /// Seconds to keep serving after SIGTERM while reporting not ready, so that load balancers
    /// notice.
    #[arg(help_heading = heading::LIFECYCLE, long, value_name = "SECONDS", default_value_t = 0)]
    drain_delay_seconds: u32,
    /// Seconds that running requests may take to end when the server stops, after the drain delay.
    #[arg(help_heading = heading::LIFECYCLE, long, alias = "exit_timeout_secs", value_name = "SECONDS", default_value_t = 5)]
    shutdown_grace_seconds: u32,
    /// Loads each model first in a separate process, as a trial, so that a damaged file makes only
    /// its own graph fail, not the server.
    #[arg(help_heading = heading::LIFECYCLE, long, value_name = "SWITCH", default_value = "on")]
    model_trial: Switch,
    /// Seconds between two checks for changed files, where the system does not report changes; 0
    /// reloads only on request.
    #[arg(help_heading = heading::LIFECYCLE, long, alias = "repository_poll_secs", value_name = "SECONDS", default_value_t = 5)]
    file_system_poll_wait_seconds: u32,
    /// Text that is appended to answers of `/predictions`, such as `<|endoftext|>`. With it,
    /// answers are streamed unless a request has `stream=false`.
    #[arg(help_heading = heading::NETWORK, long, value_name = "TOKEN", value_parser = NonEmptyStringValueParser::new())]
    end_of_stream_token: Option<String>,
    /// Maximum size of a request body: bytes, or a number followed by KiB, MiB or GiB.
    #[arg(help_heading = heading::LIMITS, long, value_name = "SIZE", default_value = "8MiB", value_parser = size)]
    max_body_bytes: usize,
    /// Maximum size of all request bodies in memory. A request whose body does not fit gets status
    /// 503.
    #[arg(help_heading = heading::LIMITS, long, value_name = "SIZE", default_value = "64MiB", value_parser = size)]
    max_bodies_bytes: usize,
    /// Maximum size of an answer of TorchServe's API (`/predictions`) that is not a stream
    /// [default: no limit].
    #[arg(help_heading = heading::LIMITS, long, value_name = "SIZE", value_parser = size)]
    max_response_bytes: Option<usize>,
    /// Hosts that images of requests may be fetched from, separated by commas:
    /// `images.example.com`, followed by the port if it is not the usual one.
    ///
    /// Names must resolve to public addresses; IP addresses may be private. Without the flag,
    /// requests must contain their images.
    #[arg(help_heading = heading::SECURITY, long, value_name = "HOST", value_delimiter = ',')]
    allowed_media_domains: Vec<MediaHost>,
    /// Folder of images that requests may refer to by path, `/images/a.png` or
    /// `file:///images/a.png`.
    ///
    /// Every client can then have the server describe the images in it.
    #[arg(help_heading = heading::SECURITY, long, value_name = "FOLDER", value_parser = folder)]
    allowed_local_media_path: Option<PathBuf>,
    /// Keeps running when no graph can be served, and loads graphs once their missing models
    /// appear.
    ///
    /// Without it, a server that has nothing to serve exits with status 1.
    #[arg(help_heading = heading::LIFECYCLE, long)]
    wait_for_models: bool,
    /// Turns off the web page at `/`.
    #[arg(help_heading = heading::NETWORK, long, aliases = ["no_webui", "no_ui"])]
    no_web: bool,
    /// Lets operators write graph files: `PUT /v3/graphs/<name>/file`.
    #[arg(help_heading = heading::SECURITY, long)]
    allow_graph_edits: bool,
    /// Lets a request contain its own chat template: `chat_template`.
    ///
    /// A template is a program. Its memory and its number of steps are limited, but steps differ in
    /// cost: some templates can keep a thread busy for longer than a prompt does. Use this only
    /// with clients that you trust.
    #[arg(help_heading = heading::SECURITY, long)]
    trust_request_chat_template: bool,
    /// Lets operators register folders in this folder as graphs, and unregister graphs:
    /// `POST /models` and `DELETE /models/<name>` of TorchServe's API. Changes are written to the
    /// config.json.
    #[arg(help_heading = heading::SECURITY, long, value_name = "FOLDER")]
    allow_registration: Option<PathBuf>,
    /// Folder from which operators may load LoRA adapters while the server runs:
    /// `POST /v1/load_lora_adapter`.
    #[arg(help_heading = heading::SECURITY, long, value_name = "FOLDER", value_parser = folder)]
    runtime_lora: Option<PathBuf>,
    /// Serves `/metrics`; `false` turns it off.
    #[arg(help_heading = heading::OBSERVABILITY, long, alias = "allow_metrics", value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, default_value = "true", default_missing_value = "true")]
    enable_metrics_api: bool,
    #[command(flatten)]
    sequences: sequences::SequenceFlags,
    #[command(flatten)]
    loading: loading::Loading,
    #[command(flatten)]
    telemetry: Telemetry,
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    sampling: SamplingFlags,
    #[command(flatten)]
    editing: repository::Editing,
    #[command(flatten)]
    accepted: accepted::ForeignFlags,
    /// Lists the flags of other servers that are accepted without effect, such as OpenVINO Model
    /// Server, TorchServe and Triton.
    #[arg(long, help_heading = heading::EDITING)]
    help_ovms: bool,
}

const EXAMPLES: &str = "Examples:
  graphmill serve model.gguf
  graphmill serve org/repo:Q4_K_M
  graphmill serve graphs/chat --model_name chat --rest_port 9000 --port 9001
  graphmill serve --config_path config.json --rest_bind_address 0.0.0.0 --api_key_file keys.json
  graphmill serve --models_dir ~/models --models_max 2
  graphmill serve model.gguf --emit_graph > graph.pbtxt
  graphmill serve -m model.gguf -c 8192 -np 4 -ngl all     (flags of llama-server)

Each flag can be set by a variable, such as GRAPHMILL_REST_PORT for --rest_port. Flags can be
written with dashes. `--help_ovms` lists flags of other servers that have no effect.";

/// Port that all documents use.
const DEFAULT_PORT: u16 = 8000;

/// Reads the path of a folder, and resolves its symbolic links.
fn folder(text: &str) -> Result<PathBuf, String> {
    let folder = PathBuf::from(text).canonicalize();
    let folder = folder.ok().filter(|it| it.is_dir());
    folder.ok_or_else(|| "expected an existing folder".to_owned())
}

/// Reads a number of bytes such as `8388608` or `8MiB`.
fn size(text: &str) -> Result<usize, String> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let unit = match text[digits.len()..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => Some(0),
        "k" | "kib" => Some(10),
        "m" | "mib" => Some(20),
        "g" | "gib" => Some(30),
        _ => None,
    };
    let number = unit.zip(digits.parse::<usize>().ok());
    let (unit, number) = number.ok_or("expected a number of bytes, such as 8388608 or 8MiB")?;
    number
        .checked_mul(1 << unit)
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| "expected a number of bytes above 0 that fits into 64 bits".to_owned())
}

/// Starts the server and runs it to its end, or does what a flag demands instead. `warnings` are
/// about settings outside of the command line. Diagnostics have been printed before it returns.
pub(super) fn run(
    arguments: &ServeArguments,
    given: &ArgMatches,
    warnings: &[String],
) -> Result<ExitCode, String> {
    if arguments.help_ovms {
        return report::print(&accepted::listed());
    }
    if let Some(done) = arguments.editing.run(&arguments.sources) {
        return done.map(|()| ExitCode::SUCCESS);
    }
    let started = Instant::now();
    if let Some(message) = arguments.accepted.refusal() {
        return Err(message);
    }
    ending::prepare().map_err(|error| format!("cannot listen for signals: {error}"))?;
    let log_path = arguments.log_path.as_deref();
    log::start(arguments.log_level, arguments.log_format, log_path)?;
    // A misspelled variable may be the reason why there is nothing to serve.
    environment::warn(&Cli::command(), given);
    let source = arguments.sources.resolve(given)?;
    if arguments.sources.pull {
        return sources::Sources::pulled(&source);
    }
    let mut flags = arguments.model.clone();
    flags.sampling = arguments.sampling.clone();
    if arguments.sources.emit_graph {
        let Some(graph) = arguments.sources.emitted(&source, &flags)? else {
            return Ok(ExitCode::FAILURE);
        };
        return report::print(&graph);
    }
    let mut config = arguments.loading.rolled_back(&source)?;
    if config.is_none() {
        config = arguments.sources.configuration(&source, &flags)?;
    }
    let Some(config) = config else {
        return Ok(ExitCode::FAILURE);
    };
    let may_be_empty = arguments.wait_for_models || matches!(source, ServeSource::Models(_));
    if config.graphs.is_empty() && !may_be_empty {
        return Err(format!(
            "there is nothing to serve: {source} lists no graph (--wait_for_models runs anyway)"
        ));
    }
    if arguments.max_bodies_bytes < arguments.max_body_bytes {
        return Err("--max_bodies_bytes is less than --max_body_bytes".to_owned());
    }
    tracing::info!("Graphmill {} serves {source}", env!("CARGO_PKG_VERSION"));
    arguments.accepted.warn();
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    if arguments.model_trial == Switch::On {
        trial::begin();
    }
    let mut options = Options {
        traces: arguments.telemetry.traces()?,
        drain_delay: Duration::from_secs(arguments.drain_delay_seconds.into()),
        grace: Duration::from_secs(arguments.shutdown_grace_seconds.into()),
        max_body_bytes: arguments.max_body_bytes,
        max_bodies_bytes: arguments.max_bodies_bytes,
        web: !arguments.no_web,
        serves_metrics: arguments.enable_metrics_api,
        max_response_bytes: arguments.max_response_bytes,
        end_of_stream_token: arguments.end_of_stream_token.clone(),
        graph_edits: arguments.allow_graph_edits,
        trust_request_chat_template: arguments.trust_request_chat_template,
        registration: arguments.allow_registration.clone(),
        runtime_lora: arguments.runtime_lora.clone(),
        media_hosts: arguments.allowed_media_domains.clone(),
        media_folder: arguments.allowed_local_media_path.clone(),
        wait_for_models: arguments.wait_for_models,
        poll: Duration::from_secs(arguments.file_system_poll_wait_seconds.into()),
        ..Options::new(config, ([127, 0, 0, 1], 0).into())
    };
    let rest_port = arguments.rest_port;
    let listening = &arguments.listening;
    listening.apply(rest_port, arguments.port, &mut options)?;
    let is_default = given.value_source("rest_port") == Some(ValueSource::DefaultValue);
    if is_default && !options.grpc.is_empty() {
        tracing::info!(
            "`--port` is the port of gRPC; REST is at {rest_port}, and `--rest_port` chooses another"
        );
    }
    arguments.access.apply(&mut options)?;
    arguments.sources.apply(&source, &mut options)?;
    arguments.loading.apply(&mut options);
    arguments.sequences.apply(&mut options);
    let runtime = runtime()?;
    let prints_address = rest_port == 0;
    let ended = runtime.block_on(serve(options, started, prints_address));
    // Work that is still running does not keep the process alive.
    runtime.shutdown_timeout(THREADS_GRACE);
    if let Err(message) = &ended {
        report::error(message);
    }
    log::flush();
    backend::exit(ended.is_err().into())
}
