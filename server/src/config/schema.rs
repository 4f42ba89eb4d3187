//! The keys of `config.json`. Unknown keys are errors. [`super::resolve`] interprets the values.
//! The JSON schema for editors is generated from these types, and their comments become its
//! descriptions.

use std::{collections::BTreeMap, fmt, marker::PhantomData, num::NonZeroU64};

use schemars::{JsonSchema, schema_for};
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, IgnoredAny, MapAccess, Visitor, value::MapAccessDeserializer},
};

use super::{GenerateForm, Observation};

/// Returns the JSON schema of a configuration, for editors.
pub fn json_schema() -> serde_json::Value {
    schema_for!(File).to_value()
}

/// A JSON object. Refuses the array of a struct's fields, which serde would accept, too.
#[derive(Debug, JsonSchema)]
#[schemars(transparent)]
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(fields))
            }
        }

        deserializer
            .deserialize_map(ObjectVisitor(PhantomData))
            .map(Self)
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
    /// The graphs to serve, in the older form. They come before the ones in `model_config_list`.
    #[serde(default)]
    pub(super) mediapipe_config_list: Vec<Object<Graph>>,
    /// Graph files that all graphs can use as nodes, and folders of such files, relative to the
    /// folder of this file.
    #[serde(default)]
    pub(super) subgraph_list: Vec<String>,
    /// Has no effect: `--enable_metrics_api false` turns `/metrics` off.
    #[serde(default)]
    pub(super) monitoring: Option<Object<Monitoring>>,
    /// Limits on the packets that operators see.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "Object<Observation>")]
    pub(super) observation: Option<Object<Observation>>,
    /// For classic `OpenVINO` models: must be empty.
    #[serde(default)]
    #[schemars(with = "Vec<serde_json::Value>", extend("maxItems" = 0))]
    pub(super) pipeline_config_list: Vec<IgnoredAny>,
    /// For classic `OpenVINO` models: must be empty.
    #[serde(default)]
    #[schemars(with = "Vec<serde_json::Value>", extend("maxItems" = 0))]
    pub(super) custom_node_library_config_list: Vec<IgnoredAny>,
    /// For classic `OpenVINO` models: must be empty.
    #[serde(default)]
    #[schemars(with = "Vec<serde_json::Value>", extend("maxItems" = 0))]
    pub(super) custom_loader_config_list: Vec<IgnoredAny>,
    /// Location of this file's schema for editors, as `graphmill schema` prints it.
    #[serde(default, rename = "$schema")]
    _schema: Option<String>,
}

/// An element of `model_config_list`, which has only a `config`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ModelEntry {
    /// The graph of this entry.
    pub(super) config: Object<Graph>,
}

/// A graph: an element of `mediapipe_config_list`, or the `config` of a [`ModelEntry`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "the file's keys")]
pub(super) struct Graph {
    /// Name of the graph, for the `model` of requests. It may contain slashes.
    pub(super) name: String,
    /// Additional names of the graph in requests. No other graph may have one of them.
    #[serde(default)]
    pub(super) aliases: Vec<String>,
    /// Folder of the graph, relative to the folder of this file. If empty, a folder with the
    /// graph's name.
    #[serde(default)]
    pub(super) base_path: String,
    /// Graph file, relative to `base_path`. If empty, `graph.pbtxt`.
    #[serde(default)]
    pub(super) graph_path: String,
    /// File with the graph's classic models, relative to `base_path`. If empty, `subconfig.json`.
    /// Its list must be empty, or the file missing.
    #[serde(default)]
    pub(super) subconfig: String,
    /// True if the server counts as ready without this graph.
    #[serde(default)]
    pub(super) optional: bool,
    /// Time at which the graph is loaded: when the server starts, or at the first request.
    #[serde(default, deserialize_with = "word_of_load")]
    pub(super) load: Load,
    /// Seconds without a request after which the graph is unloaded; 0 never unloads. The next
    /// request loads it again. Default: `--idle_unload_seconds`.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "u32")]
    pub(super) idle_unload_seconds: Option<u32>,
    /// Maximum milliseconds for an answer to a request that sets no time. Default: no limit.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "NonZeroU64")]
    pub(super) response_timeout_ms: Option<NonZeroU64>,
    /// Versions of the graph to serve, which are folders of `base_path`: `latest`, `all` or
    /// `specific`. Default: the newest, and those in `canary`.
    #[serde(default, deserialize_with = "one_policy")]
    #[schemars(with = "Policy")]
    pub(super) model_version_policy: Option<Policy>,
    /// Percentages, by version, of the requests that name no version: `{"2": 10}`. Other requests
    /// go to the newest version that is not listed here.
    #[serde(default, deserialize_with = "percents")]
    #[schemars(with = "BTreeMap<String, u32>", extend("propertyNames" = { "pattern": "^0*[1-9][0-9]*$" }))]
    pub(super) canary: BTreeMap<u64, u32>,
    /// Form of answers at `/generate` and `/generate_stream`: that of TGI or of LightLLM.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "GenerateForm")]
    pub(super) generate_form: Option<GenerateForm>,
    /// For classic `OpenVINO` models: has no effect on a graph, whose options are in its nodes.
    #[serde(default)]
    #[schemars(with = "bool")]
    pub(super) allow_cache: Option<IgnoredAny>,
    /// For classic `OpenVINO` models: has no effect on a graph, whose options are in its nodes.
    #[serde(default)]
    #[schemars(with = "IntegerOrText")]
    pub(super) batch_size: Option<IgnoredAny>,
    /// For classic `OpenVINO` models: has no effect on a graph, whose options are in its nodes.
    #[serde(default)]
    #[schemars(with = "Properties")]
    pub(super) custom_loader_options: Option<IgnoredAny>,
    /// For classic `OpenVINO` models: has no effect on a graph, whose options are in its nodes.
    #[serde(default)]
    #[schemars(with = "TextOrProperties")]
    pub(super) layout: Option<IgnoredAny>,
    /// For classic `OpenVINO` models: has no effect on a graph, whose options are in its nodes.
    #[serde(default)]
    #[schemars(with = "u32")]
    pub(super) nireq: Option<IgnoredAny>,
    /// For classic `OpenVINO` models: has no effect on a graph, whose options are in its nodes.
    #[serde(default)]
    #[schemars(with = "Properties")]
    pub(super) plugin_config: Option<IgnoredAny>,
    /// For classic `OpenVINO` models: has no effect on a graph, whose options are in its nodes.
    #[serde(default)]
    #[schemars(with = "TextOrProperties")]
    pub(super) shape: Option<IgnoredAny>,
    /// For classic `OpenVINO` models: has no effect on a graph, whose options are in its nodes.
    #[serde(default)]
    #[schemars(with = "String")]
    pub(super) target_device: Option<IgnoredAny>,
}

impl Graph {
    /// Returns the given options of classic models.
    pub(super) fn classic_options(&self) -> impl Iterator<Item = &'static str> {
        let options = [
            ("allow_cache", &self.allow_cache),
            ("batch_size", &self.batch_size),
            ("custom_loader_options", &self.custom_loader_options),
            ("layout", &self.layout),
            ("nireq", &self.nireq),
            ("plugin_config", &self.plugin_config),
            ("shape", &self.shape),
            ("target_device", &self.target_device),
        ];
        let given = options.into_iter().filter(|(_, value)| value.is_some());
        given.map(|(key, _)| key)
    }
}

/// A number, or a string such as `auto`.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "it describes a schema")]
enum IntegerOrText {
    Integer(u32),
    Text(String),
}

/// A string for all inputs, or an object with one per input.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "it describes a schema")]
enum TextOrProperties {
    Text(String),
    Properties(Properties),
}

/// An object whose keys are not described here.
type Properties = BTreeMap<String, serde_json::Value>;

/// The time at which a graph is loaded.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub(super) enum Load {
    /// Loads the graph when the server starts.
    #[default]
    AtStart,
    /// Loads the graph at its first request.
    OnDemand,
}

/// The versions to serve; exactly one field is set.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
pub(super) struct Policy {
    /// Serves all versions that exist.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "Object<All>")]
    pub(super) all: Option<Object<All>>,
    /// Serves the versions with the highest numbers.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "Object<Latest>")]
    pub(super) latest: Option<Object<Latest>>,
    /// Serves the listed versions that exist. Missing ones cause a warning; at least one must
    /// exist.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "Object<Specific>")]
    pub(super) specific: Option<Object<Specific>>,
}

/// Setting without fields, for all versions.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct All {}

/// Setting for the newest versions.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Latest {
    /// Number of versions to serve. Default: 1.
    #[serde(default = "one")]
    pub(super) num_versions: NonZeroU64,
}

fn one() -> NonZeroU64 {
    NonZeroU64::MIN
}

/// Setting that lists the versions to serve.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Specific {
    /// Numbers of the versions, at least one.
    #[schemars(extend("minItems" = 1))]
    pub(super) versions: Vec<NonZeroU64>,
}

/// Reads a value that must not be `null` if it is present.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(value: D) -> Result<Option<T>, D::Error> {
    T::deserialize(value).map(Some)
}

fn word_of_load<'de, D: Deserializer<'de>>(value: D) -> Result<Load, D::Error> {
    match String::deserialize(value)?.as_str() {
        "at_start" => Ok(Load::AtStart),
        "on_demand" => Ok(Load::OnDemand),
        _ => Err(D::Error::custom("expected `at_start` or `on_demand`")),
    }
}

fn one_policy<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Policy>, D::Error> {
    let Object(policy) = Object::<Policy>::deserialize(value)?;
    let given = [
        policy.all.is_some(),
        policy.latest.is_some(),
        policy.specific.is_some(),
    ];
    if given.into_iter().filter(|given| *given).count() != 1 {
        let message = "expected one of `all`, `latest` and `specific`";
        return Err(D::Error::custom(message));
    }
    let is_empty = |specific: &Object<Specific>| specific.0.versions.is_empty();
    if policy.specific.as_ref().is_some_and(is_empty) {
        return Err(D::Error::custom("`specific.versions` lists no version"));
    }
    Ok(Some(policy))
}

/// Reads percentages by version, whose sum is at most 100.
fn percents<'de, D: Deserializer<'de>>(value: D) -> Result<BTreeMap<u64, u32>, D::Error> {
    let Object(written) = Object::<BTreeMap<String, u32>>::deserialize(value)?;
    let mut percents = BTreeMap::new();
    for (version, percent) in written {
        let number = version.parse().ok().filter(|number| *number > 0);
        let Some(number) = number else {
            let message = format!("`{version}` is not a version: expected a number above 0");
            return Err(D::Error::custom(message));
        };
        percents.insert(number, percent);
    }
    let sum: u64 = percents.values().copied().map(u64::from).sum();
    if sum > 100 {
        let message = format!("the percentages add up to {sum}: expected at most 100");
        return Err(D::Error::custom(message));
    }
    Ok(percents)
}

/// Settings of monitoring, which have no effect.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Monitoring {
    /// Settings of the metrics endpoint.
    pub(super) metrics: Object<Metrics>,
}

/// Settings of the metrics endpoint, which have no effect.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Metrics {
    /// True to serve metrics; has no effect.
    pub(super) enable: bool,
    /// Names of metrics to serve.
    #[serde(default, rename = "metrics_list")]
    _metrics_list: Vec<String>,
}
