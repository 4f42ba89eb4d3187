//! Names of other servers for types of weights and devices.

use clap::ValueEnum;

/// The quantization of weights, by the names that other servers use.
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Quantization {
    /// Weights stay as they are.
    None,
    /// Quantizes to 4 bits: `Q4_K_M`.
    #[value(name = "4bit", aliases = ["int4", "bitsandbytes-nf4", "bitsandbytes-fp4"])]
    FourBit,
    /// Quantizes to 8 bits: `Q8_0`.
    #[value(name = "8bit", aliases = ["int8", "bitsandbytes", "eetq"])]
    EightBit,
}

impl Quantization {
    pub(super) const fn kind(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::FourBit => Some("Q4_K_M"),
            Self::EightBit => Some("Q8_0"),
        }
    }
}

/// The types of unquantized weights.
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Dtype {
    /// Any type that the model's files have.
    Auto,
    #[value(aliases = ["half", "fp16", "torch.float16"])]
    Float16,
    #[value(aliases = ["bf16", "torch.bfloat16"])]
    Bfloat16,
    #[value(aliases = ["float", "fp32", "torch.float32"])]
    Float32,
}

impl Dtype {
    pub(super) const fn kind(self) -> Option<&'static str> {
        match self {
            Self::Auto => None,
            Self::Float16 => Some("F16"),
            Self::Bfloat16 => Some("BF16"),
            Self::Float32 => Some("F32"),
        }
    }
}

/// Words of transformers' `device_map`, and the corresponding devices here.
const DEVICES: [(&str, &str); 7] = [
    ("auto", "AUTO"),
    ("balanced", "AUTO"),
    ("balanced_low_0", "AUTO"),
    ("sequential", "AUTO"),
    ("cpu", "CPU"),
    ("cuda", "GPU"),
    ("mps", "GPU"),
];

/// Reads a `device_map` of transformers: a word, `cuda:1`, or the number of a GPU.
pub(super) fn device(text: &str) -> Result<String, String> {
    let lower = text.to_ascii_lowercase();
    if let Some((_, device)) = DEVICES.iter().find(|(word, _)| *word == lower) {
        return Ok((*device).to_owned());
    }
    let number = lower.strip_prefix("cuda:").unwrap_or(&lower);
    match number.parse::<u32>() {
        Ok(number) => Ok(format!("GPU.{number}")),
        Err(_) => Err(
            "expected auto, cpu, cuda, cuda:1 or the number of a GPU; devices of single \
                       layers are in tensor_overrides of --plugin_config"
                .to_owned(),
        ),
    }
}
