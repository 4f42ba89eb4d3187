//! A node under construction.

use std::rc::Rc;

use graphmill_grammar::ast::Field;

use crate::contract::Group;

use super::{
    message::{self, field, text},
    wire::Name,
};

/// A port of a node or graph, with the stream or side packet connected to it.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) tag: String,
    pub(super) index: u32,
    pub(super) name: Rc<Name>,
}

impl Port {
    /// Parses `TAG`, `TAG:1`, `:1` or, for a port without a tag, the empty text.
    pub(super) fn new(port: &str, name: Rc<Name>) -> Self {
        let (tag, index) = port.split_once(':').unwrap_or((port, "0"));
        Self {
            tag: tag.to_owned(),
            index: index.parse().unwrap_or(0),
            name,
        }
    }

    /// Returns the port with its stream, as a graph file writes it.
    pub(super) fn text(&self) -> String {
        match (self.tag.as_str(), self.index) {
            ("", _) => self.name.to_string(),
            (tag, 0) => format!("{tag}:{}", self.name),
            (tag, index) => format!("{tag}:{index}:{}", self.name),
        }
    }

    pub(super) fn is(&self, tag: &str, index: u32) -> bool {
        self.tag == tag && self.index == index
    }
}

/// A node under construction: the fields that have been set so far.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) calculator: String,
    pub(super) name: Option<String>,
    /// Connected ports, indexed by [`Group`].
    pub(super) ports: [Vec<Port>; 4],
    /// Inputs that close a loop.
    pub(super) back_edges: Vec<String>,
    pub(super) options: Option<Field>,
    /// Fields other than those above.
    pub(super) settings: Vec<Field>,
}

impl Draft {
    pub(super) fn new(calculator: &str) -> Self {
        Self {
            calculator: calculator.to_owned(),
            name: None,
            ports: Default::default(),
            back_edges: Vec::new(),
            options: None,
            settings: Vec::new(),
        }
    }

    /// Returns the node's name for messages: its own or its calculator's.
    pub(super) fn label(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.calculator)
    }

    /// Writes the node's fields in the order of a graph file.
    pub(super) fn fields(&mut self) -> Vec<Field> {
        let mut fields = Vec::new();
        fields.extend(self.name.as_ref().map(|name| field("name", text(name))));
        fields.push(field("calculator", text(&self.calculator)));
        for group in Group::ALL {
            let ports = &mut self.ports[group as usize];
            ports.sort_by(|a, b| (&a.tag, a.index).cmp(&(&b.tag, b.index)));
            let texts = ports.iter().map(|port| text(port.text()));
            fields.extend(message::repeated(group.field(), texts));
        }
        for port in &self.back_edges {
            let info = vec![
                field("tag_index", text(port)),
                field("back_edge", message::boolean(true)),
            ];
            fields.push(field("input_stream_info", message::message(info)));
        }
        fields.extend(self.options.clone());
        fields.extend(self.settings.iter().cloned());
        fields
    }

    /// Finds a gap in the numbers of ports without a tag. A file numbers these ports by their
    /// order, so a gap would shift them. Returns the message.
    pub(super) fn gap(&self) -> Option<String> {
        self.ports.iter().find_map(|ports| {
            let untagged = || ports.iter().filter(|port| port.tag.is_empty());
            let most = untagged().map(|port| port.index).max()?;
            let missing = (0..most).find(|&index| untagged().all(|port| port.index != index))?;
            Some(format!(
                "node `{}` connects port `:{most}`, but not `:{missing}`",
                self.label()
            ))
        })
    }
}

/// Derives a name for an output from its node and port.
pub(super) fn base(node: &str, port: &Port) -> String {
    let node = node.strip_suffix("Calculator").unwrap_or(node);
    let mut name = String::new();
    let mut lower = false;
    for c in node.chars() {
        if c.is_ascii_uppercase() && lower {
            name.push('_');
        }
        lower = c.is_ascii_lowercase() || c.is_ascii_digit();
        name.push(if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '_'
        });
    }
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        name.insert(0, '_');
    }
    if !port.tag.is_empty() {
        name = format!("{name}_{}", port.tag.to_ascii_lowercase());
    }
    if port.index > 0 {
        name = format!("{name}_{}", port.index);
    }
    name
}
