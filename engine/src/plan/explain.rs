//! The expanded graph with everything that compilation resolved, for people and tools.

use serde::Serialize;

/// An expanded graph: all subgraphs are replaced by their nodes.
#[derive(Clone, Debug, Serialize)]
pub struct Explain {
    /// Nodes in topological order, sources first.
    pub nodes: Vec<ExplainNode>,
    /// Input streams of the graph, without tags.
    pub inputs: Vec<String>,
    /// Output streams of the graph, without tags.
    pub outputs: Vec<String>,
    /// Input side packets of the graph.
    pub side_inputs: Vec<String>,
    /// Output side packets of the graph.
    pub side_outputs: Vec<String>,
}

/// A node of an expanded graph.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainNode {
    /// Name of the node, with the names of its subgraphs as prefix.
    pub name: String,
    /// Name of the calculator that the node runs.
    pub calculator: String,
    /// Subgraphs around the node, outermost first.
    pub within: Vec<String>,
    /// Location as `file:line:column`; absent for a node that is in no file.
    pub place: Option<String>,
    /// Name of the input policy.
    pub policy: String,
    /// Place of its calls: inline, or the name of the executor.
    pub runs: String,
    /// Options in the text format, only those that the graph sets. The calculator's description has
    /// the defaults.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub options: String,
    /// Input streams in the order of their tags.
    pub inputs: Vec<ExplainPort>,
    /// Output streams in the order of their tags.
    pub outputs: Vec<ExplainPort>,
    /// Input side packets, including those that name resources.
    pub side_inputs: Vec<ExplainPort>,
    /// Output side packets in the order of their tags.
    pub side_outputs: Vec<ExplainPort>,
}

/// A connected port of a node.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainPort {
    /// Tag and index as graph files write them.
    pub port: String,
    /// Name of the stream, side packet or resource.
    pub name: String,
    /// Type of the packets; `any` if nothing decides it.
    pub ty: String,
    /// Set if the input closes a loop.
    pub back_edge: bool,
}

impl ExplainPort {
    /// Returns the tag, which may be empty, and the index, as in `TAG:0`.
    pub(super) fn tag_and_index(&self) -> String {
        match self.port.as_str() {
            // A single port without a tag is written as its stream.
            port if port == self.name => ":0".to_owned(),
            port if port.contains(':') => port.to_owned(),
            tag => format!("{tag}:0"),
        }
    }
}
