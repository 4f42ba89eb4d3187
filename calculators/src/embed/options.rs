//! Options of nodes that embed and rank: OVMS's, and the limits of the engine.

use graphmill_engine::Contract;
use graphmill_llm::embed::{EmbeddingSpec, EmbeddingTask, Pooling};
use graphmill_llm::settings::{
    DEFAULT_STEP_TIMEOUT, MAX_BATCHED_TOKENS, MAX_CONTEXT, MAX_ENGINE_RESTARTS, MAX_RESTARTS,
    MAX_STEP_TIMEOUT, MAX_WAITING, milliseconds,
};
use graphmill_llm::{Device, PluginConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

/// Options of an `EmbedCalculator` node, in groups whose fields are those of one message.
#[derive(Clone, Debug, Default, JsonSchema)]
pub struct EmbedOptions {
    /// Options of the node itself: the form and the length of vectors.
    #[schemars(flatten)]
    pub node: VectorOptions,
    /// Options that concern the engine.
    #[schemars(flatten)]
    pub engine: EmbeddingEngineOptions,
}

/// Options of a `RankCalculator` node, in groups whose fields are those of one message.
#[derive(Clone, Debug, Default, JsonSchema)]
pub struct RankOptions {
    /// Options of the node itself: the pieces of documents.
    #[schemars(flatten)]
    pub node: DocumentOptions,
    /// Options that concern the engine.
    #[schemars(flatten)]
    pub engine: EmbeddingEngineOptions,
}

impl<'de> Deserialize<'de> for EmbedOptions {
    fn deserialize<D: Deserializer<'de>>(options: D) -> Result<Self, D::Error> {
        let (node, engine) = Deserialize::deserialize(options)?;
        Ok(Self { node, engine })
    }
}

impl<'de> Deserialize<'de> for RankOptions {
    fn deserialize<D: Deserializer<'de>>(options: D) -> Result<Self, D::Error> {
        let (node, engine) = Deserialize::deserialize(options)?;
        Ok(Self { node, engine })
    }
}

/// Options of `EmbedCalculator` that concern vectors.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct VectorOptions {
    /// Scales each vector to length 1, so that the dot product of two vectors is their cosine
    /// similarity.
    pub normalize_embeddings: bool,
    /// Pooling of the vectors of a text's tokens into one. Default: the pooling in the model's
    /// file.
    pub pooling: Option<PoolingOption>,
    /// Cuts texts that are too long for the model. By default they are refused.
    pub truncate: bool,
    /// Allows requests with fewer `dimensions`. Use it only for models that were trained for
    /// shortened vectors.
    pub allow_dimensions: bool,
    /// Maximum number of tokens of a text. 0, the default, is the model's training context, at most
    /// 8192.
    #[schemars(range(max = MAX_CONTEXT))]
    pub max_context: u32,
}

impl Default for VectorOptions {
    fn default() -> Self {
        Self {
            normalize_embeddings: true,
            pooling: None,
            truncate: false,
            allow_dimensions: false,
            max_context: 0,
        }
    }
}

/// Options of `RankCalculator` that concern documents.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DocumentOptions {
    /// Maximum number of pieces into which the documents of a request are cut. A document that fits
    /// into the model beside the query is one piece.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_allowed_chunks: u32,
    /// Maximum number of tokens of a query and a piece of a document together. Default: the model's
    /// training context, at most 8192.
    #[schemars(range(min = 2, max = MAX_CONTEXT))]
    pub max_position_embeddings: Option<u32>,
}

impl Default for DocumentOptions {
    fn default() -> Self {
        Self {
            max_allowed_chunks: 10_000,
            max_position_embeddings: None,
        }
    }
}

/// Options of an engine that embeds or ranks.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EmbeddingEngineOptions {
    /// Path of a folder with one `.gguf` file, or of such a file, relative to the graph's folder.
    /// Required.
    pub models_path: String,
    /// Maximum number of tokens in a step, for all requests together. A longer input is computed
    /// alone.
    #[schemars(range(min = 1, max = MAX_BATCHED_TOKENS))]
    pub max_num_batched_tokens: u32,
    /// Maximum number of requests at the same time; more are refused.
    #[schemars(range(min = 1, max = MAX_WAITING))]
    pub max_waiting: u32,
    /// Seconds that a step may take for each 64 of its tokens. An engine that takes longer is
    /// abandoned and replaced, and its requests end with status 503. 0 is no limit.
    #[schemars(range(min = 0, max = MAX_STEP_TIMEOUT))]
    pub step_timeout: f64,
    /// Maximum number of restarts of a failed engine within ten minutes. After more failures, the
    /// server's liveness check fails.
    #[schemars(range(max = MAX_ENGINE_RESTARTS))]
    pub max_engine_restarts: u32,
    /// Device that computes the model: `CPU`; `GPU` or `GPU.0` for the first GPU, `GPU.1` for the
    /// second; `AUTO` for all GPUs, or else the CPU. Default: `AUTO`.
    pub target_device: String,
    /// JSON object with the backend's settings, as in the LLM node.
    #[schemars(extend("contentMediaType" = "application/json", "contentSchema" = schemars::schema_for!(PluginConfig)))]
    pub plugin_config: String,
}

impl Default for EmbeddingEngineOptions {
    fn default() -> Self {
        Self {
            models_path: String::new(),
            max_num_batched_tokens: 512,
            max_waiting: 1024,
            step_timeout: DEFAULT_STEP_TIMEOUT,
            max_engine_restarts: MAX_RESTARTS,
            target_device: String::new(),
            plugin_config: String::new(),
        }
    }
}

/// A rule that makes one vector from those of a text's tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum PoolingOption {
    /// Takes the vector of the first token.
    Cls,
    /// Takes the vector of the last token.
    Last,
    /// Takes the mean of all vectors.
    Mean,
}

impl From<PoolingOption> for Pooling {
    fn from(option: PoolingOption) -> Self {
        match option {
            PoolingOption::Cls => Self::Cls,
            PoolingOption::Last => Self::Last,
            PoolingOption::Mean => Self::Mean,
        }
    }
}

impl EmbedOptions {
    /// Returns the specification of the engine. Errors go to the contract.
    pub(super) fn spec(&self, c: &mut Contract) -> EmbeddingSpec {
        let task = EmbeddingTask::Embed(self.node.pooling.map(Pooling::from));
        let context = Some(self.node.max_context).filter(|tokens| *tokens > 0);
        self.engine.spec(c, task, context)
    }
}

impl RankOptions {
    /// Returns the specification of the engine. Errors go to the contract.
    pub(super) fn spec(&self, c: &mut Contract) -> EmbeddingSpec {
        let context = self.node.max_position_embeddings;
        self.engine.spec(c, EmbeddingTask::Rank, context)
    }
}

impl EmbeddingEngineOptions {
    fn spec(
        &self,
        c: &mut Contract,
        task: EmbeddingTask,
        max_context: Option<u32>,
    ) -> EmbeddingSpec {
        let mut spec = EmbeddingSpec {
            max_num_batched_tokens: self.max_num_batched_tokens,
            max_context,
            max_waiting: self.max_waiting,
            step_timeout_ms: milliseconds(self.step_timeout),
            max_engine_restarts: self.max_engine_restarts,
            ..EmbeddingSpec::new(&self.models_path, task)
        };
        match self.target_device.parse::<Device>() {
            Ok(device) => spec.device = device,
            Err(error) => c.option_error("target_device", error.to_string()),
        }
        match PluginConfig::from_json(&self.plugin_config) {
            Ok(config) => spec.plugin_config = config,
            Err(error) => c.option_error("plugin_config", error.to_string()),
        }
        if spec.model.as_os_str().is_empty() {
            c.missing_option("models_path", "\"./\"");
        } else if let Err(error) = spec.validate() {
            c.error(error.to_string());
        }
        spec
    }
}
