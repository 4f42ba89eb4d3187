//! Containers: nodes that are replaced by a graph made from their own options and ports, such as
//! nodes in their options.
//!
//! A subgraph is a fixed file. A container makes its graph when the plan is compiled. The graph is
//! expanded like a subgraph: inner names get the node's name as a prefix, and names at the border
//! become those of the node's streams.

use graphmill_grammar::{Diagnostic, GraphConfig, Node, OptionsMessage};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::contract::Contract;

use super::{Description, read_options};

/// A node that makes the graph which replaces it.
pub trait Container: 'static {
    /// Name in graph files; unique in a registry.
    const NAME: &'static str;
    /// Description for `graphmill describe`: one or a few sentences.
    const DOC: &'static str;
    /// Message types that may carry the options. `<NAME>Options` is always accepted.
    const OPTION_NAMES: &'static [&'static str] = &[];
    /// Options of a node in a graph file.
    type Options: DeserializeOwned + JsonSchema + Default;

    /// Declares the ports, for descriptions of the container.
    fn contract(c: &mut Contract);

    /// Makes the graph that replaces the node, and reports all problems of the node. There is no
    /// graph if the problems prevent it. Its inputs, outputs and side packets are matched with
    /// those of the node by tag and index. `given` is the message that `options` were read from.
    ///
    /// Parts of the graph can reuse locations in the node's file, so that diagnostics point there.
    fn graph(
        node: &Node,
        options: &Self::Options,
        given: Option<&OptionsMessage>,
    ) -> (Option<GraphConfig>, Vec<Diagnostic>);
}

/// A function that makes the graph of one node.
type Expand = fn(&Node, Option<&OptionsMessage>) -> (Option<GraphConfig>, Vec<Diagnostic>);

/// The registration of a container.
#[derive(Copy, Clone)]
pub struct ContainerRegistration {
    /// Name of the container in graph files.
    pub name: &'static str,
    pub(crate) option_names: &'static [&'static str],
    pub(crate) expand: Expand,
    /// Path of the module that registers it.
    module: &'static str,
    describe: fn() -> Description,
}

impl ContainerRegistration {
    /// Makes the registration of a container.
    pub const fn new<C: Container>() -> Self {
        Self {
            name: C::NAME,
            option_names: C::OPTION_NAMES,
            expand: |node, given| match read_options::<C::Options>(given) {
                Ok(options) => C::graph(node, &options, given),
                Err(found) => (None, found),
            },
            module: "",
            describe: || {
                let declare = |contract: &mut Contract, _: &C::Options| C::contract(contract);
                Description {
                    policy: None,
                    ..Description::new(C::NAME, C::DOC, C::OPTION_NAMES, declare)
                }
            },
        }
    }

    /// Returns the registration with the path of its module.
    #[must_use]
    pub const fn in_module(self, module: &'static str) -> Self {
        Self { module, ..self }
    }

    /// Returns the description that `graphmill describe` prints.
    pub fn describe(&self) -> Description {
        Description {
            module: self.module,
            ..(self.describe)()
        }
    }
}

inventory::collect!(ContainerRegistration);

/// Makes a container known to [`Registry::global`](crate::Registry::global).
#[macro_export]
macro_rules! register_container {
    ($container:ty) => {
        $crate::registry::inventory::submit! {
            $crate::registry::container::ContainerRegistration::new::<$container>().in_module(module_path!())
        }
    };
}
