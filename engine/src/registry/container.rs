//! Containers: nodes that stand for a graph which is made from what the node itself says, such as
//! nodes in its options.
//!
//! A subgraph is a file and always the same; a container makes its graph when the plan is compiled,
//! from its ports and options. What it makes is expanded like a subgraph: names inside get the
//! node's name as a prefix, names at the border those of the node's streams.

use graphmill_grammar::{Diagnostic, GraphConfig, Node, OptionsMessage};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::contract::Contract;

use super::{Description, read_options};

/// A node that is replaced by a graph of its own making.
pub trait Container: 'static {
    /// The name in graph files.
    const NAME: &'static str;
    /// One or a few sentences for `graphmill describe`.
    const DOC: &'static str;
    /// The message types that may carry the options; `<NAME>Options` always may.
    const OPTION_NAMES: &'static [&'static str] = &[];
    /// What the graph file can set.
    type Options: DeserializeOwned + JsonSchema + Default;

    /// Declares the ports, for those who ask what the container takes.
    fn contract(c: &mut Contract);

    /// Makes the graph that takes the node's place, and tells all that is wrong with the node; no
    /// graph if what is wrong leaves nothing to be made. Its inputs, outputs and side packets are
    /// matched with those of the node by tag and index. `given` is the message that `options` were
    /// read from.
    ///
    /// Places in the node's file can be reused for the parts of the graph, so that diagnostics
    /// about them point there.
    fn graph(
        node: &Node,
        options: &Self::Options,
        given: Option<&OptionsMessage>,
    ) -> (Option<GraphConfig>, Vec<Diagnostic>);
}

/// Makes the graph of one node.
type Expand = fn(&Node, Option<&OptionsMessage>) -> (Option<GraphConfig>, Vec<Diagnostic>);

/// A container that can be named in a graph.
#[derive(Copy, Clone)]
pub struct ContainerRegistration {
    /// Its name in graph files.
    pub name: &'static str,
    pub(crate) option_names: &'static [&'static str],
    pub(crate) expand: Expand,
    /// The path of the module that registers it.
    module: &'static str,
    describe: fn() -> Description,
}

impl ContainerRegistration {
    /// The registration of a container.
    pub const fn of<C: Container>() -> Self {
        Self {
            name: C::NAME,
            option_names: C::OPTION_NAMES,
            expand: |node, given| match read_options::<C::Options>(given) {
                Ok(options) => C::graph(node, &options, given),
                Err(found) => (None, found),
            },
            module: "",
            describe: || {
                let declare = |contract: &mut Contract, _: &_| C::contract(contract);
                Description {
                    policy: None,
                    ..Description::of::<C::Options>(C::NAME, C::DOC, C::OPTION_NAMES, declare)
                }
            },
        }
    }

    /// The registration with the path of the module that makes it.
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
            $crate::registry::container::ContainerRegistration::of::<$container>().in_module(module_path!())
        }
    };
}
