//! The formatter, which writes all files in one style.
//!
//! Two spaces per level, one field per line, `name: value` and `name { .. }`, straight double
//! quotes, no separators after fields. Meaningful details are kept: every comment, one blank line
//! in the place of several, a message or list on one line if it fits there, and the notation of
//! numbers and escapes.
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

/// Adds a file to the source map and returns its formatted text, or its syntax errors if it cannot
/// be read.
///
/// Formatting a formatted text changes nothing, and the meaning of the text stays the same. Fields
/// are not checked: the file may be a message of any kind.
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
    let printer = Printer::new(sources.get(file), &tree.comments);
    Ok(printer.print(&tree.root))
}

/// Writes a message from its fields and values alone, ignoring spans. To write a graph, display its
/// [`GraphConfig`].
///
/// A [`crate::ast::ValueKind::Invalid`] in the message has no text and is left empty.
pub fn print(message: &Message) -> String {
    Printer::new(None, &[]).print(message)
}

impl std::fmt::Display for GraphConfig {
    /// Writes the graph as the text of an equivalent file.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&print(&self.to_message()))
    }
}
