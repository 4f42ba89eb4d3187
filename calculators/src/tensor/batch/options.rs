//! The batching options of a graph, with Triton's names and meanings.

use std::time::Duration;

use graphmill_engine::{Contract, Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::tensor::{Datatype, TensorInfo};

/// Default of the maximum number of waiting requests per level. Generations that wait for a
/// language model have the same.
const DEFAULT_MAX_QUEUE_SIZE: u32 = 1024;
/// Maximum number of queued requests per level.
const MAX_QUEUE_SIZE: u32 = 1_000_000;
/// Upper limit of the rows of a batch. Larger batches make no machine faster.
const MAX_BATCH_SIZE: u32 = 65_536;
/// Upper limit of the priority levels, each of which is a queue.
const MAX_PRIORITY_LEVELS: u32 = 100;
/// Upper limit of the threads of a model.
pub const MAX_INSTANCES: u32 = 256;
/// Upper limit of the waits that a graph can set: an hour.
const MAX_MICROSECONDS: u64 = 3_600_000_000;

/// Options of [`DynamicBatch`](super::DynamicBatch), with those of a model `M`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(
    default,
    deny_unknown_fields,
    bound(deserialize = "M: Deserialize<'de> + Default")
)]
#[schemars(bound = "M: JsonSchema + Default")]
pub struct DynamicBatchOptions<M> {
    /// The model. For `DynamicBatchCalculator` it is a node with its options and without streams,
    /// as in `model { calculator: ".." node_options { .. } }`. For other nodes it describes what
    /// they load.
    pub model: M,
    /// Datatypes and shapes of the inputs, if the model does not know them. Requests with other
    /// tensors are refused.
    pub input: Vec<InputDescription>,
    /// Maximum number of rows of a batch. Rows are counted by dimension 0 of a request's tensors. A
    /// request with more rows is refused. Required.
    #[schemars(range(max = MAX_BATCH_SIZE))]
    pub max_batch_size: u32,
    /// Numbers of rows at which a batch is computed at once. Without any, a batch waits until it is
    /// full or `max_queue_delay_microseconds` have passed.
    #[schemars(inner(range(min = 1, max = MAX_BATCH_SIZE)))]
    pub preferred_batch_size: Vec<u32>,
    /// Maximum time that a request waits for others to join its batch, in microseconds. With 0, the
    /// default, a free instance computes at once all requests that have come.
    #[schemars(range(max = MAX_MICROSECONDS))]
    pub max_queue_delay_microseconds: u64,
    /// Number of threads that compute batches, each one at a time. 0, the default, means 1.
    #[schemars(range(max = MAX_INSTANCES))]
    pub instances: u32,
    /// Number of priority levels that `priority` of a request can name. Level 1 goes first. 0, the
    /// default, means no levels.
    #[schemars(range(max = MAX_PRIORITY_LEVELS))]
    pub priority_levels: u32,
    /// Level of requests without `priority`. Required with `priority_levels`.
    #[schemars(range(max = MAX_PRIORITY_LEVELS))]
    pub default_priority_level: u32,
    /// Maximum time that a request may wait, in microseconds. 0, the default, is no limit.
    #[schemars(range(max = MAX_MICROSECONDS))]
    pub default_timeout_microseconds: u64,
    /// Treatment of requests that have waited longer: `REJECT` (the default) ends them with status
    /// 429, `DELAY` computes them after all others of their level.
    pub timeout_action: TimeoutAction,
    /// Maximum number of waiting requests per level. Further ones are refused with status 429. 0,
    /// the default, means 1024.
    #[schemars(range(max = MAX_QUEUE_SIZE))]
    pub max_queue_size: u32,
    /// Values of the last three options for single levels: `key` is the level.
    pub priority_queue_policy: Vec<LevelPolicy>,
    /// Treatment of requests whose tensors differ in a dimension other than 0 for which the model
    /// takes any length. `SEPARATE` (the default) never computes them together, `PAD` pads them to
    /// the same length.
    pub ragged: RaggedPolicy,
    /// Number that pads shorter tensors with `ragged: PAD`. For FP16 and BF16 it must be 0. BYTES
    /// are never padded. Default: 0.
    pub pad_value: PadValue,
}

/// The name, datatype and shape of an input.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct InputDescription {
    /// Name of the stream or, in nodes of a model, of the model's input.
    pub name: String,
    /// Datatype of the elements. Any if not set.
    pub datatype: Option<Datatype>,
    /// All dimensions, with -1 for one of any length. The first one must be -1. Any if not set.
    pub shape: Vec<i64>,
}

/// Options of one priority level.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LevelPolicy {
    /// Number of the level, counted from 1.
    pub key: u32,
    /// Options of the level. Those that are not set have the values for all levels.
    pub value: QueuePolicy,
}

/// Limits of the queue of one priority level.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct QueuePolicy {
    /// Maximum time that a request may wait, in microseconds. 0 is no limit.
    #[schemars(range(max = MAX_MICROSECONDS))]
    pub default_timeout_microseconds: Option<u64>,
    /// Treatment of a request that has waited longer.
    pub timeout_action: Option<TimeoutAction>,
    /// Maximum number of waiting requests. 0 means 1024.
    #[schemars(range(max = MAX_QUEUE_SIZE))]
    pub max_queue_size: Option<u32>,
}

/// Treatment of a request that has waited too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum TimeoutAction {
    /// Ends the request with an error.
    #[default]
    Reject,
    /// Computes the request after all others of its level.
    Delay,
}

/// Treatment of requests with different shapes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[schemars(rename = "Ragged")]
pub enum RaggedPolicy {
    /// Never computes them in one batch.
    #[default]
    Separate,
    /// Pads them to the same length.
    Pad,
}

/// A number that is compared by its bits, so that it can be a part of a key.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub struct PadValue(pub f64);

impl PartialEq for PadValue {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for PadValue {}

impl std::hash::Hash for PadValue {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

/// Checked limits of batches: [`DynamicBatchOptions`] without the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Batching {
    /// Maximum number of rows of a batch.
    pub max_batch_size: u32,
    /// Numbers of rows at which a batch is computed at once, ascending.
    pub preferred_batch_size: Vec<u32>,
    /// Maximum time that a request waits for others.
    pub max_queue_delay_microseconds: u64,
    /// Number of threads that compute batches.
    pub instances: u32,
    /// Level of requests without one, counted from 1.
    pub default_priority_level: u32,
    /// Priority levels in order. One if requests have no priorities.
    pub levels: Vec<BatchingLevel>,
    /// Treatment of requests with different shapes.
    pub ragged: RaggedPolicy,
    /// Number with which shorter tensors are padded.
    pub pad_value: PadValue,
}

/// Limits of the queue of one priority level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct BatchingLevel {
    /// Maximum time that a request may wait; 0 is no limit.
    pub timeout_microseconds: u64,
    /// Treatment of a request that has waited longer.
    pub timeout_action: TimeoutAction,
    /// Maximum number of waiting requests in this level.
    pub max_queue_size: u32,
}

impl Default for BatchingLevel {
    fn default() -> Self {
        Self {
            timeout_microseconds: 0,
            timeout_action: TimeoutAction::Reject,
            max_queue_size: DEFAULT_MAX_QUEUE_SIZE,
        }
    }
}

impl BatchingLevel {
    /// Returns the maximum time that a request may wait, or `None` for no limit.
    pub(super) fn timeout(&self) -> Option<Duration> {
        let micros = Some(self.timeout_microseconds).filter(|micros| *micros > 0);
        micros.map(Duration::from_micros)
    }
}

impl Batching {
    /// Creates limits for batches of this many rows, computed by one thread as soon as it is free.
    pub fn with_max_batch_size(max_batch_size: u32) -> Self {
        Self {
            max_batch_size,
            preferred_batch_size: Vec::new(),
            max_queue_delay_microseconds: 0,
            instances: 1,
            default_priority_level: 1,
            levels: vec![BatchingLevel::default()],
            ragged: RaggedPolicy::Separate,
            pad_value: PadValue::default(),
        }
    }

    /// Returns true if requests can name a level.
    pub fn has_priorities(&self) -> bool {
        self.levels.len() > 1
    }

    /// Returns the options that are out of range, each with a description of the fault.
    pub fn problems(&self) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        let most = self.max_batch_size.max(1);
        for size in &self.preferred_batch_size {
            if !(1..=most).contains(size) {
                let message = format!("must be from 1 to `max_batch_size`, {most}, not {size}");
                found.push(("preferred_batch_size", message));
            }
        }
        let mut in_range = |name, value: u64, low: u64, high: u64| {
            if !(low..=high).contains(&value) {
                let message = format!("must be from {low} to {high}, not {value}");
                found.push((name, message));
            }
        };
        let rows = u64::from(self.max_batch_size);
        in_range("max_batch_size", rows, 1, MAX_BATCH_SIZE.into());
        in_range("instances", self.instances.into(), 1, MAX_INSTANCES.into());
        let delay = self.max_queue_delay_microseconds;
        in_range("max_queue_delay_microseconds", delay, 0, MAX_MICROSECONDS);
        let levels = self.levels.len() as u64;
        in_range("priority_levels", levels, 1, MAX_PRIORITY_LEVELS.into());
        let default = u64::from(self.default_priority_level);
        in_range("default_priority_level", default, 1, levels.max(1));
        for level in &self.levels {
            let timeout = level.timeout_microseconds;
            in_range("default_timeout_microseconds", timeout, 0, MAX_MICROSECONDS);
        }
        if !self.pad_value.0.is_finite() {
            found.push(("pad_value", "must be a finite number".to_owned()));
        }
        found
    }

    /// Fails with the first of the [`problems`](Self::problems), if there is one.
    pub(super) fn check(&self) -> Result<()> {
        match self.problems().into_iter().next() {
            Some((option, message)) => {
                Err(Error::invalid(format!("`{option}` {message}")).with_field(option))
            }
            None => Ok(()),
        }
    }
}

impl<M> DynamicBatchOptions<M> {
    /// Returns the limits of batches. Errors go to the contract.
    pub(super) fn batching(&self, c: &mut Contract) -> Batching {
        let levels = self.priority_levels.clamp(1, MAX_PRIORITY_LEVELS + 1);
        let level = |number: u32| {
            let mut own = self.priority_queue_policy.iter();
            let own = own.find(|policy| policy.key == number);
            let own = own.map_or_else(QueuePolicy::default, |policy| policy.value.clone());
            let timeout = own.default_timeout_microseconds;
            BatchingLevel {
                timeout_microseconds: timeout.unwrap_or(self.default_timeout_microseconds),
                timeout_action: own.timeout_action.unwrap_or(self.timeout_action),
                max_queue_size: match own.max_queue_size.unwrap_or(self.max_queue_size) {
                    0 => DEFAULT_MAX_QUEUE_SIZE,
                    most => most,
                },
            }
        };
        let mut batching = Batching {
            max_batch_size: self.max_batch_size,
            preferred_batch_size: self.preferred_batch_size.clone(),
            max_queue_delay_microseconds: self.max_queue_delay_microseconds,
            instances: self.instances.max(1),
            default_priority_level: self.default_priority_level,
            levels: (1..=levels).map(level).collect(),
            ragged: self.ragged,
            pad_value: self.pad_value,
        };
        if self.max_batch_size == 0 {
            c.missing_option("max_batch_size", "8");
            batching.max_batch_size = MAX_BATCH_SIZE;
        }
        if self.priority_levels == 0 {
            if self.default_priority_level > 0 {
                let message = "`default_priority_level` has no effect without `priority_levels`";
                c.option_error("default_priority_level", message);
            }
            batching.default_priority_level = 1;
        } else if self.default_priority_level == 0 {
            c.missing_option("default_priority_level", "1");
            batching.default_priority_level = 1;
        }
        for policy in &self.priority_queue_policy {
            if !(1..=self.priority_levels).contains(&policy.key) {
                let message = format!(
                    "the `key` of a `priority_queue_policy` is {}, but `priority_levels` is {}",
                    policy.key, self.priority_levels
                );
                c.option_error("priority_queue_policy", message);
            }
        }
        if self.ragged == RaggedPolicy::Separate && self.pad_value != PadValue::default() {
            c.option_error(
                "pad_value",
                "`pad_value` has no effect without `ragged: PAD`",
            );
        }
        for (option, message) in batching.problems() {
            c.option_error(option, format!("`{option}` {message}"));
        }
        batching.preferred_batch_size.sort_unstable();
        batching
    }
}

impl From<&TensorInfo> for InputDescription {
    fn from(info: &TensorInfo) -> Self {
        Self {
            name: info.name.clone(),
            datatype: Some(info.datatype),
            shape: info.shape.clone(),
        }
    }
}
