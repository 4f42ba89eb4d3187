//! The fields of a `config.pbtxt`.

use graphmill_calculators::tensor::Datatype;
use serde::{
    Deserialize,
    de::{
        IntoDeserializer as _,
        value::{self, StringDeserializer},
    },
};

/// A model of Triton's repository.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ModelConfig {
    pub(super) name: String,
    pub(super) platform: String,
    pub(super) backend: String,
    pub(super) version_policy: VersionPolicy,
    /// Maximum number of rows of a request; 0 for a model whose shapes have no batch dimension.
    pub(super) max_batch_size: u32,
    pub(super) input: Vec<TensorConfig>,
    pub(super) output: Vec<TensorConfig>,
    pub(super) instance_group: Vec<InstanceGroup>,
    pub(super) default_model_filename: String,
    pub(super) dynamic_batching: DynamicBatching,
    pub(super) ensemble_scheduling: EnsembleScheduling,
    pub(super) parameters: Vec<MapEntry<String, ParameterValue>>,
    pub(super) response_cache: ResponseCache,
}

impl ModelConfig {
    /// Returns the inputs and the outputs, each with the name of their field.
    pub(super) fn sides(&self) -> [(&'static str, &[TensorConfig]); 2] {
        [("input", &self.input), ("output", &self.output)]
    }

    /// Returns the shape of a tensor, with the batch dimension of a model that has one.
    pub(super) fn shape(&self, tensor: &TensorConfig) -> Vec<i64> {
        let rows = (self.max_batch_size > 0).then_some(-1);
        rows.iter().chain(&tensor.dims).copied().collect()
    }

    /// Returns the number of threads that compute batches.
    pub(super) fn instances(&self) -> u32 {
        let counts = self.instance_group.iter().map(|group| group.count.max(1));
        counts.fold(0, u32::saturating_add)
    }
}

/// Setting of the response cache, which reuses answers for equal inputs.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ResponseCache {
    pub(super) enable: bool,
}

/// Version policy. Without a setting, only the newest version is served.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct VersionPolicy {
    pub(super) latest: Option<Latest>,
    pub(super) all: Option<All>,
    pub(super) specific: Option<Specific>,
}

/// Policy that serves the newest versions.
#[derive(Debug, Deserialize)]
#[serde(default)]
pub(super) struct Latest {
    pub(super) num_versions: usize,
}

impl Default for Latest {
    fn default() -> Self {
        Self { num_versions: 1 }
    }
}

/// Policy that serves all versions.
#[derive(Debug, Default, Deserialize)]
pub(super) struct All {}

/// Policy that serves the listed versions.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Specific {
    pub(super) versions: Vec<u64>,
}

/// An input or output of a model.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TensorConfig {
    pub(super) name: String,
    pub(super) data_type: DataType,
    /// The shape without the batch dimension, -1 for any length.
    pub(super) dims: Vec<i64>,
    pub(super) format: DimsFormat,
    /// File with the class names of an output, one per line, in the folder of `config.pbtxt`.
    pub(super) label_filename: String,
    /// Class names of an output, from that file.
    #[serde(skip)]
    pub(super) labels: Vec<String>,
}

/// The meaning of an input's dimensions, as information for clients.
#[derive(Copy, Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[expect(
    clippy::enum_variant_names,
    reason = "they are named as in `config.pbtxt`"
)]
pub(super) enum DimsFormat {
    #[default]
    FormatNone,
    FormatNhwc,
    FormatNchw,
}

impl DimsFormat {
    /// Returns the order of an image's dimensions; `None` for other tensors.
    pub(super) const fn order(self) -> Option<&'static str> {
        match self {
            Self::FormatNone => None,
            Self::FormatNhwc => Some("NHWC"),
            Self::FormatNchw => Some("NCHW"),
        }
    }
}

/// An element type, with the names of `config.pbtxt`.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(super) enum DataType {
    #[default]
    TypeInvalid,
    TypeBool,
    TypeUint8,
    TypeUint16,
    TypeUint32,
    TypeUint64,
    TypeInt8,
    TypeInt16,
    TypeInt32,
    TypeInt64,
    TypeFp16,
    TypeFp32,
    TypeFp64,
    TypeString,
    TypeBf16,
}

impl DataType {
    /// Returns the element type of a datatype.
    pub(super) fn from_datatype(datatype: Datatype) -> Self {
        let word = match datatype {
            Datatype::Bytes => "TYPE_STRING".to_owned(),
            other => format!("TYPE_{other}"),
        };
        let word: StringDeserializer<value::Error> = word.into_deserializer();
        Self::deserialize(word).unwrap_or_default()
    }

    /// Returns the datatype; `None` for `TYPE_INVALID`.
    pub(super) fn datatype(self) -> Option<Datatype> {
        Datatype::all().find(|datatype| Self::from_datatype(*datatype) == self)
    }
}

/// Instances of a model on a device.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct InstanceGroup {
    pub(super) name: String,
    pub(super) count: u32,
    pub(super) kind: InstanceKind,
    pub(super) gpus: Vec<u32>,
}

/// The device of instances. ONNX models accept only `KIND_CPU` and `KIND_AUTO`.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[expect(
    clippy::enum_variant_names,
    reason = "they are named as in `config.pbtxt`"
)]
pub(super) enum InstanceKind {
    #[default]
    KindAuto,
    KindGpu,
    KindCpu,
    KindModel,
}

/// Options of dynamic batching, which become options of the batching node.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct DynamicBatching {
    pub(super) preferred_batch_size: Vec<u32>,
    pub(super) max_queue_delay_microseconds: u64,
    /// Has no effect: answers of a session always have the order of its requests.
    pub(super) preserve_ordering: bool,
    pub(super) priority_levels: u32,
    pub(super) default_priority_level: u32,
    pub(super) default_queue_policy: QueuePolicy,
    /// Limits for waiting requests, by priority level.
    pub(super) priority_queue_policy: Vec<MapEntry<u32, QueuePolicy>>,
}

/// Limits for waiting requests: how many, for how long, and the action after that.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct QueuePolicy {
    pub(super) timeout_action: Option<TimeoutAction>,
    pub(super) default_timeout_microseconds: u64,
    /// Has no effect: the shortest limit always counts.
    pub(super) allow_timeout_override: bool,
    pub(super) max_queue_size: u32,
}

/// The action on a request that has waited too long.
#[derive(Copy, Clone, Debug, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum TimeoutAction {
    Reject,
    Delay,
}

/// Models whose outputs are inputs of others.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct EnsembleScheduling {
    pub(super) step: Vec<EnsembleStep>,
}

/// One model of an ensemble.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct EnsembleStep {
    pub(super) model_name: String,
    pub(super) model_version: i64,
    /// Maps inputs of the model to tensors of the ensemble.
    pub(super) input_map: Vec<Pair>,
    /// Maps outputs of the model to tensors of the ensemble.
    pub(super) output_map: Vec<Pair>,
}

/// An entry of a map field.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct MapEntry<K, V> {
    pub(super) key: K,
    pub(super) value: V,
}

/// An entry of a map of strings.
pub(super) type Pair = MapEntry<String, String>;

/// The value of a parameter.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ParameterValue {
    pub(super) string_value: String,
}
