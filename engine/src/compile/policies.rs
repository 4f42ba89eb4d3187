//! Input policies: from the graph file, else from the contract, else the default.

use graphmill_grammar::{
    Diagnostic, OptionsMessage, Span,
    ast::{Message, Value, ValueKind},
    graph::InputStreamHandlerConfig,
    suggest,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    codes::{calculators, streams},
    contract::Group,
    policy::{FixedSize, Policy},
    registry::read_options,
};

use super::draft::{Draft, DraftNode, ports};

const NAMES: [&str; 8] = [
    "DefaultInputStreamHandler",
    "ImmediateInputStreamHandler",
    "SyncSetInputStreamHandler",
    "FixedSizeInputStreamHandler",
    "BarrierInputStreamHandler",
    "MuxInputStreamHandler",
    "EarlyCloseInputStreamHandler",
    "TimestampAlignInputStreamHandler",
];

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct SyncSetOptions {
    sync_set: Vec<SyncSetEntry>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct SyncSetEntry {
    tag_index: Vec<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct DefaultOptions {
    batch_size: i32,
}

impl Default for DefaultOptions {
    fn default() -> Self {
        Self { batch_size: 1 }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct FixedSizeOptions {
    #[serde(rename = "trigger_queue_size")]
    trigger: i32,
    #[serde(rename = "target_queue_size")]
    target: i32,
    #[serde(rename = "fixed_min_size")]
    min: bool,
}

impl Default for FixedSizeOptions {
    fn default() -> Self {
        Self {
            trigger: 2,
            target: 1,
            min: false,
        }
    }
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct TimestampAlignOptions {
    timestamp_base_tag_index: String,
}

pub(super) fn resolve(draft: &mut Draft<'_>) {
    let mut found = Vec::new();
    let mut policies = Vec::with_capacity(draft.nodes.len());
    for node in &draft.nodes {
        let declared = || node.contract.policy.clone().unwrap_or_default();
        let inherited = node.config.input_stream_handler.is_none();
        policies.push(match node.handler(draft.graph) {
            Some(_) if node.is_wrong => declared(),
            // A graph's policy applies only to nodes with inputs.
            Some(_) if inherited && node.inputs.is_empty() => declared(),
            Some(handler) => from_config(node, handler, &mut found).unwrap_or_else(declared),
            None => declared(),
        });
    }
    for (node, policy) in draft.nodes.iter_mut().zip(policies) {
        node.policy = policy;
    }
    draft.diagnostics.extend(found);
}

fn from_config(
    node: &DraftNode,
    handler: &InputStreamHandlerConfig,
    found: &mut Vec<Diagnostic>,
) -> Option<Policy> {
    let (name, span) = match &handler.input_stream_handler {
        Some(name) => (name.value.as_str(), name.span),
        None => (NAMES[0], handler.span),
    };
    let messages = || handler.options.iter().flat_map(|options| &options.messages);
    let is_own = |message: &OptionsMessage| message.short_name() == format!("{name}Options");
    let options = messages().find(|message| is_own(message));
    if let Some(other) = messages().find(|message| !is_own(message))
        && NAMES.contains(&name)
    {
        let message = format!("`{name}` takes no options of type `{}`", other.type_name());
        found.push(
            Diagnostic::warning(&calculators::NO_EFFECT, other.name.span, message)
                .label("these options have no effect"),
        );
    }
    let mut refuse = |span: Span, message: String| {
        found.push(Diagnostic::error(&streams::BAD_POLICY, span, message));
    };
    match name.strip_suffix("InputStreamHandler") {
        Some("Default") => {
            let read: DefaultOptions = read(options, found)?;
            batches(node, &read, span, found)
        }
        Some("Immediate") => Some(Policy::Immediate),
        Some("Barrier") => Some(Policy::Barrier),
        Some("EarlyClose") => Some(Policy::EarlyClose),
        Some("Mux") => {
            if node.inputs.len() < 2 {
                refuse(
                    span,
                    format!(
                        "`{name}` needs at least one data input and, sorted last, a control input"
                    ),
                );
            }
            Some(Policy::Mux)
        }
        Some("SyncSet") => sync_sets(node, options, span, found),
        Some("FixedSize") => {
            let read: FixedSizeOptions = read(options, found)?;
            let (trigger, target) = (read.trigger, read.target);
            if trigger < 0 || target < i32::from(read.min) {
                let least = i32::from(read.min);
                let message = format!(
                    "`{name}` needs a trigger_queue_size of at least 0 and a target_queue_size of at least {least}, but has {trigger} and {target}"
                );
                found.push(Diagnostic::error(&streams::BAD_POLICY, span, message));
                return None;
            }
            Some(Policy::FixedSize(FixedSize {
                trigger: trigger as usize,
                target: target as usize,
                min: read.min,
            }))
        }
        Some("TimestampAlign") => {
            let read: TimestampAlignOptions = read(options, found)?;
            let wanted = read.timestamp_base_tag_index;
            let place = place_of(&wanted, options, span);
            Some(Policy::TimestampAlign(input(node, &wanted, place, found)?))
        }
        _ => {
            let message = format!("unknown input policy `{name}`");
            let diagnostic = Diagnostic::error(&streams::UNKNOWN_POLICY, span, message);
            found.push(match suggest::nearest(name, NAMES) {
                Some(near) => diagnostic.did_you_mean(near, Some((span, format!("\"{near}\"")))),
                None => diagnostic.hint(format!("the input policies are {}", NAMES.join(", "))),
            });
            None
        }
    }
}

/// Makes the default policy, with one input set per call or in batches.
fn batches(
    node: &DraftNode,
    options: &DefaultOptions,
    span: Span,
    found: &mut Vec<Diagnostic>,
) -> Option<Policy> {
    let size = options.batch_size;
    let message = match &node.config.max_in_flight {
        _ if size == 1 => return Some(Policy::Default),
        _ if size < 1 => format!("`batch_size` must be at least 1, not {size}"),
        Some(limit) if limit.value > 1 => {
            "`batch_size` cannot be combined with `max_in_flight` above 1".to_owned()
        }
        _ if node.contract.bounds => format!(
            "`{}` is also called without packets, and such calls cannot be batched",
            node.calculator()
        ),
        _ => return Some(Policy::Batch(size as usize)),
    };
    found.push(
        Diagnostic::error(&streams::BAD_POLICY, span, message)
            .hint("leave out `batch_size`: 1 is the default"),
    );
    None
}

fn read<O: Default + serde::de::DeserializeOwned + JsonSchema>(
    options: Option<&OptionsMessage>,
    found: &mut Vec<Diagnostic>,
) -> Option<O> {
    let read = read_options(options);
    read.map_err(|wrong| found.extend(wrong)).ok()
}

fn sync_sets(
    node: &DraftNode,
    options: Option<&OptionsMessage>,
    span: Span,
    found: &mut Vec<Diagnostic>,
) -> Option<Policy> {
    let read: SyncSetOptions = read(options, found)?;
    let mut sets: Vec<Vec<u16>> = Vec::new();
    for entry in &read.sync_set {
        let mut set = Vec::new();
        if entry.tag_index.is_empty() {
            let place = options.map_or(span, |options| options.name.span);
            let message = "a sync set names at least one input";
            found.push(Diagnostic::error(&streams::BAD_POLICY, place, message));
        }
        for wanted in &entry.tag_index {
            let place = place_of(wanted, options, span);
            let Some(input) = input(node, wanted, place, found) else {
                continue;
            };
            if set.contains(&input) || sets.iter().any(|set| set.contains(&input)) {
                let message = format!("input `{wanted}` is in two sync sets");
                found.push(
                    Diagnostic::error(&streams::BAD_POLICY, place, message)
                        .label("each input is in one set"),
                );
            }
            set.push(input);
        }
        sets.push(set);
    }
    Some(Policy::SyncSet(sets))
}

/// Returns the position of an input of the node, and reports one that it does not have.
fn input(node: &DraftNode, wanted: &str, place: Span, found: &mut Vec<Diagnostic>) -> Option<u16> {
    let position = node.contract.tag_map(Group::Inputs).position(wanted);
    if position.is_none() {
        let code = &streams::BAD_POLICY;
        found.push(ports::no_such_input(node, code, wanted, place));
    }
    position.map(|input| input as u16)
}

/// Returns the location of a string with this content in the options: the options themselves if
/// there is none, `span` without options.
fn place_of(text: &str, options: Option<&OptionsMessage>, span: Span) -> Span {
    options.map_or(span, |options| {
        find(&options.body, text).unwrap_or(options.body.head())
    })
}

fn find(message: &Message, text: &str) -> Option<Span> {
    let mut fields = message.fields.iter();
    fields.find_map(|field| find_in(&field.value, text))
}

fn find_in(value: &Value, text: &str) -> Option<Span> {
    match &value.value {
        ValueKind::String(string) => (string.as_str() == Some(text)).then_some(value.span),
        ValueKind::List(values) => values.iter().find_map(|value| find_in(value, text)),
        ValueKind::Message(message) => find(message, text),
        _ => None,
    }
}
