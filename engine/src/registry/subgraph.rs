//! Graphs that other graphs use as nodes.

use std::borrow::Cow;

use graphmill_grammar::{SourceMap, parse_graph};

/// A graph that other graphs use as a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subgraph {
    /// Name in graph files; unique in a registry.
    pub name: Cow<'static, str>,
    /// Name of its file, for diagnostics.
    pub file: Cow<'static, str>,
    /// Text of the graph file.
    pub text: Cow<'static, str>,
    /// Name or calculator of the inner node that receives the outer node's options,
    /// `input_stream_info`, `input_stream_handler` and `executor`. Without one, a node with any of
    /// these is refused, except for options of types that the graph declares.
    pub primary: Option<Cow<'static, str>>,
    /// Description for `graphmill describe`: one or a few sentences.
    pub doc: Cow<'static, str>,
}

impl Subgraph {
    /// Makes a subgraph called `name` from the graph `text` of a file.
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        file: impl Into<Cow<'static, str>>,
        text: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            name: name.into(),
            file: file.into(),
            text: text.into(),
            primary: None,
            doc: Cow::Borrowed(""),
        }
    }

    /// Makes a subgraph from the graph `text` of a file, named by its `type`. `None` if it has no
    /// `type`. Mistakes in the text are reported where the subgraph is used.
    pub fn typed(
        file: impl Into<Cow<'static, str>>,
        text: impl Into<Cow<'static, str>>,
    ) -> Option<Self> {
        let (file, text) = (file.into(), text.into());
        let graph = parse_graph(&mut SourceMap::new(), file.as_ref(), text.as_ref()).graph?;
        let name = graph.r#type.filter(|name| !name.is_empty())?;
        Some(Self::new(name.value, file, text))
    }

    /// Sets the primary node: the inner node, by name or calculator, that receives the options and
    /// settings of the outer node.
    #[must_use]
    pub fn with_primary(mut self, node: impl Into<Cow<'static, str>>) -> Self {
        self.primary = Some(node.into());
        self
    }

    /// Sets the description for `graphmill describe`.
    #[must_use]
    pub fn with_doc(mut self, doc: impl Into<Cow<'static, str>>) -> Self {
        self.doc = doc.into();
        self
    }
}

/// A [`Subgraph`] known at compile time, made by `register_subgraph!`.
pub struct SubgraphRegistration(pub fn() -> Subgraph);

inventory::collect!(SubgraphRegistration);

/// Adds a subgraph to [`Registry::global`](crate::Registry::global). The arguments are its name,
/// its file beside the source file, and its primary inner node.
///
/// `register_subgraph!("HttpLLMCalculator", "http_llm.pbtxt", primary: "LLMCalculator", doc: "Serves chat");`
#[macro_export]
macro_rules! register_subgraph {
    ($name:literal, $file:literal, primary: $primary:literal, doc: $doc:literal $(,)?) => {
        $crate::registry::inventory::submit! {
            $crate::registry::subgraph::SubgraphRegistration(|| {
                $crate::registry::subgraph::Subgraph::new($name, $file, include_str!($file)).with_primary($primary).with_doc($doc)
            })
        }
    };
}
