//! Flags of `OpenVINO` Model Server, TorchServe, Triton, TGI, OpenLLM, llama-server, vLLM, LMDeploy
//! and LightLLM that have no effect here. Each is accepted with a line in the log. Flags whose
//! effect cannot be left out are refused.

use std::sync::LazyLock;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, parser::ValueSource};

/// Rows of flags and the reason why they have no effect, or are refused. Spaces separate the flags;
/// a flag with `=` takes a value.
type Rows = &'static [(&'static str, &'static str)];

/// Flags that are accepted and ignored.
#[rustfmt::skip]
const WITHOUT_EFFECT: Rows = &[
    ("grpc_workers= grpc_max_threads= grpc_memory_quota= grpc_channel_arguments=", "connections of gRPC have neither threads nor memory of their own: --max_connections and --max_bodies_bytes limit them"),
    ("rest_workers= http_thread_count=", "connections have no threads of their own: --max_connections limits them"),
    ("custom_node_resources_cleaner_interval_seconds=", "nodes keep no state that needs cleaning"),
    ("cpu_extension=", "models are not computed by OpenVINO"),
    ("cache_dir=", "models are not compiled, so nothing is cached"),
    ("metrics_enable", "/metrics is served unless --enable_metrics_api is false"),
    ("metrics_list= metrics_config=", "/metrics always has all of its metrics"),
    ("allow_credentials", "no answer depends on cookies"),
    ("allowed_methods=", "pages of --allowed_origins may send GET, POST and DELETE requests"),
    ("allowed_headers=", "pages of --allowed_origins may send any header"),
    ("verbose_response", "send a request with ?explain=1 to see what it becomes"),
    ("max_prompt_len=", "it applies to NPUs: --max_context limits sequences"),
    ("model_distribution_policy=", "set split_mode in --plugin_config"),
    ("cache_interval_multiplier=", "llama.cpp keeps the whole state"),
    ("tp= num_shard= sharded=", "--target_device AUTO uses all GPUs, and split_mode in --plugin_config controls how they share a model"),
    ("api_workers= backend_workers=", "one process answers all requests and batches them"),
    ("max_total_token_num=", "the KV cache has a size in GB (--cache_size), and requests wait for space in it"),
    ("batch_size= shape= layout= mean= scale= color_format= precision= nireq= low_latency_transformation stateful", "it applies to classic OpenVINO models, which are not supported"),
    ("model_version_policy=", "versions are those of an entry in config.json, where model_version_policy chooses among them"),
    ("max_sequence_number=", "--max_sequences limits sequences of requests"),
    ("idle_sequence_cleanup sequence_cleaner_poll_wait_minutes=", "--sequence_idle_seconds limits the time of a sequence without a request"),
    // Flags of TorchServe.
    ("start", "`serve` starts the server"),
    ("foreground", "the server stays in the foreground"),
    ("ncs no_config_snapshots", "the configuration alone decides what is served"),
    ("disable_token_auth enable_model_api", "permissions are in the file of --api_key_file"),
    ("log_config= cpp_log_config= log_verbose= log_info= log_warning= log_error=", "use --log_level, --log_format and --log_path"),
    ("workflow_store=", "a workflow is a graph here"),
    ("plugins_path=", "nodes are written in Rust"),
    // Flags of llama-server.
    ("jinja", "chat templates are always rendered"),
    ("metrics", "/metrics is served by default: --enable_metrics_api false turns it off"),
    ("cont_batching", "sequences are always batched"),
    ("embeddings", "the task is read from the model file: --task overrides it"),
    // Flags of vLLM.
    ("enable_lora max_loras= max_lora_rank=", "graphs list adapters (lora_adapters), and --runtime_lora allows loading others"),
    // Flags of Triton.
    ("allow_http=", "REST is always served"),
    ("allow_grpc=", "gRPC is served with --port"),
    ("allow_gpu_metrics= allow_cpu_metrics=", "metrics of the machine are left to other programs"),
    ("metrics_port=", "/metrics is served at --rest_port or --management_port, and alone at --metrics_address"),
    ("metrics_interval_ms=", "metrics are read when they are asked for"),
    ("model_control_mode=", "all models are loaded, or those of --load_model alone"),
    ("strict_model_config= disable_auto_complete_config", "docs/guide/triton.md lists the required fields of config.pbtxt"),
    ("strict_readiness=", "/v2/health/ready is true once all graphs are ready that are not optional"),
    ("exit_on_error=", "a model that cannot be served is left out with a warning"),
    ("backend_directory= backend_config= repoagent_directory= min_supported_compute_capability=", "the backends for ONNX and GGUF models are built in"),
    ("pinned_memory_pool_byte_size= cuda_memory_pool_byte_size= buffer_manager_thread_count=", "there are no memory pools"),
    ("model_load_thread_count=", "the number of loading threads cannot be set"),
];

/// Flags that cannot be ignored without serving something else.
#[rustfmt::skip]
const REFUSED: Rows = &[
    ("cache_max_entry_count=", "the KV cache has a size in GB, not a share of the memory: use --cache_size"),
    ("weight_format= extra_quantization_params=", "models are not converted: choose weights with `--quantization 4bit` or `8bit`, or with a name such as org/repo:Q8_0"),
    ("source_loras=", "name adapters in lora_adapters of a graph; --emit_graph prints the graph of a model"),
    ("stop", "SIGTERM stops a server"),
    ("configure", "--emit_graph prints the graph of a model, to be saved as graph.pbtxt"),
];

/// A flag: its name, true if it takes a value, and the reason of its row.
type ForeignFlag = (&'static str, bool, &'static str);

fn flags(rows: Rows) -> impl Iterator<Item = ForeignFlag> {
    rows.iter().flat_map(|&(names, why)| {
        let names = names.split(' ');
        names.map(move |name| match name.strip_suffix('=') {
            Some(name) => (name, true, why),
            None => (name, false, why),
        })
    })
}

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
        let is_given = |(name, ..): &ForeignFlag| {
            let source = matches.value_source(name);
            source.is_some_and(|source| source != ValueSource::DefaultValue)
        };
        let given = |rows| {
            let given = flags(rows).filter(is_given);
            given.map(|(name, _, why)| (name, why)).collect()
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
        static ARGUMENTS: LazyLock<Vec<Arg>> = LazyLock::new(|| {
            flags(WITHOUT_EFFECT)
                .chain(flags(REFUSED))
                .map(argument)
                .collect()
        });
        command.args(ARGUMENTS.iter())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// Lists the flags without effect and the reasons, as `--help_ovms` prints them.
pub(super) fn listed() -> String {
    let width = flags(WITHOUT_EFFECT).map(|(name, ..)| name.len()).max();
    let width = width.unwrap_or_default();
    let line = |(name, _, why): ForeignFlag| format!("  --{name:width$}  {why}\n");
    let lines: String = flags(WITHOUT_EFFECT).map(line).collect();
    format!(
        "Flags of OpenVINO Model Server, TorchServe, Triton, TGI, OpenLLM, llama-server, vLLM, LMDeploy and LightLLM that are accepted and have no effect:\n{lines}"
    )
}

fn argument((name, takes_value, why): ForeignFlag) -> Arg {
    let argument = Arg::new(name).long(name).help(why).hide(true);
    if takes_value {
        argument.allow_hyphen_values(true).value_name("VALUE")
    } else {
        argument.action(ArgAction::SetTrue)
    }
}
