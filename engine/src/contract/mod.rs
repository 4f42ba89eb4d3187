//! Contracts: what a node declares about its ports and behavior when a plan is compiled.
//!
//! The declarations are checked against the ports that the graph really connects. Nothing here
//! fails: what does not fit is noted, and the plan turns all notes of all nodes into diagnostics
//! with spans.

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
pub(crate) use spec::{Declared, PortSpec};

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

/// What a calculator says is wrong with a node.
#[derive(Clone, Debug)]
pub(crate) enum Problem {
    /// Ports or options do not go together.
    Combination(String),
    /// The value of the option at this path is not allowed.
    Option { path: String, message: String },
    /// An option has to be given: its name, and a value as a graph file may write it.
    MissingOption { name: String, example: String },
}

/// What a node declares. Passed to `contract` of its calculator.
pub struct Contract {
    ports: [Ports; 4],
    /// True while a calculator is only described: every declared port exists then.
    describing: bool,
    pub(crate) declared: Vec<Declared>,
    pub(crate) missing: Vec<Declared>,
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

    /// The input policy, unless the graph file sets one. The default is [`Policy::Default`].
    pub fn policy(&mut self, policy: Policy) {
        self.policy = Some(policy);
    }

    /// The timestamp offset of all outputs. The default is [`Offset::Same`].
    pub fn offset(&mut self, offset: Offset) {
        self.offset = offset;
    }

    /// The timestamp offset of one output.
    pub fn output_offset<T: ?Sized + PortType>(&mut self, output: Out<T>, offset: Offset) {
        if let Some(index) = output.index() {
            self.output_offsets.push((index as u16, offset));
        }
    }

    /// Asks for a call also at timestamps that are settled without a packet on any input.
    pub fn process_timestamp_bounds(&mut self) {
        self.bounds = true;
    }

    /// Where the node runs, unless the graph file says so. The default is [`Run::Inline`].
    pub fn run(&mut self, run: Run) {
        self.run = Some(run);
    }

    /// Says that calls of the node do not depend on each other, so that `max_in_flight` of them may
    /// be made at once, on an executor or as futures. Each is made by an instance of its own: all
    /// are opened alike, what the first one emits while it opens counts, and one is closed. What
    /// calls put out leaves the node in the order of the calls.
    pub fn parallel(&mut self) {
        self.parallel = true;
    }

    /// Says that the combination of ports or options is wrong.
    pub fn error(&mut self, message: impl Into<String>) {
        self.problem(Problem::Combination(message.into()));
    }

    /// Says that the value of an option is wrong. The option is named as in a graph file, `field`
    /// or `message.field`, and is pointed to where the graph gives it.
    pub fn option_error(&mut self, path: &str, message: impl Into<String>) {
        self.problem(Problem::Option {
            path: path.to_owned(),
            message: message.into(),
        });
    }

    /// Says that an option has to be given. `example` is a value as a graph file writes it, quotes
    /// included.
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

    /// The tags of one group's connected ports, sorted, each once. While the calculator is only
    /// described: the empty tag.
    pub fn tags(&self, group: Group) -> Vec<String> {
        if self.describing {
            return vec![String::new()];
        }
        self.ports[group as usize]
            .tags
            .tags()
            .map(str::to_owned)
            .collect()
    }

    /// How many ports of a tag the graph connects.
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
