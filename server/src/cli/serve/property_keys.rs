//! The keys of `config.properties` and their meanings.

use graphmill_grammar::suggest;

use Means::{Address, Flag, Nothing};

/// The meaning of a key.
pub(super) enum Means {
    /// Sets a flag to the value.
    Flag(&'static str),
    /// Sets the flags of the host and the port, or one flag that has both.
    Address(&'static str, &'static str),
    /// Has no effect. The listed values need no warning.
    Nothing(&'static [&'static str], &'static str),
}

const BATCHES: &str = "language models batch all sequences (--max_num_seqs), and options of \
                       DynamicBatchCalculator control batches of tensors";
const DEVICES: &str = "choose devices with --target_device or the option `device`";
const NO_WORKERS: &str = "models are computed by threads of the server, not by workers";
const QUEUES: &str = "nodes limit their queues: max_queued_prompt_tokens, max_queue_size";
const TIMES: &str = "requests set their time limits (timeout), and an engine that hangs is \
                     restarted (step_timeout)";

/// The keys, with spaces between synonyms, and their meanings.
#[rustfmt::skip]
pub(super) const KEYS: &[(&str, Means)] = &[
    ("inference_address", Address("rest_bind_address", "rest_port")),
    ("management_address", Address("management_bind_address", "management_port")),
    ("grpc_inference_address", Flag("grpc_bind_address")),
    ("grpc_inference_port", Flag("port")),
    ("grpc_management_port", Flag("grpc_management_port")),
    ("model_store", Flag(REPOSITORY)),
    ("load_models", Flag("models")),
    ("max_request_size", Flag("max_body_bytes")),
    ("cors_allowed_origin", Flag("allowed_origins")),
    ("private_key_file", Flag("tls_key_file")),
    ("certificate_file", Flag("tls_cert_file")),
    ("metrics_address", Address(METRICS, METRICS)),
    ("enable_metrics_api", Flag("enable_metrics_api")),
    ("max_response_size", Flag("max_response_bytes")),
    ("metrics_format metrics_mode metrics_config", Nothing(&["prometheus"], "/metrics has all metrics, for Prometheus")),
    ("disable_system_metrics system_metrics_cmd", Nothing(&["true"], "no metrics of the machine are served")),
    ("grpc_management_address", Nothing(&[], "grpc_inference_address sets the address of both gRPC ports")),
    ("cors_allowed_methods cors_allowed_headers", Nothing(&[], "pages may send GET, POST and DELETE requests, with any header")),
    ("default_response_timeout default_startup_timeout unregister_model_timeout", Nothing(&[], TIMES)),
    ("default_workers_per_model initial_worker_port cpu_launcher_enable cpu_launcher_args", Nothing(&["false"], NO_WORKERS)),
    ("job_queue_size", Nothing(&[], QUEUES)),
    ("number_of_gpu", Nothing(&[], DEVICES)),
    ("install_py_dep_per_model ipex_enable blacklist_env_vars plugins_path vmargs", Nothing(&["false"], "no Python and no Java run here: nodes are written in Rust")),
    ("decode_input_request async_logging limit_max_image_pixels", Nothing(&["true"], "it is always on")),
    ("enable_envvars_config", Nothing(&["true", "false"], "")),
    ("prefer_direct_buffer number_of_netty_threads netty_client_threads model_server_home model_config", Nothing(&["false"], "it configures internals of TorchServe")),
    ("model_snapshot workflow_store", Nothing(&[], "the configuration alone decides what is served, and a workflow is a graph")),
    ("allowed_urls use_env_allowed_urls", Nothing(&["false"], "models are not downloaded")),
    ("disable_token_authorization enable_model_api model_api_enabled", Nothing(&[], "permissions are in the file of --api_key_file")),
    ("keystore keystore_pass keystore_type", Nothing(&[], "certificates are PEM files: private_key_file and certificate_file")),
];

/// Flag for the folder of all models.
pub(super) const REPOSITORY: &str = "model_repository_path";

/// Flag for an address with its port.
pub(super) const METRICS: &str = "metrics_address";

/// Key with settings of single models.
pub(super) const MODELS: &str = "models";

/// The settings of a version of a model.
#[rustfmt::skip]
pub(super) const OF_MODELS: &[(&str, Means)] = &[
    ("defaultVersion", Nothing(&["false"], "the newest version answers, unless `canary` in config.json divides requests")),
    ("marName", Nothing(&[], "load_models names the models to serve")),
    ("minWorkers maxWorkers parallelLevel parallelType", Nothing(&[], NO_WORKERS)),
    ("batchSize maxBatchDelay", Nothing(&[], BATCHES)),
    ("responseTimeout startupTimeout", Nothing(&[], TIMES)),
    ("jobQueueSize", Nothing(&[], QUEUES)),
    ("deviceType deviceIds", Nothing(&[], DEVICES)),
];

/// Returns the key that sets a flag.
pub(super) fn key_of(flag: &str) -> Option<&'static str> {
    let is_it = |(_, means): &&(&str, Means)| match means {
        Flag(known) => *known == flag,
        Address(host, port) => *host == flag || *port == flag,
        Nothing(..) => false,
    };
    KEYS.iter().find(is_it).map(|(key, _)| *key)
}

/// Returns the names of all keys of a table.
pub(super) fn names(table: &'static [(&str, Means)]) -> impl Iterator<Item = &'static str> {
    table.iter().flat_map(|(names, _)| names.split(' '))
}

/// Returns the meaning of a key, and warns if it has no effect.
pub(super) fn known(
    table: &'static [(&str, Means)],
    key: &str,
    value: &str,
    warnings: &mut Vec<String>,
) -> Option<&'static Means> {
    let mut rows = table.iter();
    let found = rows.find(|(names, _)| names.split(' ').any(|name| name == key));
    match found {
        Some((_, Nothing(idle, why))) if !idle.contains(&value) => {
            warnings.push(format!("`{key}` has no effect: {why}"));
        }
        Some(_) => {}
        None => {
            let near = suggest::nearest(key, names(table));
            let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            warnings.push(format!(
                "`{key}` has no effect: TorchServe has no such key{near}"
            ));
        }
    }
    found.map(|(_, means)| means)
}
