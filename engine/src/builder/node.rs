//! A node under construction: its ports, options and settings.

use std::rc::Rc;

use graphmill_grammar::ast::ValueKind;
use serde::Serialize;

use crate::{
    contract::{Contract, Group},
    port::{In, Ins, Out, OutSide, PortType, Res, Side},
    resource::Resource,
};

use super::{
    GraphBuilder,
    draft::{Draft, Port, base},
    message::{self, extension, field, text},
    options,
    wire::{Fits, Name, SideWire, Wire},
};

/// A node of a [`GraphBuilder`]: connects ports and sets options, executor and other fields.
///
/// Ports are named in one of two ways. A node added by its Rust type, with port handles `P`, has
/// [`Self::input`], [`Self::output`] and similar methods. They pick a handle, as in
/// `|ports| ports.text`, and the Rust compiler checks the types. Every node has
/// [`Self::input_at`], [`Self::output_at`] and similar methods. They take a tag as in graph files,
/// `"TAG"`, `"TAG:1"`, `":1"` or `""`, and compilation checks the types.
#[derive(Debug)]
pub struct NodeBuilder<'g, P = ()> {
    graph: &'g GraphBuilder,
    /// Index of the node in the graph.
    index: usize,
    /// Handles from a contract with default options, where a handle is the position of a
    /// declaration.
    ports: P,
    /// Declared tags, indexed by [`Group`].
    tags: [Vec<String>; 4],
}

/// Returns the tags that a contract declares, in order, indexed by [`Group`].
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

    /// Connects an input stream, picked by its handle.
    pub fn input<T, W>(&self, port: impl FnOnce(&P) -> In<T>, wire: &Wire<W>) -> &Self
    where
        T: ?Sized + PortType,
        W: ?Sized + Fits<T>,
    {
        self.connect(Group::Inputs, port(&self.ports).index(), 0, &wire.name)
    }

    /// Connects the input streams of one tag: the first wire to index 0.
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
        let Some(tag) = self.tag(Group::Inputs, index) else {
            return self;
        };
        self.put(Group::Inputs, &nth_of(&tag, 0), &wire.name);
        self.mark_back_edge(&tag)
    }

    /// Returns the stream of an output.
    pub fn output<T: ?Sized + PortType>(&self, port: impl FnOnce(&P) -> Out<T>) -> Wire<T> {
        Wire::new(self.made(Group::Outputs, port(&self.ports).index()))
    }

    /// Connects an input side packet, picked by its handle.
    pub fn side<T, W>(&self, port: impl FnOnce(&P) -> Side<T>, wire: &SideWire<W>) -> &Self
    where
        T: ?Sized + PortType,
        W: ?Sized + Fits<T>,
    {
        self.connect(Group::InputSides, port(&self.ports).index(), 0, &wire.name)
    }

    /// Connects the side packet that names a resource of the node.
    pub fn resource<R: Resource>(&self, port: impl FnOnce(&P) -> Res<R>, wire: &SideWire) -> &Self {
        self.connect(Group::InputSides, port(&self.ports).index(), 0, &wire.name)
    }

    /// Returns the side packet of an output.
    pub fn output_side<T: ?Sized + PortType>(
        &self,
        port: impl FnOnce(&P) -> OutSide<T>,
    ) -> SideWire<T> {
        SideWire::new(self.made(Group::OutputSides, port(&self.ports).index()))
    }

    /// Connects an input stream by its tag.
    pub fn input_at<W: ?Sized>(&self, tag: &str, wire: &Wire<W>) -> &Self {
        self.put(Group::Inputs, tag, &wire.name)
    }

    /// Connects an input stream that closes a loop, by its tag.
    pub fn back_edge_at<W: ?Sized>(&self, tag: &str, wire: &Wire<W>) -> &Self {
        self.put(Group::Inputs, tag, &wire.name);
        self.mark_back_edge(tag)
    }

    /// Returns the stream of an output by its tag.
    pub fn output_at(&self, tag: &str) -> Wire {
        Wire::new(self.get_or_put(Group::Outputs, tag))
    }

    /// Connects an input side packet by its tag.
    pub fn side_at<W: ?Sized>(&self, tag: &str, wire: &SideWire<W>) -> &Self {
        self.put(Group::InputSides, tag, &wire.name)
    }

    /// Returns the side packet of an output by its tag.
    pub fn output_side_at(&self, tag: &str) -> SideWire {
        SideWire::new(self.get_or_put(Group::OutputSides, tag))
    }

    /// Sets the node's name. The default is the name of its calculator.
    pub fn named(&self, name: &str) -> &Self {
        self.edit(|node| node.name = Some(name.to_owned()))
    }

    /// Sets the options from a struct or a map such as `serde_json::json!({..})`. The fields are
    /// those of the calculator's options. Write an enum's word as a variant without content; maps
    /// cannot hold such words.
    pub fn options(&self, options: &impl Serialize) -> &Self {
        match options::fields(options) {
            Ok(fields) => self.edit(|node| {
                let type_name = format!("{}Options", node.calculator.replace("::", "."));
                let content = message::message(vec![message::any(type_name, fields)]);
                node.options = Some(field("node_options", content));
            }),
            Err(error) => self.problem(&format!("invalid options: {error}")),
        }
    }

    /// Sets the input policy by its name in graph files, such as `"ImmediateInputStreamHandler"`.
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
                "invalid options of the node's input policy: {error}"
            )),
        }
    }

    /// Sets the executor: one of [`GraphBuilder::executor`] or of the environment.
    pub fn executor(&self, name: &str) -> &Self {
        self.edit(|node| node.settings.push(field("executor", text(name))))
    }

    /// Sets the number of calls that may run at once.
    pub fn max_in_flight(&self, calls: i32) -> &Self {
        let value = ValueKind::integer(calls.into());
        self.edit(|node| node.settings.push(field("max_in_flight", value)))
    }

    /// Sets the layer of a source. It starts once the sources of all lower layers are closed.
    pub fn source_layer(&self, layer: i32) -> &Self {
        let value = ValueKind::integer(layer.into());
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

    /// Returns the tag of the declaration behind a handle.
    fn tag(&self, group: Group, index: Option<usize>) -> Option<String> {
        let tag = index.and_then(|index| self.tags[group as usize].get(index));
        if tag.is_none() {
            self.problem(&format!(
                "its contract with default options does not declare this {}; name the port by its tag",
                group.noun()
            ));
        }
        tag.cloned()
    }

    fn connect(&self, group: Group, index: Option<usize>, nth: u32, name: &Rc<Name>) -> &Self {
        match self.tag(group, index) {
            Some(tag) => self.put(group, &nth_of(&tag, nth), name),
            None => self,
        }
    }

    fn made(&self, group: Group, index: Option<usize>) -> Rc<Name> {
        match self.tag(group, index) {
            Some(tag) => self.get_or_put(group, &tag),
            None => Name::after("unknown".to_owned()),
        }
    }

    fn put(&self, group: Group, tag: &str, name: &Rc<Name>) -> &Self {
        let port = Port::new(tag, Rc::clone(name));
        let mut state = self.graph.state.borrow_mut();
        let ports = &mut state.nodes[self.index].ports[group as usize];
        if ports.iter().any(|other| other.is(&port.tag, port.index)) {
            drop(state);
            return self.problem(&format!("{} `{tag}` is connected twice", group.noun()));
        }
        ports.push(port);
        self
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

    fn mark_back_edge(&self, tag: &str) -> &Self {
        let first = if tag.is_empty() { ":0" } else { tag };
        self.edit(|node| node.back_edges.push(first.to_owned()))
    }
}

/// Returns the port `nth` after the one with this tag.
fn nth_of(tag: &str, nth: u32) -> String {
    let first = Port::new(tag, Rc::default());
    format!("{}:{}", first.tag, first.index + nth)
}
