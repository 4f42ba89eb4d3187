//! Contracts: declarations of a node's ports and behavior, made when a plan is compiled.
//!
//! The declarations are checked against the ports that the graph connects. Nothing here fails.
//! Problems are recorded, and compilation turns those of all nodes into diagnostics with spans.

use std::any::TypeId;

use crate::{
    policy::Policy,
    port::{Out, PortType},
    tags::TagMap,
};

mod ports;
mod resources;
mod spec;

pub use crate::port::Group;
pub(crate) use resources::ResourceNeed;
pub use spec::{Arity, Offset, Run};
pub(crate) use spec::{PortDeclaration, PortSpec};

#[derive(Debug, Default)]
struct Ports {
    tags: TagMap,
    specs: Vec<Option<PortSpec>>,
}

impl Ports {
    fn new(tags: TagMap) -> Self {
        let specs = vec![None; tags.len()];
        Self { tags, specs }
    }
}

/// A problem with a node that its calculator reports.
#[derive(Clone, Debug)]
pub(crate) enum Problem {
    /// The ports or options do not fit together.
    Combination(String),
    /// The value of an option is not allowed; `path` leads to the option.
    Option { path: String, message: String },
    /// A required option is missing. `example` is a value in the form of a graph file.
    MissingOption { name: String, example: String },
}

/// Declarations of a node, made by `contract` of its calculator.
pub struct Contract {
    ports: [Ports; 4],
    /// Set while a calculator is described without a node. Every declared port then exists.
    describing: bool,
    pub(crate) declared: Vec<PortDeclaration>,
    pub(crate) missing: Vec<PortDeclaration>,
    pub(crate) problems: Vec<Problem>,
    pub(crate) resources: Vec<ResourceNeed>,
    pub(crate) event_types: Vec<TypeId>,
    pub(crate) policy: Option<Policy>,
    pub(crate) offset: Offset,
    pub(crate) output_offsets: Vec<(u16, Offset)>,
    pub(crate) bounds: bool,
    pub(crate) run: Option<Run>,
    pub(crate) parallel: bool,
}

impl Contract {
    pub(crate) fn new(ports: [TagMap; 4]) -> Self {
        Self {
            ports: ports.map(Ports::new),
            describing: false,
            declared: Vec::new(),
            missing: Vec::new(),
            problems: Vec::new(),
            resources: Vec::new(),
            event_types: Vec::new(),
            policy: None,
            offset: Offset::default(),
            output_offsets: Vec::new(),
            bounds: false,
            run: None,
            parallel: false,
        }
    }

    pub(crate) fn describing() -> Self {
        let mut contract = Self::new(Default::default());
        contract.describing = true;
        contract
    }

    /// Sets the input policy, unless the graph file names one. The default is [`Policy::Default`].
    pub fn policy(&mut self, policy: Policy) {
        self.policy = Some(policy);
    }

    /// Sets the timestamp offset of all outputs. The default is [`Offset::Same`].
    pub fn offset(&mut self, offset: Offset) {
        self.offset = offset;
    }

    /// Sets the timestamp offset of one output.
    pub fn output_offset<T: ?Sized + PortType>(&mut self, output: Out<T>, offset: Offset) {
        if let Some(index) = output.index() {
            self.output_offsets.push((index as u16, offset));
        }
    }

    /// Asks for calls also at settled timestamps without a packet on any input.
    pub fn process_timestamp_bounds(&mut self) {
        self.bounds = true;
    }

    /// Sets where the node runs, unless the graph file does. The default is [`Run::Inline`].
    pub fn run(&mut self, run: Run) {
        self.run = Some(run);
    }

    /// Declares that calls of the node are independent. Up to `max_in_flight` of them may then run
    /// at once, on an executor or as futures. Each concurrent call uses its own instance. All
    /// instances are opened; only the output of the first `open` counts, and only one instance is
    /// closed. The output of calls leaves the node in the order of the calls.
    pub fn parallel(&mut self) {
        self.parallel = true;
    }

    /// Reports a wrong combination of ports or options.
    pub fn error(&mut self, message: impl Into<String>) {
        self.problem(Problem::Combination(message.into()));
    }

    /// Reports a wrong value of an option. `path` names it as in a graph file, `field` or
    /// `message.field`. The diagnostic points to the value in the graph.
    pub fn option_error(&mut self, path: &str, message: impl Into<String>) {
        self.problem(Problem::Option {
            path: path.to_owned(),
            message: message.into(),
        });
    }

    /// Reports a missing option. `example` is a value in the form of a graph file, with quotes.
    pub fn missing_option(&mut self, name: &str, example: &str) {
        self.problem(Problem::MissingOption {
            name: name.to_owned(),
            example: example.to_owned(),
        });
    }

    fn problem(&mut self, problem: Problem) {
        if !self.describing {
            self.problems.push(problem);
        }
    }

    /// Returns the tags of a group's connected ports, sorted, each once. Returns the empty tag
    /// while the calculator is only described.
    pub fn tags(&self, group: Group) -> Vec<String> {
        if self.describing {
            return vec![String::new()];
        }
        let tags = self.ports[group as usize].tags.tags();
        tags.map(str::to_owned).collect()
    }

    /// Returns the number of connected ports with a tag.
    pub fn count(&self, group: Group, tag: &str) -> usize {
        self.ports[group as usize].tags.range(tag).len()
    }

    pub(crate) fn spec(&self, group: Group, index: usize) -> Option<&PortSpec> {
        self.ports[group as usize].specs[index].as_ref()
    }

    pub(crate) fn tag_map(&self, group: Group) -> &TagMap {
        &self.ports[group as usize].tags
    }
}
