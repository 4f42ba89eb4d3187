//! The keys of `config.json`, as they are written. Unknown keys are errors; what the values mean is
//! decided in [`super::resolve`]. The JSON schema that editors use is made from these types, whose
//! comments are its descriptions.

use std::{fmt, marker::PhantomData};

use schemars::{JsonSchema, schema_for};
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor, value::MapAccessDeserializer},
};

/// The JSON schema of the file.
pub(super) fn json_schema() -> serde_json::Value {
    schema_for!(File).to_value()
}

/// A JSON object, and not the array of a struct's fields that serde reads, too.
#[derive(Debug, JsonSchema)]
#[schemars(transparent)]
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

/// The graphs that Graphmill serves, in the format of `OpenVINO` Model Server's config.json.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Graphmill configuration")]
pub(super) struct File {
    /// The graphs to serve, each as the `config` of an entry.
    #[serde(default)]
    pub(super) model_config_list: Vec<Object<ModelEntry>>,
    /// The graphs to serve, in the older form. They come before those of `model_config_list`.
    #[serde(default)]
    pub(super) mediapipe_config_list: Vec<Object<Graph>>,
    /// Graph files that can be nodes of all graphs, and folders of such files, relative to the
    /// folder of this file.
    #[serde(default)]
    pub(super) subgraph_list: Vec<String>,
    /// Has no effect: `/metrics` is always served.
    #[serde(default)]
    pub(super) monitoring: Option<Object<Monitoring>>,
    /// For classic `OpenVINO` models: has to be empty.
    #[serde(default)]
    #[schemars(with = "Vec<serde_json::Value>", extend("maxItems" = 0))]
    pub(super) pipeline_config_list: Vec<IgnoredAny>,
    /// For classic `OpenVINO` models: has to be empty.
    #[serde(default)]
    #[schemars(with = "Vec<serde_json::Value>", extend("maxItems" = 0))]
    pub(super) custom_node_library_config_list: Vec<IgnoredAny>,
    /// For classic `OpenVINO` models: has to be empty.
    #[serde(default)]
    #[schemars(with = "Vec<serde_json::Value>", extend("maxItems" = 0))]
    pub(super) custom_loader_config_list: Vec<IgnoredAny>,
    /// Where editors find the schema of this file, as `graphmill schema` prints it.
    #[serde(default, rename = "$schema")]
    _schema: Option<String>,
}

/// An element of `model_config_list`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ModelEntry {
    /// The graph.
    pub(super) config: Object<Graph>,
}

/// A graph: an element of `mediapipe_config_list`, or the `config` of a [`ModelEntry`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "the file's keys")]
pub(super) struct Graph {
    /// The `model` of a request selects the graph by this name. It may have slashes.
    pub(super) name: String,
    /// The graph's folder, relative to that of this file; a folder with the graph's name when
    /// empty.
    #[serde(default)]
    pub(super) base_path: String,
    /// The graph file, relative to `base_path`; `graph.pbtxt` when empty.
    #[serde(default)]
    pub(super) graph_path: String,
    /// The list of the graph's classic models, relative to `base_path`; `subconfig.json` when
    /// empty. It has to be empty or missing.
    #[serde(default)]
    pub(super) subconfig: String,
}

/// What is measured.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Monitoring {
    /// Whether and which.
    pub(super) metrics: Object<Metrics>,
}

/// The metrics endpoint.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Metrics {
    /// Whether metrics are wanted.
    pub(super) enable: bool,
    /// Those that are wanted.
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
