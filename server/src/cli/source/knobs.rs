//! Flags of llama-server that become settings of `plugin_config`.

use clap::Args;
use serde_json::Value;

use crate::cli::heading;

#[derive(Clone, Debug, Default, Args)]
#[command(
    rename_all = "snake_case",
    next_help_heading = heading::MODEL
)]
pub(super) struct KnobFlags {
    /// Number of threads that generate tokens [default: one for each core].
    #[arg(long, value_name = "COUNT")]
    threads: Option<u32>,
    /// Number of threads that process prompts [default: same as `--threads`].
    #[arg(long, value_name = "COUNT")]
    threads_batch: Option<u32>,
    /// Maximum number of tokens computed at once within a step.
    #[arg(long, value_name = "TOKENS")]
    ubatch_size: Option<u32>,
    /// Number of layers on the GPU, or `all`. Implies `--target_device AUTO` if that flag is not
    /// given.
    #[arg(long, visible_alias = "gpu_layers", value_name = "COUNT", value_parser = layers)]
    n_gpu_layers: Option<Layers>,
    /// Flash attention: on, off or auto.
    #[arg(long, value_name = "SWITCH", num_args = 0..=1, default_missing_value = "on", value_parser = ["on", "off", "auto"])]
    flash_attn: Option<String>,
    /// Type of cached keys, such as f16.
    #[arg(long, value_name = "TYPE")]
    cache_type_k: Option<String>,
    /// Type of cached values, such as f16.
    #[arg(long, value_name = "TYPE")]
    cache_type_v: Option<String>,
}

/// A number of layers; `None` means all.
#[derive(Clone, Copy, Debug)]
struct Layers(Option<u32>);

fn layers(text: &str) -> Result<Layers, String> {
    match text {
        "all" | "auto" | "-1" => Ok(Layers(None)),
        number => {
            let number = number.parse();
            let number = number.map_err(|_| "expected a number of layers, or `all`".to_owned())?;
            Ok(Layers(Some(number)))
        }
    }
}

impl KnobFlags {
    /// Returns the given flags with their settings and values.
    pub(super) fn given(&self) -> impl Iterator<Item = (&'static str, &'static str, Value)> {
        let number = |number: Option<u32>| number.map(Value::from);
        let text = |text: &Option<String>| text.clone().map(Value::from);
        let layers = self.n_gpu_layers.and_then(|layers| layers.0);
        let layers = layers.filter(|count| *count > 0);
        let rows = [
            ("threads", "threads", number(self.threads)),
            ("threads_batch", "batch_threads", number(self.threads_batch)),
            ("ubatch_size", "ubatch", number(self.ubatch_size)),
            ("n_gpu_layers", "gpu_layers", number(layers)),
            ("flash_attn", "flash_attention", text(&self.flash_attn)),
            ("cache_type_k", "kv_type_k", text(&self.cache_type_k)),
            ("cache_type_v", "kv_type_v", text(&self.cache_type_v)),
        ];
        let given = rows.into_iter();
        given.filter_map(|(flag, knob, value)| Some((flag, knob, value?)))
    }

    /// Returns true if layers should be on a GPU.
    pub(super) fn wants_gpu(&self) -> bool {
        self.n_gpu_layers.is_some_and(|layers| layers.0 != Some(0))
    }
}
