//! The keys of `config.json`, as they are written. Unknown keys are errors; what the values mean is
//! decided in [`super::resolve`].

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor, value::MapAccessDeserializer},
};

/// A JSON object, and not the array of a struct's fields that serde reads, too.
#[derive(Debug)]
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(fields))
            }
        }

        deserializer.deserialize_map(Fields(PhantomData)).map(Self)
    }
}

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(default)]
    pub(super) model_config_list: Vec<Object<ModelEntry>>,
    #[serde(default)]
    pub(super) mediapipe_config_list: Vec<Object<Graph>>,
    /// Graph files that can be nodes of all graphs, and folders of such files.
    #[serde(default)]
    pub(super) subgraph_list: Vec<String>,
    #[serde(default)]
    pub(super) monitoring: Option<Object<Monitoring>>,
    /// Accepted while empty, as tools write it.
    #[serde(default)]
    pub(super) pipeline_config_list: Vec<IgnoredAny>,
    /// Accepted while empty.
    #[serde(default)]
    pub(super) custom_node_library_config_list: Vec<IgnoredAny>,
    /// Accepted while empty.
    #[serde(default)]
    pub(super) custom_loader_config_list: Vec<IgnoredAny>,
}

/// An element of `model_config_list`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ModelEntry {
    pub(super) config: Object<Graph>,
}

/// A graph: an element of `mediapipe_config_list`, or the `config` of a [`ModelEntry`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "the file's keys")]
pub(super) struct Graph {
    pub(super) name: String,
    #[serde(default)]
    pub(super) base_path: String,
    #[serde(default)]
    pub(super) graph_path: String,
    #[serde(default)]
    pub(super) subconfig: String,
}

/// What is measured.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Monitoring {
    pub(super) metrics: Object<Metrics>,
}

/// The metrics endpoint.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Metrics {
    pub(super) enable: bool,
    #[serde(default, rename = "metrics_list")]
    _metrics_list: Vec<String>,
}

/// Keys of classic models in OpenVINO Model Server's schema. A graph has no use for them.
pub(super) const CLASSIC_KEYS: &[&str] = &[
    "allow_cache",
    "batch_size",
    "custom_loader_options",
    "layout",
    "model_version_policy",
    "nireq",
    "plugin_config",
    "shape",
    "target_device",
];
