//! The expanded graph with all that compilation resolved, for people and tools.

use serde::Serialize;

/// An expanded graph.
#[derive(Clone, Debug, Serialize)]
pub struct Explain {
    /// The nodes, in the order in which packets pass them.
    pub nodes: Vec<ExplainNode>,
    /// The graph's input streams.
    pub inputs: Vec<String>,
    /// The graph's output streams.
    pub outputs: Vec<String>,
    /// The side packets that the graph takes.
    pub side_inputs: Vec<String>,
    /// The side packets that the graph gives.
    pub side_outputs: Vec<String>,
}

/// A node of an expanded graph.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainNode {
    /// Its name.
    pub name: String,
    /// Its calculator.
    pub calculator: String,
    /// The subgraphs it comes from, outermost first.
    pub within: Vec<String>,
    /// Where it is written, as `file:line:column`; absent for a node that no file has.
    pub place: Option<String>,
    /// When it is called.
    pub policy: String,
    /// Whether it runs inline or on an executor.
    pub runs: String,
    /// Its options as they are written, in the text format; the calculator's description has those
    /// that are not.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub options: String,
    /// Its input streams.
    pub inputs: Vec<ExplainPort>,
    /// Its output streams.
    pub outputs: Vec<ExplainPort>,
    /// Its input side packets and resources.
    pub side_inputs: Vec<ExplainPort>,
    /// Its output side packets.
    pub side_outputs: Vec<ExplainPort>,
}

/// A port of a node.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainPort {
    /// The tag and index as a graph file writes them.
    pub port: String,
    /// The stream, side packet or resource.
    pub name: String,
    /// What it carries; `any` if nothing decides it.
    pub ty: String,
    /// Whether it closes a loop.
    pub back_edge: bool,
}

impl ExplainPort {
    /// The tag, which may be empty, and the index, both written out.
    pub(super) fn tag_and_index(&self) -> String {
        match self.port.as_str() {
            // The only one without a tag is written as its stream.
            port if port == self.name => ":0".to_owned(),
            port if port.contains(':') => port.to_owned(),
            tag => format!("{tag}:0"),
        }
    }
}
