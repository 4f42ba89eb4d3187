//! Types of the options of models.

use std::cmp::Ordering;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// A finite number. Configurations with such numbers can be compared and hashed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Number(f32);

impl Number {
    /// The number 1, the scale of an adapter that is applied as it was trained.
    pub const ONE: Self = Self(1.0);

    /// Creates a number; `None` if it is not finite.
    pub fn new(value: f32) -> Option<Self> {
        // Adding zero turns negative zero into positive zero.
        value.is_finite().then_some(Self(value + 0.0))
    }

    /// Returns the number, which is finite.
    pub fn get(self) -> f32 {
        self.0
    }
}

impl Eq for Number {}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl std::hash::Hash for Number {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = f32::deserialize(deserializer)?;
        Self::new(value).ok_or_else(|| serde::de::Error::custom("expected a finite number"))
    }
}

/// Buffer for tensors whose names contain a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(into = "String")]
#[schemars(with = "String")]
pub struct TensorOverride {
    /// Regular expression that is searched in tensor names.
    pub pattern: String,
    /// Name of a buffer type, such as `CPU` or `CUDA0`.
    pub buffer: String,
}

impl From<TensorOverride> for String {
    fn from(pair: TensorOverride) -> Self {
        format!("{}={}", pair.pattern, pair.buffer)
    }
}

impl<'de> Deserialize<'de> for TensorOverride {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.rsplit_once('=') {
            Some((pattern, buffer)) if !pattern.is_empty() && !buffer.is_empty() => Ok(Self {
                pattern: pattern.to_owned(),
                buffer: buffer.to_owned(),
            }),
            _ => Err(serde::de::Error::custom(format!(
                "expected `pattern=buffer`, not `{text}`"
            ))),
        }
    }
}

/// Declares a fixed set of names in a configuration.
macro_rules! names {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $text)] $variant,)+
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$variant => $text,)+
                })
            }
        }
    };
}

names! {
    /// Use of the fused attention kernel (flash attention).
    #[derive(Default)]
    FlashAttention {
        /// Used where it is faster: on GPUs that support it, and on the CPU unless the KV cache is
        /// per sequence and short enough for plain attention.
        #[default]
        Auto "auto",
        /// Always used, on every device.
        On "on",
        /// Never used; plain attention instead.
        Off "off",
    }
}

names! {
    /// Kernels for products of quantized matrices in main memory.
    #[derive(Default)]
    CpuKernels {
        /// Kernels of this project if the processor has AVX2. If a GPU takes part, only if
        /// `override_tensor` puts weights on the `CPU`. Weights that they use are packed at load
        /// instead of mapped.
        #[default]
        Auto "auto",
        /// Kernels of this project. If they cannot be used, the model is refused.
        On "on",
        /// Kernels of llama.cpp only.
        Off "off",
    }
}

names! {
    /// Scheduling of compute threads by the operating system.
    #[derive(Default)]
    ThreadPriority {
        /// Scheduled below all other threads.
        Low "low",
        /// Scheduled as an ordinary thread.
        #[default]
        Normal "normal",
        /// Real-time, before all threads that are not real-time.
        Medium "medium",
        /// Real-time, before threads with `medium`.
        High "high",
        /// Real-time, before threads with `high`.
        Realtime "realtime",
    }
}

names! {
    /// Distribution of threads over NUMA nodes.
    Numa {
        /// No distribution; the system decides.
        Off "off",
        /// Threads are spread evenly over all nodes.
        Distribute "distribute",
        /// Only on the node that the process started on.
        Isolate "isolate",
        /// On the nodes that `numactl` gave the process.
        Numactl "numactl",
    }
}

names! {
    /// Division of a model over GPUs.
    SplitMode {
        /// No division: one GPU has the whole model.
        None "none",
        /// Each GPU has whole layers.
        Layer "layer",
        /// Each GPU has rows of tensors.
        Row "row",
    }
}

names! {
    /// Scaling of rotary positions.
    RopeScaling {
        /// Positions are not scaled.
        None "none",
        /// All frequencies are scaled alike.
        Linear "linear",
        /// High frequencies are scaled less than low ones (`YaRN`).
        Yarn "yarn",
        /// Each dimension has a factor of its own, which the model provides.
        Longrope "longrope",
    }
}

names! {
    /// Rule that makes one vector from the vectors of a text's tokens.
    Pooling {
        /// The mean of all vectors.
        Mean "MEAN",
        /// The vector of the first token.
        Cls "CLS",
        /// The vector of the last token.
        Last "LAST",
        /// Scores that a head of the model computes.
        Rank "RANK",
    }
}

names! {
    /// Number type of cached keys or values.
    #[derive(Default)]
    KvType {
        /// 32-bit floating point: no loss.
        F32 "f32",
        /// 16-bit floating point, half of `f32`.
        #[default]
        F16 "f16",
        /// 16-bit brain floating point.
        Bf16 "bf16",
        /// Blocks of 8-bit integers.
        Q8_0 "q8_0",
        /// Blocks of 5-bit integers with an offset.
        Q5_1 "q5_1",
        /// Blocks of 5-bit integers.
        Q5_0 "q5_0",
        /// Blocks of 4-bit integers with an offset.
        Q4_1 "q4_1",
        /// Blocks of 4-bit integers.
        Q4_0 "q4_0",
    }
}

impl KvType {
    /// Returns the size of one block in bytes, and the numbers in it.
    pub fn block(self) -> (u64, u64) {
        match self {
            Self::F32 => (4, 1),
            Self::F16 | Self::Bf16 => (2, 1),
            Self::Q8_0 => (34, 32),
            Self::Q5_1 => (24, 32),
            Self::Q5_0 => (22, 32),
            Self::Q4_1 => (20, 32),
            Self::Q4_0 => (18, 32),
        }
    }

    /// Returns true if several numbers share a scale.
    pub fn is_quantized(self) -> bool {
        self.block().1 > 1
    }
}
