//! The connected ports of one group of a node, in the order used throughout the engine: by tag,
//! then by index.
//!
//! Ports without a tag have the empty tag and are numbered in the order of the file. "Input 3" is
//! the input at position 3 of this order.

use std::ops::Range;

use graphmill_grammar::span::Span;

#[derive(Clone, Debug)]
pub(crate) struct TagEntry {
    pub(crate) tag: String,
    pub(crate) index: usize,
    /// Name of the connected stream or side packet.
    pub(crate) name: String,
    /// Location in the graph file.
    pub(crate) span: Span,
}

/// Connected ports of one group, sorted.
#[derive(Clone, Debug, Default)]
pub(crate) struct TagMap {
    entries: Vec<TagEntry>,
}

impl TagEntry {
    /// Returns `true` if the file spells the port exactly as its parts, so that an edit may replace
    /// the text. Literals with escapes or in pieces do not, nor do ports of a subgraph's inner
    /// nodes, whose names are longer here than in the file.
    fn is_verbatim(&self) -> bool {
        let (tag, name) = (self.tag.len(), self.name.len());
        let index = self.index.to_string().len();
        let written = self.span.len();
        match tag {
            0 => written == name,
            _ => written == tag + 1 + name || written == tag + 1 + index + 1 + name,
        }
    }

    /// Returns the location of the stream's name, if an edit may replace it.
    pub(crate) fn name_span(&self) -> Option<Span> {
        let mut span = self.span;
        span.start = span.end - u32::try_from(self.name.len()).ok()?;
        self.is_verbatim().then_some(span)
    }

    /// Returns the location of the whole port, if an edit may replace it.
    pub(crate) fn whole_span(&self) -> Option<Span> {
        self.is_verbatim().then_some(self.span)
    }
}

impl TagMap {
    /// Sorts the entries. The indexes of each tag must have no gaps.
    pub(crate) fn new(mut entries: Vec<TagEntry>) -> Self {
        entries.sort_by(|a, b| (&a.tag, a.index).cmp(&(&b.tag, b.index)));
        Self { entries }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn entries(&self) -> &[TagEntry] {
        &self.entries
    }

    /// Returns the positions of a tag's ports.
    pub(crate) fn range(&self, tag: &str) -> Range<usize> {
        let start = self
            .entries
            .partition_point(|entry| entry.tag.as_str() < tag);
        let end = self
            .entries
            .partition_point(|entry| entry.tag.as_str() <= tag);
        start..end
    }

    /// Iterates over the tags, each once.
    pub(crate) fn tags(&self) -> impl Iterator<Item = &str> {
        let firsts = self.entries.iter().filter(|entry| entry.index == 0);
        firsts.map(|entry| entry.tag.as_str())
    }

    /// Returns the position of `TAG`, `TAG:2`, `:3` or the empty string, which means `:0`.
    pub(crate) fn position(&self, tag_index: &str) -> Option<usize> {
        let (tag, index) = match tag_index.split_once(':') {
            Some((tag, index)) => (tag, index.parse().ok()?),
            None => (tag_index, 0),
        };
        let range = self.range(tag);
        (index < range.len()).then(|| range.start + index)
    }

    /// Returns the reference to a port in graph files: `TAG`, `TAG:1` or `:0`.
    pub(crate) fn reference(&self, position: usize) -> String {
        let entry = &self.entries[position];
        match (entry.tag.as_str(), entry.index) {
            (tag, 0) if !tag.is_empty() => tag.to_owned(),
            (tag, index) => format!("{tag}:{index}"),
        }
    }

    /// Returns a port's label for messages: `TAG`, `TAG:1` or, without a tag, its stream.
    pub(crate) fn label(&self, position: usize) -> String {
        let entry = &self.entries[position];
        match (entry.tag.is_empty(), self.range(&entry.tag).len()) {
            (true, 1) => entry.name.clone(),
            (true, _) => format!(":{}", entry.index),
            (false, 1) => entry.tag.clone(),
            (false, _) => format!("{}:{}", entry.tag, entry.index),
        }
    }
}
