//! The ports of one group of a node, in the order that all of the engine uses: by tag, then by
//! index.
//!
//! Untagged ports have the empty tag and are numbered as they come. The position in this order is
//! what "input 3" means.

use std::ops::Range;

use graphmill_grammar::span::Span;

/// One connected port.
#[derive(Clone, Debug)]
pub(crate) struct TagEntry {
    pub(crate) tag: String,
    pub(crate) index: usize,
    /// The stream or side packet it is connected to.
    pub(crate) name: String,
    /// Where the graph file says so.
    pub(crate) span: Span,
}

/// The connected ports of one group, sorted.
#[derive(Clone, Debug, Default)]
pub(crate) struct TagMap {
    entries: Vec<TagEntry>,
}

impl TagEntry {
    /// Whether the file spells the port as its parts read, so that an edit may replace all of it:
    /// not so for literals with escapes or in pieces, and for ports of a subgraph's inner nodes,
    /// whose names are longer here than there.
    fn is_verbatim(&self) -> bool {
        let (tag, name) = (self.tag.len(), self.name.len());
        let index = self.index.to_string().len();
        let written = self.span.len();
        match tag {
            0 => written == name,
            _ => written == tag + 1 + name || written == tag + 1 + index + 1 + name,
        }
    }

    /// The place of the stream's name, where an edit may replace it.
    pub(crate) fn name_span(&self) -> Option<Span> {
        let mut span = self.span;
        span.start = span.end - u32::try_from(self.name.len()).ok()?;
        self.is_verbatim().then_some(span)
    }

    /// The place of the whole port, where an edit may replace it.
    pub(crate) fn whole_span(&self) -> Option<Span> {
        self.is_verbatim().then_some(self.span)
    }
}

impl TagMap {
    /// Sorts the entries; their indexes have to be gap-free in each tag.
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

    /// The positions of a tag's ports.
    pub(crate) fn range(&self, tag: &str) -> Range<usize> {
        let start = self
            .entries
            .partition_point(|entry| entry.tag.as_str() < tag);
        let end = self
            .entries
            .partition_point(|entry| entry.tag.as_str() <= tag);
        start..end
    }

    /// Each tag once.
    pub(crate) fn tags(&self) -> impl Iterator<Item = &str> {
        self.entries
            .iter()
            .filter(|entry| entry.index == 0)
            .map(|entry| entry.tag.as_str())
    }

    /// The position of `TAG`, `TAG:2`, `:3` or the empty string, which is `:0`.
    pub(crate) fn position(&self, tag_index: &str) -> Option<usize> {
        let (tag, index) = match tag_index.split_once(':') {
            Some((tag, index)) => (tag, index.parse().ok()?),
            None => (tag_index, 0),
        };
        let range = self.range(tag);
        (index < range.len()).then(|| range.start + index)
    }

    /// How a graph file refers to a port: `TAG`, `TAG:1` or `:0`.
    pub(crate) fn reference(&self, position: usize) -> String {
        let entry = &self.entries[position];
        match (entry.tag.as_str(), entry.index) {
            (tag, 0) if !tag.is_empty() => tag.to_owned(),
            (tag, index) => format!("{tag}:{index}"),
        }
    }

    /// How a port is written: `name` is left out, so `TAG`, `TAG:1` or, untagged, its stream.
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
