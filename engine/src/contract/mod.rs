//! Contracts: what a node declares about its ports and behavior when a plan is compiled.
//!
//! The declarations are checked against the ports that the graph really connects. Nothing here fails: what does not fit
//! is noted, and the plan turns all notes of all nodes into diagnostics with spans.

use std::any::{Any, TypeId};

use crate::{
    packet::{Payload, TypeInfo},
    policy::Policy,
    port::{Events, In, Ins, Out, OutSide, OutSides, Outs, PortType, Res, Side, Sides},
    resource::{Resource, ResourceNeed},
    tags::TagMap,
};

mod spec;

pub use spec::{Arity, Group, Offset, Run};
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
    /// The value of the option at this path is none that it can have.
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

    /// A required input stream. A tag may carry an index: `"TAG:1"`, `":1"`; the empty tag is the untagged stream.
    /// `In<dyn Payload>` takes any type.
    pub fn input<T: ?Sized + PortType>(&mut self, tag: &str) -> In<T> {
        self.one(Group::Inputs, tag, Arity::Required, PortSpec::of::<T>())
            .map_or(In::absent(), In::new)
    }

    /// An input stream that may be left unconnected.
    pub fn optional<T: ?Sized + PortType>(&mut self, tag: &str) -> In<T> {
        self.one(Group::Inputs, tag, Arity::Optional, PortSpec::of::<T>())
            .map_or(In::absent(), In::new)
    }

    /// One or more input streams: `TAG:0`, `TAG:1`, ..., or the untagged ones.
    pub fn inputs<T: ?Sized + PortType>(&mut self, tag: &str) -> Ins<T> {
        Ins::new(self.many(Group::Inputs, tag, Arity::Repeated, PortSpec::of::<T>()))
    }

    /// Any number of input streams, zero included.
    pub fn optional_inputs<T: ?Sized + PortType>(&mut self, tag: &str) -> Ins<T> {
        Ins::new(self.many(
            Group::Inputs,
            tag,
            Arity::OptionalRepeated,
            PortSpec::of::<T>(),
        ))
    }

    /// A required input stream of any type; the same as `input::<dyn Payload>`.
    pub fn any(&mut self, tag: &str) -> In<dyn Payload> {
        self.input(tag)
    }

    /// One or more input streams that all carry the same.
    pub fn inputs_alike(&mut self, tag: &str) -> Ins<dyn Payload> {
        let inputs: Ins<dyn Payload> = self.inputs(tag);
        if let Some(first) = inputs.get(0) {
            self.carry(
                Group::Inputs,
                inputs.iter().skip(1).map(|input| (input.index(), first)),
            );
        }
        inputs
    }

    /// Input streams of which each carries what the one of `others` with its index carries. Their number has to be the same.
    pub fn inputs_same_as(&mut self, tag: &str, others: Ins<dyn Payload>) -> Ins<dyn Payload> {
        let inputs: Ins<dyn Payload> = self.inputs(tag);
        if inputs.len() != others.len() && !self.describing {
            self.error(format!(
                "the number of input streams `{tag}` has to be {}, but is {}",
                others.len(),
                inputs.len()
            ));
        }
        let pairs = inputs.iter().zip(others.iter());
        self.carry(
            Group::Inputs,
            pairs.map(|(input, other)| (input.index(), other)),
        );
        inputs
    }

    /// A required input stream of one of these types.
    pub fn one_of(&mut self, tag: &str, types: &[TypeInfo]) -> In<dyn Payload> {
        self.one(
            Group::Inputs,
            tag,
            Arity::Required,
            PortSpec::OneOf(types.to_vec()),
        )
        .map_or(In::absent(), In::new)
    }

    /// An input stream of one of these types that may be left unconnected.
    pub fn optional_one_of(&mut self, tag: &str, types: &[TypeInfo]) -> In<dyn Payload> {
        self.one(
            Group::Inputs,
            tag,
            Arity::Optional,
            PortSpec::OneOf(types.to_vec()),
        )
        .map_or(In::absent(), In::new)
    }

    /// One or more input streams, each of one of these types.
    pub fn inputs_one_of(&mut self, tag: &str, types: &[TypeInfo]) -> Ins<dyn Payload> {
        Ins::new(self.many(
            Group::Inputs,
            tag,
            Arity::Repeated,
            PortSpec::OneOf(types.to_vec()),
        ))
    }

    /// A required output stream.
    pub fn output<T: ?Sized + PortType>(&mut self, tag: &str) -> Out<T> {
        self.one(Group::Outputs, tag, Arity::Required, PortSpec::of::<T>())
            .map_or(Out::absent(), Out::new)
    }

    /// An output stream that may be left unconnected.
    pub fn optional_output<T: ?Sized + PortType>(&mut self, tag: &str) -> Out<T> {
        self.one(Group::Outputs, tag, Arity::Optional, PortSpec::of::<T>())
            .map_or(Out::absent(), Out::new)
    }

    /// One or more output streams.
    pub fn outputs<T: ?Sized + PortType>(&mut self, tag: &str) -> Outs<T> {
        Outs::new(self.many(Group::Outputs, tag, Arity::Repeated, PortSpec::of::<T>()))
    }

    /// Any number of output streams, zero included.
    pub fn optional_outputs<T: ?Sized + PortType>(&mut self, tag: &str) -> Outs<T> {
        Outs::new(self.many(
            Group::Outputs,
            tag,
            Arity::OptionalRepeated,
            PortSpec::of::<T>(),
        ))
    }

    /// A required output stream that carries what `input` carries.
    pub fn same_as(&mut self, tag: &str, input: In<dyn Payload>) -> Out<dyn Payload> {
        let spec = same_as(input);
        self.one(Group::Outputs, tag, Arity::Required, spec)
            .map_or(Out::absent(), Out::new)
    }

    /// An output stream that carries what `input` carries and may be left unconnected.
    pub fn optional_same_as(&mut self, tag: &str, input: In<dyn Payload>) -> Out<dyn Payload> {
        let spec = same_as(input);
        self.one(Group::Outputs, tag, Arity::Optional, spec)
            .map_or(Out::absent(), Out::new)
    }

    /// Every input stream that the graph connects, whatever its tag, and as many outputs: the one of the same tag and index,
    /// which carries the same. Both in the same order.
    pub fn mirrored(&mut self) -> (Ins<dyn Payload>, Outs<dyn Payload>) {
        let mut length = 0;
        for tag in self.tags(Group::Inputs) {
            let inputs = self.inputs(&tag);
            self.outputs_same_as(&tag, inputs);
            length += inputs.len() as u16;
        }
        (Ins::new(0..length), Outs::new(0..length))
    }

    /// Output streams of which each carries what the input with its index carries. Their number has to be that of `inputs`.
    pub fn outputs_same_as(&mut self, tag: &str, inputs: Ins<dyn Payload>) -> Outs<dyn Payload> {
        let arity = if inputs.is_empty() {
            Arity::OptionalRepeated
        } else {
            Arity::Repeated
        };
        let outputs: Outs<dyn Payload> =
            Outs::new(self.many(Group::Outputs, tag, arity, PortSpec::Any));
        if outputs.len() != inputs.len() && !self.describing {
            self.error(format!(
                "the number of output streams has to be the number of input streams, {}, but is {}",
                inputs.len(),
                outputs.len()
            ));
        }
        let pairs = inputs.iter().zip(outputs.iter());
        self.carry(
            Group::Outputs,
            pairs.map(|(input, output)| (output.index(), input)),
        );
        outputs
    }

    /// One or more output streams that all carry what `input` carries.
    pub fn outputs_all_same_as(&mut self, tag: &str, input: In<dyn Payload>) -> Outs<dyn Payload> {
        Outs::new(self.many(Group::Outputs, tag, Arity::Repeated, same_as(input)))
    }

    /// All input side packets, and, if there are output side packets at all, one of the same tag and index for each, which
    /// carries what the input does.
    pub fn mirrored_sides(&mut self) -> (Sides<dyn Payload>, OutSides<dyn Payload>) {
        let has_outputs = !self.tags(Group::OutputSides).is_empty() && !self.describing;
        let mut length = 0;
        for tag in self.tags(Group::InputSides) {
            let arity = if self.describing {
                Arity::OptionalRepeated
            } else {
                Arity::Repeated
            };
            let sides = self.many(Group::InputSides, &tag, arity, PortSpec::Any);
            for at in 0..sides.len() {
                let side = Side::new(sides.start + at as u16);
                if has_outputs {
                    self.side_same_as(&format!("{tag}:{at}"), side);
                }
            }
            length += sides.len() as u16;
        }
        let outputs = if has_outputs { length } else { 0 };
        (Sides::new(0..length), OutSides::new(0..outputs))
    }

    /// A required input side packet.
    pub fn side<T: ?Sized + PortType>(&mut self, tag: &str) -> Side<T> {
        self.one(Group::InputSides, tag, Arity::Required, PortSpec::of::<T>())
            .map_or(Side::absent(), Side::new)
    }

    /// An input side packet that may be left unconnected.
    pub fn optional_side<T: ?Sized + PortType>(&mut self, tag: &str) -> Side<T> {
        self.one(Group::InputSides, tag, Arity::Optional, PortSpec::of::<T>())
            .map_or(Side::absent(), Side::new)
    }

    /// An input side packet that carries what `side` carries and may be left unconnected.
    pub fn optional_side_same_as(
        &mut self,
        tag: &str,
        side: Side<dyn Payload>,
    ) -> Side<dyn Payload> {
        self.one(Group::InputSides, tag, Arity::Optional, same_as_side(side))
            .map_or(Side::absent(), Side::new)
    }

    /// One or more input side packets.
    pub fn sides<T: ?Sized + PortType>(&mut self, tag: &str) -> Sides<T> {
        Sides::new(self.many(Group::InputSides, tag, Arity::Repeated, PortSpec::of::<T>()))
    }

    /// Any number of input side packets.
    pub fn optional_sides<T: ?Sized + PortType>(&mut self, tag: &str) -> Sides<T> {
        Sides::new(self.many(
            Group::InputSides,
            tag,
            Arity::OptionalRepeated,
            PortSpec::of::<T>(),
        ))
    }

    /// A required output side packet.
    pub fn output_side<T: ?Sized + PortType>(&mut self, tag: &str) -> OutSide<T> {
        self.one(
            Group::OutputSides,
            tag,
            Arity::Required,
            PortSpec::of::<T>(),
        )
        .map_or(OutSide::absent(), OutSide::new)
    }

    /// Any number of output side packets.
    pub fn optional_output_sides<T: ?Sized + PortType>(&mut self, tag: &str) -> OutSides<T> {
        OutSides::new(self.many(
            Group::OutputSides,
            tag,
            Arity::OptionalRepeated,
            PortSpec::of::<T>(),
        ))
    }

    /// A required output side packet that carries what `side` carries.
    pub fn side_same_as(&mut self, tag: &str, side: Side<dyn Payload>) -> OutSide<dyn Payload> {
        self.one(Group::OutputSides, tag, Arity::Required, same_as_side(side))
            .map_or(OutSide::absent(), OutSide::new)
    }

    /// A required shared resource, named by an input side packet. With `Some(spec)` the node defines what the resource of
    /// that name is; with `None` it uses the one that another node of the graph defines.
    pub fn resource<R: Resource>(&mut self, tag: &str, spec: Option<R::Spec>) -> Res<R> {
        self.need_resource(tag, Arity::Required, spec)
    }

    /// A shared resource whose side packet may be left unconnected.
    pub fn optional_resource<R: Resource>(&mut self, tag: &str, spec: Option<R::Spec>) -> Res<R> {
        self.need_resource(tag, Arity::Optional, spec)
    }

    fn need_resource<R: Resource>(
        &mut self,
        tag: &str,
        arity: Arity,
        spec: Option<R::Spec>,
    ) -> Res<R> {
        let declared = PortSpec::Exact(TypeInfo::of::<R>());
        let Some(side) = self.one(Group::InputSides, tag, arity, declared) else {
            return Res::absent();
        };
        self.resources.push(ResourceNeed::new::<R>(side, spec));
        Res::new(side)
    }

    /// A port for things of type `T` that arrive from outside the graph; `OpenCx::sender` makes the sending end.
    pub fn events<T: Any + Send>(&mut self) -> Events<T> {
        self.event_types.push(TypeId::of::<T>());
        Events::new(self.event_types.len() as u16 - 1)
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

    /// Says that calls of the node do not depend on each other, so that `max_in_flight` of them may be made at once, on an
    /// executor or as futures. Each is made by an instance of its own: all are opened alike, what the first one emits while it
    /// opens counts, and one is closed. What calls put out leaves the node in the order of the calls.
    pub fn parallel(&mut self) {
        self.parallel = true;
    }

    /// Says that the combination of ports or options is wrong.
    pub fn error(&mut self, message: impl Into<String>) {
        self.problem(Problem::Combination(message.into()));
    }

    /// Says that the value of an option is wrong. The option is named as in a graph file, `field` or `message.field`, and is
    /// pointed to where the graph gives it.
    pub fn option_error(&mut self, path: &str, message: impl Into<String>) {
        self.problem(Problem::Option {
            path: path.to_owned(),
            message: message.into(),
        });
    }

    /// Says that an option has to be given. `example` is a value as a graph file writes it, quotes included.
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

    /// The tags of one group's connected ports, sorted, each once. While the calculator is only described: the empty tag.
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

    /// Makes each of the ports carry what the input beside it carries.
    fn carry(
        &mut self,
        group: Group,
        ports: impl Iterator<Item = (Option<usize>, In<dyn Payload>)>,
    ) {
        for (index, input) in ports {
            if let Some(index) = index {
                self.ports[group as usize].specs[index] = Some(same_as(input));
            }
        }
    }

    fn one(&mut self, group: Group, tag: &str, arity: Arity, spec: PortSpec) -> Option<u16> {
        let declared = Declared {
            group,
            tag: tag.to_owned(),
            arity,
            spec: spec.clone(),
        };
        self.declared.push(declared.clone());
        let ports = &mut self.ports[group as usize];
        if self.describing {
            ports.specs.push(Some(spec));
            return Some(ports.specs.len() as u16 - 1);
        }
        let (tag, at) = split_index(tag);
        let range = ports.tags.range(tag);
        let index = range.start + at;
        if index < range.end {
            ports.specs[index] = Some(spec);
            return Some(index as u16);
        }
        if arity == Arity::Required {
            self.missing.push(declared);
        }
        None
    }

    fn many(
        &mut self,
        group: Group,
        tag: &str,
        arity: Arity,
        spec: PortSpec,
    ) -> std::ops::Range<u16> {
        let declared = Declared {
            group,
            tag: tag.to_owned(),
            arity,
            spec: spec.clone(),
        };
        self.declared.push(declared.clone());
        let ports = &mut self.ports[group as usize];
        if self.describing {
            ports.specs.push(Some(spec));
            let index = ports.specs.len() as u16;
            return index - 1..index;
        }
        let range = ports.tags.range(tag);
        if range.is_empty() && arity == Arity::Repeated {
            self.missing.push(declared);
        }
        ports.specs[range.clone()].fill(Some(spec));
        range.start as u16..range.end as u16
    }
}

fn same_as(input: In<dyn Payload>) -> PortSpec {
    input.index().map_or(PortSpec::Any, |index| {
        PortSpec::SameAs(Group::Inputs, index as u16)
    })
}

fn same_as_side(side: Side<dyn Payload>) -> PortSpec {
    side.index().map_or(PortSpec::Any, |index| {
        PortSpec::SameAs(Group::InputSides, index as u16)
    })
}

/// Splits `TAG:2` into `TAG` and 2; a tag without an index has index 0.
fn split_index(tag: &str) -> (&str, usize) {
    match tag.split_once(':') {
        Some((tag, index)) => (tag, index.parse().unwrap_or(0)),
        None => (tag, 0),
    }
}
