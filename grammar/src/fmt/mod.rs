//! The formatter: one way to write a file.
//!
//! Two spaces a level, one field a line, `name: value` and `name { .. }`, straight double quotes,
//! no separators after fields. What says something to people is kept: every comment, one blank line
//! where there were some, a message or list that stands on one line and fits there, the way a
//! number or an escape is written.
//!
//! ```
//! use graphmill_grammar::{SourceMap, fmt};
//!
//! let mut sources = SourceMap::new();
//! let text = "node: < calculator: 'GateCalculator', input_stream:'in'\ninput_stream_info: { back_edge:true } > # gate";
//! assert_eq!(fmt::format(&mut sources, "gate.pbtxt", text).unwrap(), "\
//! node {
//!   calculator: \"GateCalculator\"
//!   input_stream: \"in\"
//!   input_stream_info { back_edge: true }
//! }  # gate
//! ");
//! ```

mod leaf;
mod printer;

use crate::ast::Message;
use crate::diag::{self, Diagnostic};
use crate::graph::GraphConfig;
use crate::parse::{self, foreign};
use crate::span::SourceMap;
use printer::Printer;

pub use printer::MAX_WIDTH;

/// Adds a file to the source map and gives its text as it should be written, or its syntax errors:
/// a file that cannot be read is left alone.
///
/// Formatting what has been formatted changes nothing, and the text means what it meant before.
/// Fields are not checked: the file may be a message of any kind.
pub fn format(
    sources: &mut SourceMap,
    name: impl Into<String>,
    contents: impl Into<Vec<u8>>,
) -> Result<String, Vec<Diagnostic>> {
    let file = parse::add(sources, name, contents).map_err(|diagnostic| vec![*diagnostic])?;
    let (tree, mut diagnostics) = parse::parse_all(sources, file);
    if !diagnostics.is_empty() {
        if let Some(no_graph) = foreign::recognize(sources.text(file), &tree, &diagnostics) {
            return Err(vec![no_graph]);
        }
        diag::truncate(&mut diagnostics);
        return Err(diagnostics);
    }
    let printer = Printer::of_file(sources.get(file), &tree.comments);
    Ok(printer.print(&tree.root))
}

/// The text of a message by its fields and values alone, wherever they come from: spans are not
/// looked at. For a graph, [`GraphConfig`] displays itself.
///
/// Nothing in the message may be [`crate::ast::ValueKind::Invalid`], which has no text and is left
/// empty.
pub fn print(message: &Message) -> String {
    Printer::of_values().print(message)
}

impl std::fmt::Display for GraphConfig {
    /// Writes the graph as a file that means the same.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&print(&self.to_message()))
    }
}
