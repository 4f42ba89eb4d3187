//! Graph files: protobuf text format with spans, typed graphs, diagnostics.
//!
//! ```
//! use graphmill_grammar::{parse_graph, SourceMap};
//!
//! let mut sources = SourceMap::new();
//! let parsed = parse_graph(&mut sources, "pass.pbtxt", r#"
//!     input_stream: "in"
//!     node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }
//! "#);
//! assert_eq!(parsed.into_result().unwrap().0.node[0].output_stream[0].name.value, "out");
//! ```
//!
//! The crate does no input or output and knows no calculator. Its phases collect diagnostics and
//! never stop at the first one: [`parse()`] makes a tree, [`graph::lower`] makes a [`GraphConfig`],
//! [`de::from_message`] reads option bodies into a calculator's own type, [`render`] shows
//! diagnostics to people and programs. [`fmt`] formats a file.

pub mod ast;
pub mod codes;
pub mod de;
mod delimiters;
pub mod diag;
pub mod fmt;
pub mod graph;
mod literal;
pub mod parse;
pub mod render;
mod scalar;
pub mod span;
pub mod suggest;
mod text_format;
mod tree;

pub use codes::Code;
pub use de::{from_message, from_options};
pub use diag::{Diagnostic, Severity};
pub use graph::{GraphConfig, Node, OptionsMessage, PortSpec};
pub use parse::{ParsedGraph, parse, parse_graph};
pub use span::{FileId, SourceMap, Span, Spanned};
