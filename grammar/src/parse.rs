//! Text to tree: `pbtxt.pest` behind the delimiter scan, and the entry points of the crate.
//!
//! Parsing never fails as a whole and never panics: whatever the text is, there is a tree of what could be read and a list
//! of what could not. It takes linear time, and stack for at most [`MAX_DEPTH`] nested messages.

use std::collections::HashSet;

use pest::Parser;

use crate::ast::{File, Message};
use crate::codes::syntax;
use crate::diag::{self, Diagnostic};
use crate::graph::{self, GraphConfig};
use crate::scan::{self, Scan};
use crate::span::{FileId, SourceMap, Span};
use crate::tree::Reader;

/// How deep messages and lists may be nested.
pub const MAX_DEPTH: usize = 100;

/// How many syntax errors of one file are listed.
pub const MAX_ERRORS: usize = 100;

mod grammar {
    #![allow(missing_docs, reason = "the derive documents no rule")]

    /// The grammar of the text format.
    #[derive(pest_derive::Parser)]
    #[grammar = "pbtxt.pest"]
    pub(crate) struct TextFormat;
}
pub(crate) use grammar::Rule;

/// Parses a file of the source map and reports all of its syntax errors.
pub fn parse(sources: &SourceMap, file: FileId) -> (File, Vec<Diagnostic>) {
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
            "the file has {} MiB: more than the {limit} MiB that are read",
            text.len() >> 20
        );
        return nothing(Diagnostic::error(
            &syntax::UNUSABLE_FILE,
            whole.at_start(),
            message,
        ));
    }
    let Scan {
        text: matched,
        comments,
        mut diagnostics,
        balanced,
        too_deep,
    } = scan::scan(file, text);
    if too_deep {
        return nothing(diagnostics.swap_remove(0));
    }
    let mut reader = Reader::new(file, text);
    let root = match grammar::TextFormat::parse(Rule::file, &matched) {
        Ok(mut pairs) => pairs.next().map(|file| reader.file(file.into_inner())),
        // The grammar matches every text whose delimiters match; should it ever not, the user sees where.
        Err(error) => {
            let at = match error.location {
                pest::error::InputLocation::Pos(at) | pest::error::InputLocation::Span((at, _)) => {
                    at.min(text.len())
                }
            };
            return nothing(Diagnostic::error(
                &syntax::UNEXPECTED_TEXT,
                Span::new(file, at..at),
                "the file cannot be read from here",
            ));
        }
    };
    let root = root.unwrap_or(Message {
        span: whole,
        ..Message::empty()
    });
    merge(sources, &mut diagnostics, reader.diagnostics);
    truncate(&mut diagnostics);
    (
        File {
            id: file,
            root,
            comments,
            balanced,
        },
        diagnostics,
    )
}

/// Adds what the reader found to what the scan found, except on lines where a delimiter is the cause already.
fn merge(sources: &SourceMap, diagnostics: &mut Vec<Diagnostic>, found: Vec<Diagnostic>) {
    let line = |span: Span| {
        sources
            .get(span.file)
            .map(|source| source.line_col(span.start as usize).line)
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
    diag::sort(diagnostics);
}

/// Cuts the list at [`MAX_ERRORS`].
fn truncate(diagnostics: &mut Vec<Diagnostic>) {
    if let Some(first) = diagnostics.get(MAX_ERRORS) {
        let more = diagnostics.len() - MAX_ERRORS;
        let message = format!("{more} more syntax errors in this file are not listed");
        let last = Diagnostic::error(&syntax::TOO_MANY_ERRORS, first.primary.span, message)
            .label("the next one is here");
        diagnostics.truncate(MAX_ERRORS);
        diagnostics.push(last);
    }
}

/// What has become of a graph file.
#[derive(Clone, Debug)]
pub struct ParsedGraph {
    /// The graph, as far as it could be read: there may be errors beside it, which later phases can add theirs to. None
    /// where nothing could be relied on.
    pub graph: Option<GraphConfig>,
    /// Errors and warnings, in the order of the file.
    pub diagnostics: Vec<Diagnostic>,
}

impl ParsedGraph {
    /// The graph with its warnings, or all diagnostics if one of them is an error.
    pub fn into_result(self) -> Result<(GraphConfig, Vec<Diagnostic>), Vec<Diagnostic>> {
        match self.graph {
            Some(graph) if !diag::has_errors(&self.diagnostics) => Ok((graph, self.diagnostics)),
            _ => Err(self.diagnostics),
        }
    }
}

/// Adds a graph file to the source map, parses it and lowers it.
pub fn parse_graph(
    sources: &mut SourceMap,
    name: impl Into<String>,
    text: impl Into<String>,
) -> ParsedGraph {
    let file = sources.add(name, text);
    let (tree, mut diagnostics) = parse(sources, file);
    let (graph, found) = graph::lower(&tree);
    diagnostics.extend(found);
    diag::sort(&mut diagnostics);
    ParsedGraph { graph, diagnostics }
}
