//! Parsing of text to a tree with the grammar in `text_format.pest`, and the entry points of the
//! crate.
//!
//! Parsing never fails as a whole and never panics. For any text, it returns a tree of the readable
//! parts and a list of errors. It takes linear time, and stack for at most [`MAX_DEPTH`] nested
//! messages.

pub(crate) mod foreign;

use std::collections::HashSet;

use pest::Parser;
use pest::error::InputLocation;
use pest::iterators::Pairs;

use crate::ast::{File, Message};
use crate::codes::syntax;
use crate::delimiters;
use crate::diag::{self, Diagnostic};
use crate::graph::{self, GraphConfig};
use crate::span::{FileId, SourceMap, Span};
use crate::text_format::{Rule, TextFormat};
use crate::tree::Reader;

pub use crate::text_format::MAX_DEPTH;

/// Parses a file of the source map and reports its syntax errors.
pub fn parse(sources: &SourceMap, file: FileId) -> (File, Vec<Diagnostic>) {
    let (tree, mut diagnostics) = parse_all(sources, file);
    diag::truncate(&mut diagnostics);
    (tree, diagnostics)
}

/// Parses a file like [`parse`], but also returns diagnostics beyond the listed maximum.
pub(crate) fn parse_all(sources: &SourceMap, file: FileId) -> (File, Vec<Diagnostic>) {
    let text = sources.text(file);
    let whole = Span::new(file, 0..text.len().min(SourceMap::MAX_FILE_BYTES));
    let nothing = |diagnostic: Diagnostic| {
        let root = Message {
            span: whole,
            incomplete: true,
            ..Message::empty()
        };
        (
            File {
                id: file,
                root,
                comments: Vec::new(),
                balanced: false,
            },
            vec![diagnostic],
        )
    };
    if text.len() > SourceMap::MAX_FILE_BYTES {
        let limit = SourceMap::MAX_FILE_BYTES >> 20;
        let message = format!(
            "the file has {} MiB, more than the maximum of {limit} MiB",
            text.len() >> 20
        );
        let place = whole.at_start();
        return nothing(Diagnostic::error(&syntax::UNUSABLE_FILE, place, message));
    }
    if let Ok(pairs) = TextFormat::parse(Rule::file, text) {
        return read(file, text, pairs, true);
    }
    let matched = match delimiters::balance(file, text) {
        Ok(matched) => matched,
        Err(too_deep) => return nothing(*too_deep),
    };
    match TextFormat::parse(Rule::damaged_file, &matched.text) {
        Ok(pairs) => {
            let (tree, found) = read(file, text, pairs, matched.balanced);
            let diagnostics = merge(sources, matched.diagnostics, found);
            (tree, diagnostics)
        }
        // The rules for damaged texts match every text with matching delimiters. If one does not
        // match, the user sees the location.
        Err(error) => {
            let at = match error.location {
                InputLocation::Pos(at) | InputLocation::Span((at, _)) => at.min(text.len()),
            };
            let (place, message) = (Span::new(file, at..at), "the file cannot be read from here");
            nothing(Diagnostic::error(&syntax::UNEXPECTED_TEXT, place, message))
        }
    }
}

/// Makes the tree from the matches of the grammar.
fn read(
    file: FileId,
    text: &str,
    mut pairs: Pairs<'_, Rule>,
    balanced: bool,
) -> (File, Vec<Diagnostic>) {
    let mut reader = Reader::new(file, text);
    let mut root = Message::empty();
    root.span = Span::new(file, 0..text.len());
    let all = pairs.clone().flatten();
    let comments = all.filter(|pair| pair.as_rule() == Rule::COMMENT);
    let comments = comments.map(|pair| {
        let start = pair.as_span().start();
        let written = pair.as_str();
        let written = written.strip_suffix('\r').unwrap_or(written);
        Span::new(file, start..start + written.len())
    });
    let comments = comments.collect();
    if let Some(pair) = pairs.next() {
        reader.fields(pair.into_inner(), &mut root);
    }
    let tree = File {
        id: file,
        root,
        comments,
        balanced,
    };
    (tree, reader.diagnostics.into_vec())
}

/// Adds the reader's diagnostics to those about delimiters, except on lines where a delimiter is
/// already the cause.
fn merge(
    sources: &SourceMap,
    mut diagnostics: Vec<Diagnostic>,
    found: Vec<Diagnostic>,
) -> Vec<Diagnostic> {
    let line = |span: Span| {
        sources
            .get(span.file)
            .map(|source| source.line(span.range().start))
    };
    let lines: HashSet<_> = diagnostics
        .iter()
        .map(|diagnostic| line(diagnostic.primary.span))
        .collect();
    diagnostics.extend(
        found
            .into_iter()
            .filter(|found| lines.is_empty() || !lines.contains(&line(found.primary.span))),
    );
    diag::sort(&mut diagnostics);
    diagnostics
}

/// The result of reading a graph file.
#[derive(Clone, Debug)]
pub struct ParsedGraph {
    /// Graph, as far as it could be read. There may be errors, to which later phases can add
    /// theirs. `None` if nothing could be relied on.
    pub graph: Option<GraphConfig>,
    /// Errors and warnings in the order of the file.
    pub diagnostics: Vec<Diagnostic>,
}

impl ParsedGraph {
    /// Returns the graph with its warnings, or all diagnostics if one of them is an error.
    pub fn into_result(self) -> Result<(GraphConfig, Vec<Diagnostic>), Vec<Diagnostic>> {
        match self.graph {
            Some(graph) if !diag::has_errors(&self.diagnostics) => Ok((graph, self.diagnostics)),
            _ => Err(self.diagnostics),
        }
    }
}

/// Adds a graph file to the source map, parses it and lowers it.
///
/// The contents are text or bytes. Bytes that are not UTF-8 are reported.
pub fn parse_graph(
    sources: &mut SourceMap,
    name: impl Into<String>,
    contents: impl Into<Vec<u8>>,
) -> ParsedGraph {
    let refused = |diagnostic| ParsedGraph {
        graph: None,
        diagnostics: vec![diagnostic],
    };
    let file = match add(sources, name, contents) {
        Ok(file) => file,
        Err(diagnostic) => return refused(*diagnostic),
    };
    let (tree, mut diagnostics) = parse_all(sources, file);
    let (mut graph, found) = graph::lower(&tree);
    if diag::has_errors(&diagnostics)
        && let Some(graph) = &mut graph
    {
        // A value without its colon is read, but a file with a mistake leads to no plan.
        graph.refused.inside();
    }
    diagnostics.extend(found);
    diag::sort(&mut diagnostics);
    if let Some(no_graph) = foreign::recognize(sources.text(file), &tree, &diagnostics) {
        return refused(no_graph);
    }
    diag::truncate(&mut diagnostics);
    ParsedGraph { graph, diagnostics }
}

/// Adds a file by its bytes. Bytes that are not UTF-8 are shown as U+FFFD and reported.
pub(crate) fn add(
    sources: &mut SourceMap,
    name: impl Into<String>,
    contents: impl Into<Vec<u8>>,
) -> Result<FileId, Box<Diagnostic>> {
    let contents = contents.into();
    if let Some(kind) = foreign::kind_of(&contents) {
        // Its lines would not help anybody.
        let file = sources.add(name, "");
        return Err(Box::new(foreign::is_of_kind(kind, Span::new(file, 0..0))));
    }
    let error = match String::from_utf8(contents) {
        Ok(text) => return Ok(sources.add(name, text)),
        Err(error) => error,
    };
    let at = error.utf8_error().valid_up_to();
    let byte = error.as_bytes()[at];
    let file = sources.add(name, String::from_utf8_lossy(error.as_bytes()));
    let span = Span::new(file, at..at + char::REPLACEMENT_CHARACTER.len_utf8());
    let diagnostic = Diagnostic::error(&syntax::UNUSABLE_FILE, span, "the file is not UTF-8 text")
        .label(format!("byte 0x{byte:02x} does not begin a character"))
        .hint("save the file as UTF-8");
    Err(Box::new(diagnostic))
}
