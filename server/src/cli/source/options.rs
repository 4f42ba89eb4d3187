//! Flags that become options of a model's built-in graph. Most have the names of OpenVINO Model
//! Server, which also generates a graph from them.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use graphmill_llm::ModelKind;
use serde_json::{Map, Value};

use super::{
    graph::quoted,
    knobs::KnobFlags,
    sampling::SamplingFlags,
    weights::{self, Dtype, Quantization},
};
use crate::cli::heading;

/// The task of a model, in the words of OpenVINO Model Server.
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(in crate::cli) enum Task {
    /// Generates texts, for chat and completions.
    TextGeneration,
    /// Computes vectors of texts, for embedding models.
    Embeddings,
    /// Scores documents against a query.
    Rerank,
}

impl Task {
    pub(super) const fn kind(self) -> ModelKind {
        match self {
            Self::TextGeneration => ModelKind::Generates,
            Self::Embeddings => ModelKind::Embeds,
            Self::Rerank => ModelKind::Ranks,
        }
    }
}

#[derive(Clone, Debug, Default, Args)]
#[command(
    rename_all = "snake_case",
    next_help_heading = heading::MODEL
)]
pub(in crate::cli) struct ModelFlags {
    /// Task of the model [default: the one in its file].
    #[arg(long, value_enum, value_name = "TASK")]
    pub(super) task: Option<Task>,
    /// Maximum number of sequences computed at the same time.
    #[arg(long, visible_alias = "parallel", value_name = "COUNT")]
    pub(super) max_num_seqs: Option<u32>,
    /// Maximum number of tokens in one step: prompt tokens and generated tokens together.
    #[arg(long, value_name = "TOKENS")]
    pub(super) max_num_batched_tokens: Option<u32>,
    /// Maximum size of the KV cache in GB; 0 chooses a size.
    #[arg(long, value_name = "GB")]
    pub(super) cache_size: Option<u32>,
    /// Maximum number of tokens in a sequence [default, and 0: the context that the model was
    /// trained with].
    #[arg(long, value_name = "TOKENS", visible_aliases = ["ctx_size", "max_model_len"], alias = "session_len")]
    pub(super) max_context: Option<u32>,
    /// Reuses prefixes that were computed for other prompts.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub(super) enable_prefix_caching: Option<bool>,
    /// Splits long prompts over several steps.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub(super) dynamic_split_fuse: Option<bool>,
    /// Maximum number of tokens in a prompt [default: what fits into a sequence].
    #[arg(long, value_name = "TOKENS")]
    pub(super) max_input_tokens: Option<u32>,
    /// Device that computes the model: CPU, GPU, GPU.1 or AUTO.
    #[arg(long, value_name = "DEVICE")]
    pub(super) target_device: Option<String>,
    /// Device as in Hugging Face's transformers: auto, cpu, cuda, cuda:1 or the number of a GPU.
    #[arg(long, value_name = "DEVICE", value_parser = weights::device)]
    pub(super) device_map: Option<String>,
    /// Quantization of the weights. Selects the file of a repository that has it; otherwise serves
    /// a quantized copy, which is made once.
    #[arg(
        long,
        visible_alias = "quantize",
        value_enum,
        value_name = "BITS",
        ignore_case = true
    )]
    pub(super) quantization: Option<Quantization>,
    /// Type of unquantized weights. Selects the file of a repository that has it.
    #[arg(long, value_enum, value_name = "TYPE", ignore_case = true)]
    pub(super) dtype: Option<Dtype>,
    /// JSON object of backend settings, and of OpenVINO properties with the same meaning.
    #[arg(long, value_name = "JSON")]
    pub(super) plugin_config: Option<String>,
    /// Type of the KV cache: u8, u4, f16, bf16 or f32.
    #[arg(long, value_name = "TYPE")]
    pub(super) kv_cache_precision: Option<String>,
    /// Smaller model with the same vocabulary that drafts tokens: a `.gguf` file or a folder with
    /// one.
    #[arg(long, visible_alias = "model_draft", value_name = "PATH")]
    pub(super) draft_source_model: Option<PathBuf>,
    /// Format of tool calls in the model's output [default: by its chat template].
    #[arg(long, value_name = "NAME")]
    pub(super) tool_parser: Option<String>,
    /// Format of reasoning in the model's output [default: by its chat template].
    #[arg(long, value_name = "NAME")]
    pub(super) reasoning_parser: Option<String>,
    /// Makes tool calls follow their schemas even if the request demands no call.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub(super) enable_tool_guided_generation: Option<bool>,
    /// Jinja file in place of the model's chat template.
    #[arg(long, value_name = "FILE")]
    pub(super) chat_template_file: Option<PathBuf>,
    /// Projector of a model that reads images or sounds, or `none` [default: the one beside the
    /// model].
    #[arg(long, value_name = "FILE")]
    pub(super) mmproj: Option<PathBuf>,
    /// Accepts prompts given as vectors in place of tokens.
    #[arg(
        long,
        visible_alias = "enable_prompt_embeds",
        value_name = "BOOL",
        num_args = 0..=1,
        default_missing_value = "true"
    )]
    pub(super) prompt_embeds: Option<bool>,
    #[command(flatten)]
    pub(super) knobs: KnobFlags,
    /// Defaults of requests. Only `serve` has flags for them.
    #[arg(skip)]
    pub(in crate::cli) sampling: SamplingFlags,
    /// Kind of pipeline, such as LM or VLM. VLM needs a projector beside the model.
    #[arg(long, value_name = "KIND")]
    pub(super) pipeline_type: Option<String>,
}

/// A given flag: its name, the field of the options, and the value in the graph's text format.
pub(super) struct GivenFlag {
    flag: &'static str,
    field: &'static str,
    value: String,
}

/// Returns a flag that sets this field, if it is given.
pub(super) fn given(
    flag: &'static str,
    field: &'static str,
    value: Option<impl ToString>,
) -> Option<GivenFlag> {
    let value = value?.to_string();
    Some(GivenFlag { flag, field, value })
}

/// Returns a flag that sets the field of the same name, if it is given.
pub(super) fn same(name: &'static str, value: Option<impl ToString>) -> Option<GivenFlag> {
    given(name, name, value)
}

impl ModelFlags {
    /// Returns the name of a given flag, if any, for a source with its own graphs.
    pub(in crate::cli) fn any(&self) -> Result<Option<&'static str>, String> {
        let without_field = [
            ("task", self.task.is_some()),
            ("quantization", self.quantization.is_some()),
            ("dtype", self.dtype.is_some()),
        ];
        let without_field = without_field.into_iter().filter(|(_, given)| *given);
        let with_field = self.given()?.into_iter().chain(self.sampling.given());
        let mut flags = without_field
            .map(|(flag, _)| flag)
            .chain(with_field.map(|given| given.flag));
        Ok(flags.next())
    }

    /// Returns the type to quantize the model's file to, if any.
    pub(super) fn quantization(&self) -> Option<&'static str> {
        self.quantization.and_then(Quantization::kind)
    }

    /// Returns the type of weights to select from a repository, if any.
    pub(super) fn weights(&self) -> Option<&'static str> {
        self.quantization().or(self.dtype.and_then(Dtype::kind))
    }

    /// Warns that `--dtype` has no effect, if it was given, with the reason.
    pub(super) fn warn_of_dtype(&self, why: &str) {
        if self.dtype.and_then(Dtype::kind).is_some() {
            tracing::warn!("`--dtype` has no effect: {why}");
        }
    }

    /// Returns the options of the request node, for this kind of model.
    pub(super) fn sampling(&self, kind: ModelKind) -> Result<Vec<(&'static str, String)>, String> {
        let given = self.sampling.given();
        match (kind, given.first()) {
            (ModelKind::Embeds | ModelKind::Ranks, Some(first)) => Err(format!(
                "`--{}` is for models that generate text, but this one does not",
                first.flag
            )),
            _ => Ok(fields(given).collect()),
        }
    }

    /// Returns the fields of the graph's options for this kind of model. The error names a flag
    /// that does not apply to it.
    pub(super) fn options(
        &self,
        kind: ModelKind,
    ) -> Result<impl Iterator<Item = (&'static str, String)>, String> {
        let mut given = self.given()?;
        let what = match kind {
            ModelKind::Generates => return Ok(fields(given)),
            ModelKind::Embeds => "embeds",
            ModelKind::Ranks => "ranks",
        };
        let is_known = |field: &str| match field {
            "max_num_batched_tokens" | "device" | "plugin_config" => true,
            "max_context" => kind == ModelKind::Embeds,
            _ => false,
        };
        if let Some(other) = given.iter().find(|given| !is_known(given.field)) {
            return Err(format!(
                "`--{}` is for models that generate text, but this one {what} (--task overrides it)",
                other.flag
            ));
        }
        for option in &mut given {
            if option.field == "device" {
                option.field = "target_device";
            }
        }
        Ok(fields(given))
    }

    fn given(&self) -> Result<Vec<GivenFlag>, String> {
        let string = |text: &Option<String>| text.as_deref().map(quoted);
        let draft = path(self.draft_source_model.as_ref(), "draft_source_model")?;
        let template = path(self.chat_template_file.as_ref(), "chat_template_file")?;
        let projector = match &self.mmproj {
            Some(none) if none.as_os_str() == "none" => Some(quoted("none")),
            file => path(file.as_ref(), "mmproj")?,
        };
        let (device_flag, device) = match (&self.target_device, &self.device_map) {
            (Some(device), _) => ("target_device", Some(quoted(device))),
            (None, Some(device)) => ("device_map", Some(quoted(device))),
            (None, None) => {
                let any = self.knobs.wants_gpu().then(|| quoted("AUTO"));
                ("n_gpu_layers", any)
            }
        };
        let first_knob = self.knobs.given().next().map(|(flag, ..)| flag);
        let knobs_flag = match &self.plugin_config {
            Some(_) => "plugin_config",
            None => first_knob.unwrap_or("kv_cache_precision"),
        };
        let knobs = self.knobs()?.as_deref().map(quoted);
        let given = [
            same("max_num_seqs", self.max_num_seqs),
            same("max_num_batched_tokens", self.max_num_batched_tokens),
            same("cache_size", self.cache_size),
            same("max_context", self.max_context.filter(|most| *most > 0)),
            same("enable_prefix_caching", self.enable_prefix_caching),
            same("dynamic_split_fuse", self.dynamic_split_fuse),
            same("max_input_tokens", self.max_input_tokens),
            given(device_flag, "device", device),
            same("mmproj", projector),
            same("prompt_embeds", self.prompt_embeds),
            given(knobs_flag, "plugin_config", knobs),
            given("draft_source_model", "draft_models_path", draft),
            same("tool_parser", string(&self.tool_parser)),
            same("reasoning_parser", string(&self.reasoning_parser)),
            same(
                "enable_tool_guided_generation",
                self.enable_tool_guided_generation,
            ),
            same("chat_template_file", template),
            same("pipeline_type", self.pipeline_type()?),
        ];
        Ok(given.into_iter().flatten().collect())
    }

    /// The word is written without quotes, so it must be a plain one.
    fn pipeline_type(&self) -> Result<Option<String>, String> {
        match &self.pipeline_type {
            Some(kind) if !kind.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') => Err(
                format!("`--pipeline_type {kind}`: expected a kind such as LM or AUTO"),
            ),
            kind => Ok(kind.clone()),
        }
    }

    /// Returns the backend's settings, including the ones with flags of their own.
    fn knobs(&self) -> Result<Option<String>, String> {
        let given = self.plugin_config.as_deref();
        let given = given.map(serde_json::from_str::<Map<String, Value>>);
        let given = given
            .transpose()
            .map_err(|error| format!("`--plugin_config`: expected a JSON object: {error}"))?;
        let precision = self.kv_cache_precision.as_deref();
        let precision = precision.map(|it| ("KV_CACHE_PRECISION", it.into()));
        let flags = self.knobs.given().map(|(_, knob, value)| (knob, value));
        let mut flags = precision.into_iter().chain(flags).peekable();
        if flags.peek().is_none() && given.is_none() {
            return Ok(None);
        }
        let mut knobs = given.unwrap_or_default();
        knobs.extend(flags.map(|(name, value)| (name.to_owned(), value)));
        Ok(Some(Value::from(knobs).to_string()))
    }
}

fn fields(given: Vec<GivenFlag>) -> impl Iterator<Item = (&'static str, String)> {
    given.into_iter().map(|given| (given.field, given.value))
}

/// Returns the absolute form of a path that is relative to the current folder.
fn path(path: Option<&PathBuf>, flag: &str) -> Result<Option<String>, String> {
    let Some(path) = path else { return Ok(None) };
    let wrong = |why: String| format!("`--{flag} {}`: {why}", path.display());
    let whole = std::path::absolute(path).map_err(|error| wrong(error.to_string()))?;
    if !whole.exists() {
        return Err(wrong("no such file or folder".to_owned()));
    }
    let text = whole.to_str();
    let text = text.ok_or_else(|| wrong("the path is not UTF-8".to_owned()))?;
    Ok(Some(quoted(text)))
}
