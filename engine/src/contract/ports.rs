//! Declarations of ports.

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
        PortDeclaration, PortSpec,
    },
};

impl Contract {
    /// Declares a required input stream. A tag may carry an index: `"TAG:1"`, `":1"`. The empty tag
    /// is the stream without a tag. `In<dyn Payload>` takes any type.
    pub fn input<T: ?Sized + PortType>(&mut self, tag: &str) -> In<T> {
        In::at(self.one(Inputs, tag, Required, PortSpec::for_type::<T>()))
    }

    /// Declares an input stream that may be left unconnected.
    pub fn optional<T: ?Sized + PortType>(&mut self, tag: &str) -> In<T> {
        In::at(self.one(Inputs, tag, Optional, PortSpec::for_type::<T>()))
    }

    /// Declares one or more input streams: `TAG:0`, `TAG:1`, ..., or those without a tag.
    pub fn inputs<T: ?Sized + PortType>(&mut self, tag: &str) -> Ins<T> {
        Ins::new(self.many(Inputs, tag, Repeated, PortSpec::for_type::<T>()))
    }

    /// Declares any number of input streams, including none.
    pub fn optional_inputs<T: ?Sized + PortType>(&mut self, tag: &str) -> Ins<T> {
        Ins::new(self.many(Inputs, tag, OptionalRepeated, PortSpec::for_type::<T>()))
    }

    /// Declares a required input stream of any type, like `input::<dyn Payload>`.
    pub fn any(&mut self, tag: &str) -> In<dyn Payload> {
        self.input(tag)
    }

    /// Declares one or more input streams that all have the same type.
    pub fn inputs_alike(&mut self, tag: &str) -> Ins<dyn Payload> {
        let inputs: Ins<dyn Payload> = self.inputs(tag);
        if let Some(first) = inputs.get(0) {
            let others = inputs.iter().skip(1);
            self.carry(Inputs, others.map(|input| (input.index(), first)));
        }
        inputs
    }

    /// Declares input streams, each with the type of the stream in `others` with the same index.
    /// The numbers of streams must be equal.
    pub fn inputs_same_as(&mut self, tag: &str, others: Ins<dyn Payload>) -> Ins<dyn Payload> {
        let inputs: Ins<dyn Payload> = self.inputs(tag);
        if inputs.len() != others.len() && !self.describing {
            let (wanted, found) = (others.len(), inputs.len());
            self.error(format!(
                "expected {wanted} input streams `{tag}`, found {found}"
            ));
        }
        let pairs = inputs.iter().zip(others.iter());
        self.carry(Inputs, pairs.map(|(input, other)| (input.index(), other)));
        inputs
    }

    /// Declares a required input stream of one of these types.
    pub fn one_of(&mut self, tag: &str, types: &[TypeInfo]) -> In<dyn Payload> {
        In::at(self.one(Inputs, tag, Required, PortSpec::OneOf(types.to_vec())))
    }

    /// Declares an input stream of one of these types that may be left unconnected.
    pub fn optional_one_of(&mut self, tag: &str, types: &[TypeInfo]) -> In<dyn Payload> {
        In::at(self.one(Inputs, tag, Optional, PortSpec::OneOf(types.to_vec())))
    }

    /// Declares one or more input streams, each of one of these types.
    pub fn inputs_one_of(&mut self, tag: &str, types: &[TypeInfo]) -> Ins<dyn Payload> {
        Ins::new(self.many(Inputs, tag, Repeated, PortSpec::OneOf(types.to_vec())))
    }

    /// Declares a required output stream of type `T`.
    pub fn output<T: ?Sized + PortType>(&mut self, tag: &str) -> Out<T> {
        Out::at(self.one(Outputs, tag, Required, PortSpec::for_type::<T>()))
    }

    /// Declares an output stream that may be left unconnected.
    pub fn optional_output<T: ?Sized + PortType>(&mut self, tag: &str) -> Out<T> {
        Out::at(self.one(Outputs, tag, Optional, PortSpec::for_type::<T>()))
    }

    /// Declares one or more output streams: `TAG:0`, `TAG:1`, ..., or those without a tag.
    pub fn outputs<T: ?Sized + PortType>(&mut self, tag: &str) -> Outs<T> {
        Outs::new(self.many(Outputs, tag, Repeated, PortSpec::for_type::<T>()))
    }

    /// Declares any number of output streams, including none.
    pub fn optional_outputs<T: ?Sized + PortType>(&mut self, tag: &str) -> Outs<T> {
        Outs::new(self.many(Outputs, tag, OptionalRepeated, PortSpec::for_type::<T>()))
    }

    /// Declares a required output stream with the type of `input`.
    pub fn same_as(&mut self, tag: &str, input: In<dyn Payload>) -> Out<dyn Payload> {
        Out::at(self.one(Outputs, tag, Required, same_as(Inputs, input.index())))
    }

    /// Declares all connected input streams, whatever their tags, and for each an output stream
    /// with the same tag, index and type. Both are in the same order.
    pub fn mirrored(&mut self) -> (Ins<dyn Payload>, Outs<dyn Payload>) {
        let mut length = 0;
        for tag in self.tags(Inputs) {
            let inputs = self.inputs(&tag);
            self.outputs_same_as(&tag, inputs);
            length += inputs.len() as u16;
        }
        (Ins::new(0..length), Outs::new(0..length))
    }

    /// Declares output streams, each with the type of the input with the same index. The numbers of
    /// streams must be equal.
    pub fn outputs_same_as(&mut self, tag: &str, inputs: Ins<dyn Payload>) -> Outs<dyn Payload> {
        let arity = if inputs.is_empty() || self.may_lack(inputs) {
            OptionalRepeated
        } else {
            Repeated
        };
        let outputs: Outs<dyn Payload> = Outs::new(self.many(Outputs, tag, arity, PortSpec::Any));
        if outputs.len() != inputs.len() && !self.describing {
            let (wanted, found) = (inputs.len(), outputs.len());
            self.error(format!(
                "expected as many output streams as input streams, {wanted}, found {found}"
            ));
        }
        let pairs = inputs.iter().zip(outputs.iter());
        let pairs = pairs.map(|(input, output)| (output.index(), input));
        self.carry(Outputs, pairs);
        outputs
    }

    /// Declares one or more output streams that all have the type of `input`.
    pub fn outputs_all_same_as(&mut self, tag: &str, input: In<dyn Payload>) -> Outs<dyn Payload> {
        Outs::new(self.many(Outputs, tag, Repeated, same_as(Inputs, input.index())))
    }

    /// Declares all input side packets. If any output side packet is connected, declares one for
    /// each input, with the same tag, index and type.
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

    /// Declares a required input side packet.
    pub fn side<T: ?Sized + PortType>(&mut self, tag: &str) -> Side<T> {
        Side::at(self.one(InputSides, tag, Required, PortSpec::for_type::<T>()))
    }

    /// Declares an input side packet that may be left unconnected.
    pub fn optional_side<T: ?Sized + PortType>(&mut self, tag: &str) -> Side<T> {
        Side::at(self.one(InputSides, tag, Optional, PortSpec::for_type::<T>()))
    }

    /// Declares an input side packet with the type of `side` that may be left unconnected.
    pub fn optional_side_same_as(
        &mut self,
        tag: &str,
        side: Side<dyn Payload>,
    ) -> Side<dyn Payload> {
        Side::at(self.one(InputSides, tag, Optional, same_as(InputSides, side.index())))
    }

    /// Declares one or more input side packets.
    pub fn sides<T: ?Sized + PortType>(&mut self, tag: &str) -> Sides<T> {
        Sides::new(self.many(InputSides, tag, Repeated, PortSpec::for_type::<T>()))
    }

    /// Declares any number of input side packets, including none.
    pub fn optional_sides<T: ?Sized + PortType>(&mut self, tag: &str) -> Sides<T> {
        Sides::new(self.many(InputSides, tag, OptionalRepeated, PortSpec::for_type::<T>()))
    }

    /// Declares a required output side packet.
    pub fn output_side<T: ?Sized + PortType>(&mut self, tag: &str) -> OutSide<T> {
        OutSide::at(self.one(OutputSides, tag, Required, PortSpec::for_type::<T>()))
    }

    /// Declares any number of output side packets, including none.
    pub fn optional_output_sides<T: ?Sized + PortType>(&mut self, tag: &str) -> OutSides<T> {
        let spec = PortSpec::for_type::<T>();
        OutSides::new(self.many(OutputSides, tag, OptionalRepeated, spec))
    }

    /// Declares a required output side packet with the type of `side`.
    pub fn side_same_as(&mut self, tag: &str, side: Side<dyn Payload>) -> OutSide<dyn Payload> {
        let spec = same_as(InputSides, side.index());
        OutSide::at(self.one(OutputSides, tag, Required, spec))
    }

    /// Declares a required resource, named by an input side packet. With `Some(spec)` this node
    /// defines the resource of that name. With `None` another node of the graph defines it.
    pub fn resource<R: Resource>(&mut self, tag: &str, spec: Option<R::Spec>) -> Res<R> {
        self.need_resource(tag, Required, spec)
    }

    /// Declares a resource whose side packet may be left unconnected.
    pub fn optional_resource<R: Resource>(&mut self, tag: &str, spec: Option<R::Spec>) -> Res<R> {
        self.need_resource(tag, Optional, spec)
    }

    /// Defines a resource through an output side packet: nodes that have the side packet as an
    /// input use the resource. The node itself emits nothing there.
    pub fn output_resource<R: Resource>(&mut self, tag: &str, spec: R::Spec) {
        let declared = PortSpec::Exact(TypeInfo::new::<R>());
        if let Some(side) = self.one(OutputSides, tag, Required, declared) {
            let need = ResourceNeed::new::<R>(OutputSides, side, Some(spec));
            self.resources.push(need);
        }
    }

    /// Adds a check of a loaded resource, beyond its type. The graph is refused if the check fails.
    /// An error about an option names the option as its field, as in [`Resource::check`].
    pub fn check_resource<R: Resource>(
        &mut self,
        port: Res<R>,
        fits: impl Fn(&R) -> Result<()> + Send + Sync + 'static,
    ) {
        let side = port.index();
        let mut needs = self.resources.iter_mut();
        let is_meant = |need: &&mut ResourceNeed| {
            need.group == InputSides && Some(usize::from(need.side)) == side
        };
        if let Some(need) = needs.find(is_meant) {
            need.fits = Some(Fits::new(fits));
        }
    }

    fn need_resource<R: Resource>(
        &mut self,
        tag: &str,
        arity: Arity,
        spec: Option<R::Spec>,
    ) -> Res<R> {
        let declared = PortSpec::Exact(TypeInfo::new::<R>());
        let Some(side) = self.one(InputSides, tag, arity, declared) else {
            return Res::absent();
        };
        let need = ResourceNeed::new::<R>(InputSides, side, spec);
        self.resources.push(need);
        Res::new(side)
    }

    /// Declares an event port for values of type `T` from outside the graph. `OpenCx::sender`
    /// creates a sender.
    pub fn events<T: Any + Send>(&mut self) -> Events<T> {
        self.event_types.push(TypeId::of::<T>());
        Events::new(self.event_types.len() as u16 - 1)
    }

    /// Returns `true` if a calculator is only described and these inputs are optional.
    fn may_lack(&self, inputs: Ins<dyn Payload>) -> bool {
        let mut declared = self.declared.iter().filter(|it| it.group == Inputs);
        let first = inputs.iter().next().and_then(In::index);
        let declared = first.and_then(|first| declared.nth(first));
        self.describing
            && declared.is_some_and(|it| matches!(it.arity, Optional | OptionalRepeated))
    }

    /// Gives each port, by its index in the group, the type of the input that is paired with it.
    fn carry(
        &mut self,
        group: Group,
        ports: impl Iterator<Item = (Option<usize>, In<dyn Payload>)>,
    ) {
        for (index, input) in ports {
            if let Some(index) = index {
                self.ports[group as usize].specs[index] = Some(same_as(Inputs, input.index()));
            }
        }
    }

    fn one(&mut self, group: Group, tag: &str, arity: Arity, spec: PortSpec) -> Option<u16> {
        self.many(group, tag, arity, spec).next()
    }

    /// Declares ports and returns the range of those that are connected. If a calculator is only
    /// described, each declaration is one port.
    fn many(&mut self, group: Group, tag: &str, arity: Arity, spec: PortSpec) -> Range<u16> {
        let declared = PortDeclaration {
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

fn same_as(group: Group, index: Option<usize>) -> PortSpec {
    index.map_or(PortSpec::Any, |index| PortSpec::SameAs(group, index as u16))
}

/// Splits `TAG:2` into `TAG` and 2. The default index is 0.
fn split_index(tag: &str) -> (&str, usize) {
    match tag.split_once(':') {
        Some((tag, index)) => (tag, index.parse().unwrap_or(0)),
        None => (tag, 0),
    }
}
