//! Flags of `OpenVINO` Model Server, TorchServe, Triton, TGI, OpenLLM, llama-server, vLLM, LMDeploy
//! and LightLLM that have no effect here. Each is accepted with a line in the log. Flags that would
//! have to change what is served are refused.

use std::sync::LazyLock;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, parser::ValueSource};

/// The number of values of a flag.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Alone,
    WithValue,
}

use Form::{Alone, WithValue};

const OF_GRPC: &str = "connections of gRPC have neither threads nor memory of their own: \
                       --max_connections and --max_bodies_bytes limit them";
const CLASSIC: &str = "it applies to classic OpenVINO models, which are not supported";
const IDLE_SEQUENCES: &str =
    "--sequence_idle_seconds limits the time of a sequence without a request";
const NO_SNAPSHOTS: &str = "the configuration alone decides what is served";
const KEYS: &str = "permissions are in the file of --api_key_file";
const LOG: &str = "use --log_level, --log_format and --log_path";
const GPUS: &str = "--target_device AUTO uses all GPUs, and split_mode in --plugin_config controls how they share a model";
const ONE_PROCESS: &str = "one process answers all requests and batches them";
const NO_CONVERSION: &str = "models are not converted: choose weights with `--quantization 4bit` or `8bit`, or with a \
                            name such as org/repo:Q8_0";

const NO_MACHINE: &str = "metrics of the machine are left to other programs";
const CONFIGURED: &str = "docs/guide/triton.md lists the required fields of config.pbtxt";
const BACKENDS: &str = "the backends for ONNX and GGUF models are built in";
const ADAPTERS: &str =
    "graphs list adapters (lora_adapters), and --runtime_lora allows loading others";
const POOLS: &str = "there are no memory pools";

/// Flags without effect, with the reason.
#[rustfmt::skip]
const WITHOUT_EFFECT: &[(&str, Form, &str)] = &[
    ("grpc_workers", WithValue, OF_GRPC),
    ("grpc_max_threads", WithValue, OF_GRPC),
    ("grpc_memory_quota", WithValue, OF_GRPC),
    ("grpc_channel_arguments", WithValue, OF_GRPC),
    (
        "rest_workers",
        WithValue,
        "connections have no threads of their own: --max_connections limits them",
    ),
    (
        "custom_node_resources_cleaner_interval_seconds",
        WithValue,
        "nodes keep no state that needs cleaning",
    ),
    (
        "cpu_extension",
        WithValue,
        "models are computed by llama.cpp",
    ),
    (
        "cache_dir",
        WithValue,
        "models are not compiled, so nothing is cached",
    ),
    (
        "metrics_enable",
        Alone,
        "/metrics is served unless --enable_metrics_api is false",
    ),
    (
        "metrics_list",
        WithValue,
        "/metrics always has all of its metrics",
    ),
    ("allow_credentials", Alone, "no answer depends on cookies"),
    (
        "allowed_methods",
        WithValue,
        "pages of --allowed_origins may use any method that a path supports",
    ),
    (
        "allowed_headers",
        WithValue,
        "pages of --allowed_origins may send any header",
    ),
    (
        "verbose_response",
        Alone,
        "send a request with ?explain=1 to see what it becomes",
    ),
    (
        "max_prompt_len",
        WithValue,
        "it applies to NPUs: --max_context limits sequences",
    ),
    (
        "model_distribution_policy",
        WithValue,
        "set split_mode in --plugin_config",
    ),
    (
        "cache_interval_multiplier",
        WithValue,
        "llama.cpp keeps the whole state",
    ),
    ("tp", WithValue, GPUS),
    ("num_shard", WithValue, GPUS),
    ("sharded", WithValue, GPUS),
    ("api_workers", WithValue, ONE_PROCESS),
    ("backend_workers", WithValue, ONE_PROCESS),
    (
        "max_total_token_num",
        WithValue,
        "the KV cache has a size in GB (--cache_size), and requests wait for space in it",
    ),
    ("batch_size", WithValue, CLASSIC),
    ("shape", WithValue, CLASSIC),
    ("layout", WithValue, CLASSIC),
    ("mean", WithValue, CLASSIC),
    ("scale", WithValue, CLASSIC),
    ("color_format", WithValue, CLASSIC),
    ("precision", WithValue, CLASSIC),
    (
        "model_version_policy",
        WithValue,
        "versions are those of an entry in config.json, where model_version_policy chooses among them",
    ),
    ("nireq", WithValue, CLASSIC),
    ("low_latency_transformation", Alone, CLASSIC),
    ("stateful", Alone, CLASSIC),
    (
        "max_sequence_number",
        WithValue,
        "--max_sequences limits sequences of requests",
    ),
    ("idle_sequence_cleanup", Alone, IDLE_SEQUENCES),
    (
        "sequence_cleaner_poll_wait_minutes",
        WithValue,
        IDLE_SEQUENCES,
    ),
    // Flags of TorchServe.
    ("start", Alone, "`serve` starts the server"),
    ("foreground", Alone, "the server stays in the foreground"),
    ("ncs", Alone, NO_SNAPSHOTS),
    ("no_config_snapshots", Alone, NO_SNAPSHOTS),
    ("disable_token_auth", Alone, KEYS),
    ("enable_model_api", Alone, KEYS),
    ("log_config", WithValue, LOG),
    ("cpp_log_config", WithValue, LOG),
    ("workflow_store", WithValue, "a workflow is a graph here"),
    ("plugins_path", WithValue, "nodes are written in Rust"),
    // Flags of llama-server.
    ("jinja", Alone, "chat templates are always rendered"),
    (
        "metrics",
        Alone,
        "/metrics is served by default: --enable_metrics_api false turns it off",
    ),
    ("cont_batching", Alone, "sequences are always batched"),
    (
        "embeddings",
        Alone,
        "the task is read from the model file: --task overrides it",
    ),
    // Flags of vLLM.
    ("enable_lora", Alone, ADAPTERS),
    ("max_loras", WithValue, ADAPTERS),
    ("max_lora_rank", WithValue, ADAPTERS),
    // Flags of Triton.
    ("allow_http", WithValue, "REST is always served"),
    ("allow_grpc", WithValue, "gRPC is served with --port"),
    ("allow_gpu_metrics", WithValue, NO_MACHINE),
    ("allow_cpu_metrics", WithValue, NO_MACHINE),
    ("metrics_port", WithValue, "/metrics is served at --rest_port, and alone at --metrics_address"),
    ("metrics_interval_ms", WithValue, "metrics are read when they are asked for"),
    ("metrics_config", WithValue, "/metrics always has all of its metrics"),
    ("model_control_mode", WithValue, "all models are loaded, or those of --load_model alone"),
    ("strict_model_config", WithValue, CONFIGURED),
    ("disable_auto_complete_config", Alone, CONFIGURED),
    ("strict_readiness", WithValue, "/v2/health/ready is true once all graphs are ready that are not optional"),
    ("exit_on_error", WithValue, "a model that cannot be served is left out with a warning"),
    ("log_verbose", WithValue, LOG),
    ("log_info", WithValue, LOG),
    ("log_warning", WithValue, LOG),
    ("log_error", WithValue, LOG),
    ("backend_directory", WithValue, BACKENDS),
    ("backend_config", WithValue, BACKENDS),
    ("repoagent_directory", WithValue, BACKENDS),
    ("min_supported_compute_capability", WithValue, BACKENDS),
    ("pinned_memory_pool_byte_size", WithValue, POOLS),
    ("cuda_memory_pool_byte_size", WithValue, POOLS),
    ("http_thread_count", WithValue, "connections have no threads of their own: --max_connections limits them"),
    ("buffer_manager_thread_count", WithValue, POOLS),
    ("model_load_thread_count", WithValue, "the number of loading threads cannot be set"),
];

/// Flags that cannot be ignored without serving something else, with the reason for refusing them.
const REFUSED: &[(&str, Form, &str)] = &[
    (
        "cache_max_entry_count",
        WithValue,
        "the KV cache has a size in GB, not a share of the memory: use --cache_size",
    ),
    ("weight_format", WithValue, NO_CONVERSION),
    ("extra_quantization_params", WithValue, NO_CONVERSION),
    (
        "source_loras",
        WithValue,
        "name adapters in lora_adapters of a graph; --emit_graph prints the graph of a model",
    ),
    ("stop", Alone, "SIGTERM stops a server"),
    (
        "configure",
        Alone,
        "--emit_graph prints the graph of a model, to be saved as graph.pbtxt",
    ),
];

/// The given flags of other servers.
#[derive(Debug, Default)]
pub(super) struct ForeignFlags {
    without_effect: Vec<(&'static str, &'static str)>,
    refused: Vec<(&'static str, &'static str)>,
}

impl ForeignFlags {
    /// Warns of the given flags without effect.
    pub(super) fn warn(&self) {
        for (name, why) in &self.without_effect {
            tracing::warn!("`--{name}` has no effect: {why}");
        }
    }

    /// Returns the error for the first given flag that is refused, if there is one.
    pub(super) fn refusal(&self) -> Option<String> {
        let (name, why) = self.refused.first()?;
        Some(format!("`--{name}` is not available: {why}"))
    }
}

impl FromArgMatches for ForeignFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |flags: &[(&'static str, Form, &'static str)]| {
            let is_given = |name: &str| {
                let source = matches.value_source(name);
                source.is_some_and(|source| source != ValueSource::DefaultValue)
            };
            let given = flags.iter().filter(|(name, ..)| is_given(name));
            given.map(|(name, _, why)| (*name, *why)).collect()
        };
        Ok(Self {
            without_effect: given(WITHOUT_EFFECT),
            refused: given(REFUSED),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for ForeignFlags {
    fn augment_args(command: Command) -> Command {
        /// Built once, as the command line is parsed several times.
        static ARGUMENTS: LazyLock<Vec<Arg>> =
            LazyLock::new(|| WITHOUT_EFFECT.iter().chain(REFUSED).map(argument).collect());
        command.args(ARGUMENTS.iter())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// Lists the flags without effect and the reasons, as `--help_ovms` prints them.
pub(super) fn listed() -> String {
    let width = WITHOUT_EFFECT.iter().map(|(name, ..)| name.len()).max();
    let width = width.unwrap_or_default();
    let line = |(name, _, why): &(&str, Form, &str)| format!("  --{name:width$}  {why}\n");
    let lines: String = WITHOUT_EFFECT.iter().map(line).collect();
    format!(
        "Flags of OpenVINO Model Server, TorchServe, Triton, TGI, OpenLLM, llama-server, vLLM, LMDeploy and LightLLM that are accepted and have no effect:\n{lines}"
    )
}

fn argument(&(name, form, why): &(&'static str, Form, &'static str)) -> Arg {
    let argument = Arg::new(name).long(name).help(why).hide(true);
    match form {
        Alone => argument.action(ArgAction::SetTrue),
        WithValue => argument
            .action(ArgAction::Set)
            .allow_hyphen_values(true)
            .value_name("VALUE"),
    }
}
