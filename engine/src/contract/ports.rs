//! The ports that a contract declares.

use std::{
    any::{Any, TypeId},
    ops::Range,
};

use crate::{
    error::Result,
    packet::{Payload, TypeInfo},
    port::{
        Events,
        Group::{self, InputSides, Inputs, OutputSides, Outputs},
        In, Ins, Out, OutSide, OutSides, Outs, PortType, Res, Side, Sides,
    },
    resource::Resource,
};

use super::{
    Contract,
    resources::{Fits, ResourceNeed},
    spec::{
        Arity::{self, Optional, OptionalRepeated, Repeated, Required},
        Declared, PortSpec,
    },
};

impl Contract {
    /// A required input stream. A tag may carry an index: `"TAG:1"`, `":1"`; the empty tag is the
    /// untagged stream. `In<dyn Payload>` takes any type.
    pub fn input<T: ?Sized + PortType>(&mut self, tag: &str) -> In<T> {
        In::at(self.one(Inputs, tag, Required, PortSpec::of::<T>()))
    }

    /// An input stream that may be left unconnected.
    pub fn optional<T: ?Sized + PortType>(&mut self, tag: &str) -> In<T> {
        In::at(self.one(Inputs, tag, Optional, PortSpec::of::<T>()))
    }

    /// One or more input streams: `TAG:0`, `TAG:1`, ..., or the untagged ones.
    pub fn inputs<T: ?Sized + PortType>(&mut self, tag: &str) -> Ins<T> {
        Ins::new(self.many(Inputs, tag, Repeated, PortSpec::of::<T>()))
    }

    /// Any number of input streams, zero included.
    pub fn optional_inputs<T: ?Sized + PortType>(&mut self, tag: &str) -> Ins<T> {
        Ins::new(self.many(Inputs, tag, OptionalRepeated, PortSpec::of::<T>()))
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
                Inputs,
                inputs.iter().skip(1).map(|input| (input.index(), first)),
            );
        }
        inputs
    }

    /// Input streams of which each carries what the one of `others` with its index carries. Their
    /// number has to be the same.
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
        self.carry(Inputs, pairs.map(|(input, other)| (input.index(), other)));
        inputs
    }

    /// A required input stream of one of these types.
    pub fn one_of(&mut self, tag: &str, types: &[TypeInfo]) -> In<dyn Payload> {
        In::at(self.one(Inputs, tag, Required, PortSpec::OneOf(types.to_vec())))
    }

    /// An input stream of one of these types that may be left unconnected.
    pub fn optional_one_of(&mut self, tag: &str, types: &[TypeInfo]) -> In<dyn Payload> {
        In::at(self.one(Inputs, tag, Optional, PortSpec::OneOf(types.to_vec())))
    }

    /// One or more input streams, each of one of these types.
    pub fn inputs_one_of(&mut self, tag: &str, types: &[TypeInfo]) -> Ins<dyn Payload> {
        Ins::new(self.many(Inputs, tag, Repeated, PortSpec::OneOf(types.to_vec())))
    }

    /// A required output stream.
    pub fn output<T: ?Sized + PortType>(&mut self, tag: &str) -> Out<T> {
        Out::at(self.one(Outputs, tag, Required, PortSpec::of::<T>()))
    }

    /// An output stream that may be left unconnected.
    pub fn optional_output<T: ?Sized + PortType>(&mut self, tag: &str) -> Out<T> {
        Out::at(self.one(Outputs, tag, Optional, PortSpec::of::<T>()))
    }

    /// One or more output streams.
    pub fn outputs<T: ?Sized + PortType>(&mut self, tag: &str) -> Outs<T> {
        Outs::new(self.many(Outputs, tag, Repeated, PortSpec::of::<T>()))
    }

    /// Any number of output streams, zero included.
    pub fn optional_outputs<T: ?Sized + PortType>(&mut self, tag: &str) -> Outs<T> {
        Outs::new(self.many(Outputs, tag, OptionalRepeated, PortSpec::of::<T>()))
    }

    /// A required output stream that carries what `input` carries.
    pub fn same_as(&mut self, tag: &str, input: In<dyn Payload>) -> Out<dyn Payload> {
        Out::at(self.one(Outputs, tag, Required, same_as(input)))
    }

    /// Every input stream that the graph connects, whatever its tag, and as many outputs: the one
    /// of the same tag and index, which carries the same. Both in the same order.
    pub fn mirrored(&mut self) -> (Ins<dyn Payload>, Outs<dyn Payload>) {
        let mut length = 0;
        for tag in self.tags(Inputs) {
            let inputs = self.inputs(&tag);
            self.outputs_same_as(&tag, inputs);
            length += inputs.len() as u16;
        }
        (Ins::new(0..length), Outs::new(0..length))
    }

    /// Output streams of which each carries what the input with its index carries. Their number has
    /// to be that of `inputs`.
    pub fn outputs_same_as(&mut self, tag: &str, inputs: Ins<dyn Payload>) -> Outs<dyn Payload> {
        let arity = if inputs.is_empty() || self.may_lack(inputs) {
            OptionalRepeated
        } else {
            Repeated
        };
        let outputs: Outs<dyn Payload> = Outs::new(self.many(Outputs, tag, arity, PortSpec::Any));
        if outputs.len() != inputs.len() && !self.describing {
            self.error(format!(
                "the number of output streams has to be the number of input streams, {}, but is {}",
                inputs.len(),
                outputs.len()
            ));
        }
        let pairs = inputs.iter().zip(outputs.iter());
        self.carry(
            Outputs,
            pairs.map(|(input, output)| (output.index(), input)),
        );
        outputs
    }

    /// One or more output streams that all carry what `input` carries.
    pub fn outputs_all_same_as(&mut self, tag: &str, input: In<dyn Payload>) -> Outs<dyn Payload> {
        Outs::new(self.many(Outputs, tag, Repeated, same_as(input)))
    }

    /// All input side packets, and, if there are output side packets at all, one of the same tag
    /// and index for each, which carries what the input does.
    pub fn mirrored_sides(&mut self) -> (Sides<dyn Payload>, OutSides<dyn Payload>) {
        let has_outputs = !self.tags(OutputSides).is_empty() && !self.describing;
        let mut length = 0;
        for tag in self.tags(InputSides) {
            let arity = if self.describing {
                OptionalRepeated
            } else {
                Repeated
            };
            let sides = self.many(InputSides, &tag, arity, PortSpec::Any);
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
        Side::at(self.one(InputSides, tag, Required, PortSpec::of::<T>()))
    }

    /// An input side packet that may be left unconnected.
    pub fn optional_side<T: ?Sized + PortType>(&mut self, tag: &str) -> Side<T> {
        Side::at(self.one(InputSides, tag, Optional, PortSpec::of::<T>()))
    }

    /// An input side packet that carries what `side` carries and may be left unconnected.
    pub fn optional_side_same_as(
        &mut self,
        tag: &str,
        side: Side<dyn Payload>,
    ) -> Side<dyn Payload> {
        Side::at(self.one(InputSides, tag, Optional, same_as_side(side)))
    }

    /// One or more input side packets.
    pub fn sides<T: ?Sized + PortType>(&mut self, tag: &str) -> Sides<T> {
        Sides::new(self.many(InputSides, tag, Repeated, PortSpec::of::<T>()))
    }

    /// Any number of input side packets.
    pub fn optional_sides<T: ?Sized + PortType>(&mut self, tag: &str) -> Sides<T> {
        Sides::new(self.many(InputSides, tag, OptionalRepeated, PortSpec::of::<T>()))
    }

    /// A required output side packet.
    pub fn output_side<T: ?Sized + PortType>(&mut self, tag: &str) -> OutSide<T> {
        OutSide::at(self.one(OutputSides, tag, Required, PortSpec::of::<T>()))
    }

    /// Any number of output side packets.
    pub fn optional_output_sides<T: ?Sized + PortType>(&mut self, tag: &str) -> OutSides<T> {
        OutSides::new(self.many(OutputSides, tag, OptionalRepeated, PortSpec::of::<T>()))
    }

    /// A required output side packet that carries what `side` carries.
    pub fn side_same_as(&mut self, tag: &str, side: Side<dyn Payload>) -> OutSide<dyn Payload> {
        OutSide::at(self.one(OutputSides, tag, Required, same_as_side(side)))
    }

    /// A required shared resource, named by an input side packet. With `Some(spec)` the node
    /// defines what the resource of that name is; with `None` it uses the one that another node of
    /// the graph defines.
    pub fn resource<R: Resource>(&mut self, tag: &str, spec: Option<R::Spec>) -> Res<R> {
        self.need_resource(tag, Required, spec)
    }

    /// A shared resource whose side packet may be left unconnected.
    pub fn optional_resource<R: Resource>(&mut self, tag: &str, spec: Option<R::Spec>) -> Res<R> {
        self.need_resource(tag, Optional, spec)
    }

    /// Defines a shared resource by an output side packet: nodes that have the side packet as an
    /// input use it. The node itself emits nothing there.
    pub fn output_resource<R: Resource>(&mut self, tag: &str, spec: R::Spec) {
        let declared = PortSpec::Exact(TypeInfo::of::<R>());
        if let Some(side) = self.one(OutputSides, tag, Required, declared) {
            let need = ResourceNeed::new::<R>(OutputSides, side, Some(spec));
            self.resources.push(need);
        }
    }

    /// Says what the node asks of a resource besides its type. The graph is refused if the loaded
    /// resource does not have it. An error that is about an option names it as its field, as in
    /// [`Resource::check`].
    pub fn check_resource<R: Resource>(
        &mut self,
        port: Res<R>,
        fits: impl Fn(&R) -> Result<()> + Send + Sync + 'static,
    ) {
        let side = port.index();
        let need = self
            .resources
            .iter_mut()
            .find(|need| need.group == InputSides && Some(usize::from(need.side)) == side);
        if let Some(need) = need {
            need.fits = Some(Fits::new(fits));
        }
    }

    fn need_resource<R: Resource>(
        &mut self,
        tag: &str,
        arity: Arity,
        spec: Option<R::Spec>,
    ) -> Res<R> {
        let declared = PortSpec::Exact(TypeInfo::of::<R>());
        let Some(side) = self.one(InputSides, tag, arity, declared) else {
            return Res::absent();
        };
        let need = ResourceNeed::new::<R>(InputSides, side, spec);
        self.resources.push(need);
        Res::new(side)
    }

    /// A port for things of type `T` that arrive from outside the graph; `OpenCx::sender` makes the
    /// sending end.
    pub fn events<T: Any + Send>(&mut self) -> Events<T> {
        self.event_types.push(TypeId::of::<T>());
        Events::new(self.event_types.len() as u16 - 1)
    }

    /// Returns true if a contract that is described declares inputs that a node need not have.
    fn may_lack(&self, inputs: Ins<dyn Payload>) -> bool {
        let mut declared = self.declared.iter().filter(|it| it.group == Inputs);
        let first = inputs.iter().next().and_then(In::index);
        let declared = first.and_then(|first| declared.nth(first));
        self.describing
            && declared.is_some_and(|it| matches!(it.arity, Optional | OptionalRepeated))
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
        self.many(group, tag, arity, spec).next()
    }

    /// Declares ports, and gives those of them that are connected.
    fn many(&mut self, group: Group, tag: &str, arity: Arity, spec: PortSpec) -> Range<u16> {
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
        let range = match arity {
            Required | Optional => {
                let (tag, at) = split_index(tag);
                let range = ports.tags.range(tag);
                let start = range.end.min(range.start + at);
                start..range.end.min(start + 1)
            }
            Repeated | OptionalRepeated => ports.tags.range(tag),
        };
        if range.is_empty() && matches!(arity, Required | Repeated) {
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
