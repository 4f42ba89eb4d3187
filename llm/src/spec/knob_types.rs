//! The values that knobs have.

use std::cmp::Ordering;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// A finite number, so that configurations can be compared.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Number(f32);

impl Number {
    /// The number 1.
    pub const ONE: Self = Self(1.0);

    /// The number; `None` if it is not finite.
    pub fn new(value: f32) -> Option<Self> {
        // Adding zero makes one of the two zeros of the other.
        value.is_finite().then_some(Self(value + 0.0))
    }

    /// Its value.
    pub fn get(self) -> f32 {
        self.0
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
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

/// Where tensors go whose names contain a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(into = "String")]
#[schemars(with = "String")]
pub struct TensorOverride {
    /// A regular expression.
    pub pattern: String,
    /// The name of a buffer type, such as `CPU` or `CUDA0`.
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

/// A fixed set of names in a configuration.
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
    /// When attention is computed by the fused kernel.
    #[derive(Default)]
    FlashAttention {
        /// Where it is the faster one: on GPUs that support it, and on the CPU unless the KV cache
        /// is per sequence and short enough for plain attention.
        #[default]
        Auto "auto",
        /// Always.
        On "on",
        /// Never.
        Off "off",
    }
}

names! {
    /// Who computes the products of quantized matrices in main memory.
    #[derive(Default)]
    CpuKernels {
        /// Kernels of this project where the processor has AVX2; where a GPU takes part, only if
        /// `override_tensor` puts weights on the `CPU`. Weights that they use are packed at load
        /// instead of mapped.
        #[default]
        Auto "auto",
        /// Kernels of this project. Where they cannot be used, the model is refused.
        On "on",
        /// llama.cpp.
        Off "off",
    }
}

names! {
    /// How the operating system schedules threads that compute.
    #[derive(Default)]
    ThreadPriority {
        /// Behind everything else.
        Low "low",
        /// As all threads.
        #[default]
        Normal "normal",
        /// Real-time, before all threads that are not.
        Medium "medium",
        /// Real-time, before `medium`.
        High "high",
        /// Real-time, before `high`.
        Realtime "realtime",
    }
}

names! {
    /// How threads are spread over NUMA nodes.
    Numa {
        /// Not at all.
        Off "off",
        /// Evenly over all nodes.
        Distribute "distribute",
        /// On the node that the process started on.
        Isolate "isolate",
        /// As `numactl` told the process.
        Numactl "numactl",
    }
}

names! {
    /// How a model is divided over GPUs.
    SplitMode {
        /// One GPU has all of it.
        None "none",
        /// By whole layers.
        Layer "layer",
        /// By rows of tensors.
        Row "row",
    }
}

names! {
    /// How rotary positions are scaled.
    RopeScaling {
        /// Not at all.
        None "none",
        /// All frequencies alike.
        Linear "linear",
        /// High frequencies less than low ones.
        Yarn "yarn",
        /// By a factor for each dimension, which the model brings.
        Longrope "longrope",
    }
}

names! {
    /// Number types of the KV cache.
    #[derive(Default)]
    KvType {
        /// 32-bit float.
        F32 "f32",
        /// 16-bit float.
        #[default]
        F16 "f16",
        /// 16-bit brain float.
        Bf16 "bf16",
        /// 8-bit blocks.
        Q8_0 "q8_0",
        /// 5-bit blocks with an offset.
        Q5_1 "q5_1",
        /// 5-bit blocks.
        Q5_0 "q5_0",
        /// 4-bit blocks with an offset.
        Q4_1 "q4_1",
        /// 4-bit blocks.
        Q4_0 "q4_0",
    }
}

impl KvType {
    /// Bytes of one block and how many numbers it holds.
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

    /// Whether several numbers share a scale.
    pub fn is_quantized(self) -> bool {
        self.block().1 > 1
    }
}
