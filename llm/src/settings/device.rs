//! Devices that compute a model, and OpenVINO's names for them.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::SpecError;

/// Device that computes a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Device {
    /// A GPU if this build and machine have one, otherwise the CPU.
    #[default]
    Auto,
    /// The CPU, even if there are GPUs.
    Cpu,
    /// The GPU with this number, from 0.
    Gpu(u32),
}

impl FromStr for Device {
    type Err = SpecError;

    /// Parses `AUTO`, `CPU`, `GPU` and `GPU.1`; an empty text is `AUTO`. In OpenVINO's lists,
    /// `AUTO:` takes the first available device, `HETERO:` computes on the first and falls back to
    /// the CPU, and `MULTI:` may name only one.
    fn from_str(text: &str) -> Result<Self, SpecError> {
        let upper = text.to_ascii_uppercase();
        let unknown = || {
            SpecError::Device(format!(
                "unknown device `{text}`, expected `AUTO`, `CPU`, `GPU` or `GPU.<number>`"
            ))
        };
        let device = |name: &str| one(name.trim()).ok_or_else(unknown);
        let Some((kind, list)) = upper.split_once(':') else {
            return if upper.is_empty() {
                Ok(Self::Auto)
            } else {
                device(&upper)
            };
        };
        let listed = list.split(',').map(device).collect::<Result<Vec<_>, _>>()?;
        let why = match (kind, listed.as_slice()) {
            ("AUTO" | "HETERO" | "MULTI", [only]) => return Ok(*only),
            // The CPU is always available, and computes everything.
            ("AUTO" | "HETERO", [Self::Cpu, ..]) => return Ok(Self::Cpu),
            ("AUTO", [Self::Gpu(0), Self::Cpu]) => return Ok(Self::Auto),
            ("HETERO", [gpu, Self::Cpu]) => return Ok(*gpu),
            ("AUTO", _) => "chooses among several GPUs: name one, or write `AUTO` for all of them",
            ("HETERO", _) => {
                "divides the model over several GPUs: write `AUTO`, and `tensor_split` in `plugin_config` for their shares"
            }
            ("MULTI", _) => {
                "asks for a copy of the model on each device, and an engine has one: write a graph for each device, or `AUTO`"
            }
            _ => return Err(unknown()),
        };
        Err(SpecError::Device(format!("`{text}` {why}")))
    }
}

/// Parses the name of one device, in capital letters.
fn one(name: &str) -> Option<Device> {
    match name {
        "AUTO" => Some(Device::Auto),
        "CPU" => Some(Device::Cpu),
        "GPU" => Some(Device::Gpu(0)),
        _ => name.strip_prefix("GPU.")?.parse().ok().map(Device::Gpu),
    }
}
