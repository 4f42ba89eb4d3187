//! Parsing a graph's `plugin_config`: options of this project, and OpenVINO properties from OVMS
//! graphs.

use serde_json::{Map, Value};

use super::SpecError;
use super::knob_types::KvType;
use super::knobs::PluginConfig;

/// OpenVINO properties without effect here, with the reason.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("ATTENTION_BACKEND", "`flash_attention` chooses the kernel"),
    ("CACHE_DIR", "nothing is compiled at load"),
    ("CACHE_MODE", "nothing is compiled at load"),
    ("CPU_DENORMALS_OPTIMIZATION", "the kernels decide"),
    (
        "DYNAMIC_QUANTIZATION_GROUP_SIZE",
        "the model file's type decides",
    ),
    ("ENABLE_HYPER_THREADING", "`threads` counts threads"),
    ("EXECUTION_MODE_HINT", "the model file's type decides"),
    ("INFERENCE_PRECISION_HINT", "the model file's type decides"),
    ("KEY_CACHE_GROUP_SIZE", "the cache's type has its own"),
    ("LOG_LEVEL", "the server's log level decides"),
    (
        "MODEL_DISTRIBUTION_POLICY",
        "`split_mode` and `tensor_split` divide a model",
    ),
    ("MODEL_PRIORITY", "`thread_priority` schedules threads"),
    ("NUM_STREAMS", "all requests share one engine"),
    ("PERFORMANCE_HINT", "all requests share one engine"),
    (
        "PERFORMANCE_HINT_NUM_REQUESTS",
        "`max_num_seqs` counts sequences",
    ),
    ("PERF_COUNT", "the server's metrics are always on"),
    ("SCHEDULING_CORE_TYPE", "`cpu_affinity` places threads"),
    ("VALUE_CACHE_GROUP_SIZE", "the cache's type has its own"),
];

/// OpenVINO properties with the equivalent options of this project.
const MAPPED: &[(&str, &[&str])] = &[
    ("KV_CACHE_PRECISION", &["kv_type_k", "kv_type_v"]),
    ("KEY_CACHE_PRECISION", &["kv_type_k"]),
    ("VALUE_CACHE_PRECISION", &["kv_type_v"]),
    ("INFERENCE_NUM_THREADS", &["threads"]),
    ("ENABLE_CPU_PINNING", &["cpu_strict"]),
    ("ENABLE_MMAP", &["mmap"]),
];

impl PluginConfig {
    /// Parses the JSON text of a graph's `plugin_config`; an empty text is the default. OpenVINO
    /// properties set the equivalent options; those without effect are logged.
    ///
    /// # Errors
    /// [`SpecError::PluginConfig`] with the option that is unknown or has a wrong value.
    pub fn from_json(text: &str) -> Result<Self, SpecError> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let given: Map<String, Value> = serde_json::from_str(text)
            .map_err(|error| wrong(format!("expected a JSON object: {error}")))?;
        let names = knob_names();
        let mut knobs = Map::new();
        for (name, value) in &given {
            if names.iter().any(|known| known == name) {
                put(&mut knobs, name, name, value.clone())?;
            } else if let Some((_, targets)) = MAPPED.iter().find(|(known, _)| known == name) {
                let mapped = translate(name, value)?;
                for target in *targets {
                    put(&mut knobs, name, target, mapped.clone())?;
                }
            } else if let Some((_, why)) = WITHOUT_EFFECT.iter().find(|(known, _)| known == name) {
                tracing::warn!(property = %name, why, "a property in `plugin_config` has no effect");
            } else {
                return Err(unknown(name, &names));
            }
        }
        serde_path_to_error::deserialize(Value::Object(knobs))
            .map_err(|error| wrong(format!("`{}`: {}", error.path(), error.inner())))
    }
}

/// Adds an option. Two names may set the same option only to the same value.
fn put(
    knobs: &mut Map<String, Value>,
    name: &str,
    knob: &str,
    value: Value,
) -> Result<(), SpecError> {
    match knobs.get(knob) {
        Some(other) if *other != value => Err(wrong(format!(
            "`{name}` sets `{knob}` to {value}, but another name sets it to {other}"
        ))),
        _ => {
            knobs.insert(knob.to_owned(), value);
            Ok(())
        }
    }
}

fn translate(name: &str, value: &Value) -> Result<Value, SpecError> {
    let text = value.as_str().map(str::to_ascii_lowercase);
    let translated = match name {
        "INFERENCE_NUM_THREADS" => {
            let number = value
                .as_u64()
                .or_else(|| text.and_then(|text| text.parse().ok()));
            // 0 is OpenVINO's default.
            number.map(|number| match number {
                0 => Value::Null,
                number => number.into(),
            })
        }
        "ENABLE_CPU_PINNING" | "ENABLE_MMAP" => {
            value.as_bool().map(Value::Bool).or(match text.as_deref() {
                Some("yes" | "true") => Some(true.into()),
                Some("no" | "false") => Some(false.into()),
                _ => None,
            })
        }
        _ => cache_type(text.as_deref()).map(|kind| kind.to_string().into()),
    };
    translated.ok_or_else(|| wrong(format!("`{name}` cannot be {value}")))
}

/// Returns the cache type with the precision of this OpenVINO name.
fn cache_type(name: Option<&str>) -> Option<KvType> {
    match name? {
        "f32" => Some(KvType::F32),
        "f16" => Some(KvType::F16),
        "bf16" => Some(KvType::Bf16),
        "u8" | "i8" => Some(KvType::Q8_0),
        "u4" | "i4" => Some(KvType::Q4_0),
        _ => None,
    }
}

/// Returns the names of all options, as they are written.
fn knob_names() -> Vec<String> {
    let schema = schemars::schema_for!(PluginConfig);
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.map_or_else(Vec::new, |properties| properties.keys().cloned().collect())
}

fn unknown(name: &str, names: &[String]) -> SpecError {
    let known = names
        .iter()
        .map(String::as_str)
        .chain(MAPPED.iter().map(|(name, _)| *name))
        .chain(WITHOUT_EFFECT.iter().map(|(name, _)| *name));
    let distance =
        |candidate: &&str| strsim::osa_distance(&name.to_lowercase(), &candidate.to_lowercase());
    let nearest = known
        .min_by_key(distance)
        .filter(|candidate| distance(candidate) <= (name.len() / 3).max(1));
    wrong(match nearest {
        Some(near) => format!("unknown knob `{name}`; did you mean `{near}`?"),
        None => format!(
            "unknown knob `{name}`, expected one of `{}`",
            names.join("`, `")
        ),
    })
}

fn wrong(message: String) -> SpecError {
    SpecError::PluginConfig { message }
}
