//! Descriptions of calculators, derived from their contracts for default options.

use schemars::JsonSchema;
use serde::Serialize;

use crate::contract::{Arity, Contract, Group, PortDeclaration, PortSpec, Run};

/// Everything known about a calculator without a graph.
#[derive(Clone, Debug, Serialize)]
pub struct Description {
    /// Name of the calculator in graph files.
    pub name: &'static str,
    /// Path of the Rust module that registers it; empty if it was added by hand.
    #[serde(skip)]
    pub module: &'static str,
    /// Description by the author: one or a few sentences.
    pub doc: &'static str,
    /// Ports that the contract declares for default options.
    pub ports: Vec<PortDescription>,
    /// Default input policy; absent for a container.
    pub policy: Option<String>,
    /// Default place: inline or an executor.
    pub runs: String,
    /// Set if the node is also called at settled timestamps without packets.
    pub bounds: bool,
    /// Message types that may carry the options.
    pub option_names: Vec<String>,
    /// JSON schema of the options.
    pub options: schemars::Schema,
}

/// A port of a [`Description`].
#[derive(Clone, Debug, Serialize)]
pub struct PortDescription {
    /// `input_stream`, `output_stream`, `input_side_packet` or `output_side_packet`.
    pub kind: &'static str,
    /// Tag; empty for ports without one.
    pub tag: String,
    /// Name of the type, `any`, or `same as TAG`.
    pub ty: String,
    /// Set if the port may be left unconnected.
    pub optional: bool,
    /// Set if there may be several such ports: `TAG:0`, `TAG:1`, ...
    pub repeated: bool,
}

impl Description {
    /// Makes the description from the contract that `declare` makes for default options.
    pub(crate) fn new<O: JsonSchema + Default, P>(
        name: &'static str,
        doc: &'static str,
        option_names: &[&str],
        declare: impl FnOnce(&mut Contract, &O) -> P,
    ) -> Self {
        let mut contract = Contract::describing();
        declare(&mut contract, &O::default());
        let port = |declared: &PortDeclaration| PortDescription {
            kind: declared.group.field(),
            tag: declared.tag.clone(),
            ty: describe_type(&declared.spec, &contract),
            optional: matches!(declared.arity, Arity::Optional | Arity::OptionalRepeated),
            repeated: matches!(declared.arity, Arity::Repeated | Arity::OptionalRepeated),
        };
        let own = format!("{name}Options");
        let option_names = option_names.iter().copied().chain([own.as_str()]);
        let runs = match contract.run {
            Some(Run::Offload(executor)) => format!("on the executor `{executor}`"),
            Some(Run::Inline) | None => "inline".to_owned(),
        };
        Self {
            name,
            module: "",
            doc,
            ports: contract.declared.iter().map(port).collect(),
            policy: Some(format!("{:?}", contract.policy.clone().unwrap_or_default())),
            runs,
            bounds: contract.bounds,
            option_names: option_names.map(str::to_owned).collect(),
            options: schemars::schema_for!(O),
        }
    }
}

fn describe_type(spec: &PortSpec, contract: &Contract) -> String {
    match spec {
        PortSpec::Any => "any".to_owned(),
        PortSpec::Exact(of) => of.name(),
        PortSpec::OneOf(types) => {
            let names: Vec<String> = types.iter().map(|of| of.name()).collect();
            names.join(" | ")
        }
        PortSpec::SameAs(group, index) => {
            let declared = contract.declared.iter();
            let other = declared
                .filter(|other| other.group == *group)
                .nth(*index as usize);
            match (other.map_or("", |other| other.tag.as_str()), *group) {
                ("", Group::InputSides) => "same as the side packet".to_owned(),
                ("", _) => "same as the input".to_owned(),
                (tag, _) => format!("same as {tag}"),
            }
        }
    }
}
