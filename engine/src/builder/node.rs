//! A node of a graph that is being built: its ports, options and settings.

use std::rc::Rc;

use serde::Serialize;

use crate::{
    contract::{Contract, Group},
    port::{In, Ins, Out, OutSide, PortType, Res, Side},
    resource::Resource,
};

use super::{
    GraphBuilder,
    draft::{Draft, Port, base},
    message::{self, extension, field, integer, text},
    options,
    wire::{Fits, Name, SideWire, Wire},
};

/// A node of a [`GraphBuilder`]: connects its ports and says how it runs.
///
/// Ports are named in one of two ways. A node made from its Rust type, of port handles `P`, has
/// [`Self::input`], [`Self::output`] and the like, which pick a handle, `|ports| ports.text`, and
/// whose types the Rust compiler checks. Every node has [`Self::input_at`], [`Self::output_at`] and
/// the like, which take a tag as graph files write it, `"TAG"`, `"TAG:1"`, `":1"` or `""`, and
/// whose types the plan checks.
#[derive(Debug)]
pub struct NodeBuilder<'g, P = ()> {
    graph: &'g GraphBuilder,
    /// Position among the graph's nodes.
    index: usize,
    /// The handles of a contract that was asked for no graph in particular, where a handle is the
    /// position of a declaration.
    ports: P,
    /// By group: the tags that were declared.
    tags: [Vec<String>; 4],
}

/// By group: the tags that a contract declares, in order.
pub(super) fn tags(contract: &Contract) -> [Vec<String>; 4] {
    let mut tags: [Vec<String>; 4] = Default::default();
    for declared in &contract.declared {
        tags[declared.group as usize].push(declared.tag.clone());
    }
    tags
}

impl<'g, P> NodeBuilder<'g, P> {
    pub(super) fn new(
        graph: &'g GraphBuilder,
        index: usize,
        ports: P,
        tags: [Vec<String>; 4],
    ) -> Self {
        Self {
            graph,
            index,
            ports,
            tags,
        }
    }

    /// Connects an input stream.
    pub fn input<T, W>(&self, port: impl FnOnce(&P) -> In<T>, wire: &Wire<W>) -> &Self
    where
        T: ?Sized + PortType,
        W: ?Sized + Fits<T>,
    {
        self.connect(Group::Inputs, port(&self.ports).index(), 0, &wire.name);
        self
    }

    /// Connects the input streams of one tag, in order.
    pub fn inputs<'w, T, W>(
        &self,
        ports: impl FnOnce(&P) -> Ins<T>,
        wires: impl IntoIterator<Item = &'w Wire<W>>,
    ) -> &Self
    where
        T: ?Sized + PortType,
        W: ?Sized + Fits<T> + 'w,
    {
        let first = ports(&self.ports).get(0).and_then(In::index);
        for (nth, wire) in (0..).zip(wires) {
            self.connect(Group::Inputs, first, nth, &wire.name);
        }
        self
    }

    /// Connects an input stream that closes a loop.
    pub fn back_edge<T, W>(&self, port: impl FnOnce(&P) -> In<T>, wire: &Wire<W>) -> &Self
    where
        T: ?Sized + PortType,
        W: ?Sized + Fits<T>,
    {
        let index = port(&self.ports).index();
        self.connect(Group::Inputs, index, 0, &wire.name);
        if let Some(tag) = self.tag(Group::Inputs, index) {
            self.mark_back_edge(&tag);
        }
        self
    }

    /// The stream that an output makes.
    pub fn output<T: ?Sized + PortType>(&self, port: impl FnOnce(&P) -> Out<T>) -> Wire<T> {
        Wire::new(self.made(Group::Outputs, port(&self.ports).index()))
    }

    /// Connects an input side packet.
    pub fn side<T, W>(&self, port: impl FnOnce(&P) -> Side<T>, wire: &SideWire<W>) -> &Self
    where
        T: ?Sized + PortType,
        W: ?Sized + Fits<T>,
    {
        self.connect(Group::InputSides, port(&self.ports).index(), 0, &wire.name);
        self
    }

    /// Connects the side packet that names a resource.
    pub fn resource<R: Resource>(&self, port: impl FnOnce(&P) -> Res<R>, wire: &SideWire) -> &Self {
        self.connect(Group::InputSides, port(&self.ports).index(), 0, &wire.name);
        self
    }

    /// The side packet that an output makes.
    pub fn output_side<T: ?Sized + PortType>(
        &self,
        port: impl FnOnce(&P) -> OutSide<T>,
    ) -> SideWire<T> {
        SideWire::new(self.made(Group::OutputSides, port(&self.ports).index()))
    }

    /// Connects an input stream, named by its tag.
    pub fn input_at<W: ?Sized>(&self, tag: &str, wire: &Wire<W>) -> &Self {
        self.put(Group::Inputs, tag, &wire.name);
        self
    }

    /// Connects an input stream that closes a loop, named by its tag.
    pub fn back_edge_at<W: ?Sized>(&self, tag: &str, wire: &Wire<W>) -> &Self {
        self.put(Group::Inputs, tag, &wire.name);
        self.mark_back_edge(tag);
        self
    }

    /// The stream that an output makes, named by its tag.
    pub fn output_at(&self, tag: &str) -> Wire {
        Wire::new(self.get_or_put(Group::Outputs, tag))
    }

    /// Connects an input side packet, named by its tag.
    pub fn side_at<W: ?Sized>(&self, tag: &str, wire: &SideWire<W>) -> &Self {
        self.put(Group::InputSides, tag, &wire.name);
        self
    }

    /// The side packet that an output makes, named by its tag.
    pub fn output_side_at(&self, tag: &str) -> SideWire {
        SideWire::new(self.get_or_put(Group::OutputSides, tag))
    }

    /// Names the node; otherwise it is called after its calculator.
    pub fn named(&self, name: &str) -> &Self {
        self.edit(|node| node.name = Some(name.to_owned()))
    }

    /// Sets the options: a struct, or a map such as `serde_json::json!({..})`, whose fields are
    /// those of the calculator's options. A word of an enum is a variant without content; in a map
    /// there are none.
    pub fn options(&self, options: &impl Serialize) -> &Self {
        match options::fields(options) {
            Ok(fields) => self.edit(|node| {
                let type_name = format!("{}Options", node.calculator.replace("::", "."));
                let content = message::message(vec![message::any(type_name, fields)]);
                node.options = Some(field("node_options", content));
            }),
            Err(error) => self.problem(&format!("its options cannot be written: {error}")),
        }
    }

    /// Sets the input policy by the name that graph files use: `"ImmediateInputStreamHandler"`.
    pub fn policy(&self, handler: &str) -> &Self {
        self.policy_with(handler, &())
    }

    /// Sets the input policy and its options.
    pub fn policy_with(&self, handler: &str, options: &impl Serialize) -> &Self {
        match options::fields(options) {
            Ok(fields) => self.edit(|node| {
                let mut content = vec![field("input_stream_handler", text(handler))];
                if !fields.is_empty() {
                    let options = extension(&format!("{handler}Options"), fields);
                    content.push(field("options", message::message(vec![options])));
                }
                let handler = field("input_stream_handler", message::message(content));
                node.settings.push(handler);
            }),
            Err(error) => self.problem(&format!(
                "the options of its policy cannot be written: {error}"
            )),
        }
    }

    /// Runs the node on an executor: one of [`GraphBuilder::executor`] or of the environment.
    pub fn executor(&self, name: &str) -> &Self {
        self.edit(|node| node.settings.push(field("executor", text(name))))
    }

    /// Sets how many calls may run at once.
    pub fn max_in_flight(&self, calls: i32) -> &Self {
        let value = integer(calls.into());
        self.edit(|node| node.settings.push(field("max_in_flight", value)))
    }

    /// Sets the layer of a source: it starts when the sources of all lower layers are closed.
    pub fn source_layer(&self, layer: i32) -> &Self {
        let value = integer(layer.into());
        self.edit(|node| node.settings.push(field("source_layer", value)))
    }

    fn edit(&self, edit: impl FnOnce(&mut Draft)) -> &Self {
        edit(&mut self.graph.state.borrow_mut().nodes[self.index]);
        self
    }

    fn problem(&self, what: &str) -> &Self {
        let mut state = self.graph.state.borrow_mut();
        let problem = format!("node `{}`: {what}", state.nodes[self.index].label());
        state.problems.push(problem);
        drop(state);
        self
    }

    /// The tag of the declaration that a handle stands for.
    fn tag(&self, group: Group, index: Option<usize>) -> Option<String> {
        let tag = index.and_then(|index| self.tags[group as usize].get(index));
        if tag.is_none() {
            self.problem(&format!(
                "an {} was asked for that its contract declares only with some options; name it by its tag",
                group.noun()
            ));
        }
        tag.cloned()
    }

    fn connect(&self, group: Group, index: Option<usize>, nth: u32, name: &Rc<Name>) {
        if let Some(tag) = self.tag(group, index) {
            self.put(group, &nth_of(&tag, nth), name);
        }
    }

    fn made(&self, group: Group, index: Option<usize>) -> Rc<Name> {
        match self.tag(group, index) {
            Some(tag) => self.get_or_put(group, &tag),
            None => Name::after("unknown".to_owned()),
        }
    }

    fn put(&self, group: Group, tag: &str, name: &Rc<Name>) {
        let port = Port::new(tag, Rc::clone(name));
        let mut state = self.graph.state.borrow_mut();
        let ports = &mut state.nodes[self.index].ports[group as usize];
        if ports.iter().any(|other| other.is(&port.tag, port.index)) {
            drop(state);
            self.problem(&format!("{} `{tag}` is connected twice", group.noun()));
        } else {
            ports.push(port);
        }
    }

    fn get_or_put(&self, group: Group, tag: &str) -> Rc<Name> {
        let mut state = self.graph.state.borrow_mut();
        let node = &mut state.nodes[self.index];
        let mut port = Port::new(tag, Rc::default());
        let known = &node.ports[group as usize];
        if let Some(known) = known.iter().find(|known| known.is(&port.tag, port.index)) {
            return Rc::clone(&known.name);
        }
        let name = Name::after(base(node.label(), &port));
        port.name = Rc::clone(&name);
        node.ports[group as usize].push(port);
        state.names.push(Rc::clone(&name));
        name
    }

    fn mark_back_edge(&self, tag: &str) {
        self.edit(|node| {
            let first = if tag.is_empty() { ":0" } else { tag };
            node.back_edges.push(first.to_owned());
        });
    }
}

/// The port `nth` after the one with this tag.
fn nth_of(tag: &str, nth: u32) -> String {
    let first = Port::new(tag, Rc::default());
    format!("{}:{}", first.tag, first.index + nth)
}
