//! Graphs that can be used as nodes.

use std::borrow::Cow;

use graphmill_grammar::{SourceMap, parse_graph};

/// A graph that can be used as a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subgraph {
    /// Its name in graph files.
    pub name: Cow<'static, str>,
    /// The name of its file, for diagnostics.
    pub file: Cow<'static, str>,
    /// Its text.
    pub text: Cow<'static, str>,
    /// The name or calculator of the inner node that receives the outer node's options,
    /// `input_stream_info`, `input_stream_handler` and `executor`. Without one, a node that has any
    /// of these is refused, apart from options of the types that the graph declares.
    pub primary: Option<Cow<'static, str>>,
    /// One or a few sentences for `graphmill describe`.
    pub doc: Cow<'static, str>,
}

impl Subgraph {
    /// The graph `text` of a file, as a node called `name`.
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

    /// The graph `text` of a file, under the name that its `type` gives it; none if it has no
    /// `type`. What is wrong with the text is reported where the subgraph is used.
    pub fn typed(
        file: impl Into<Cow<'static, str>>,
        text: impl Into<Cow<'static, str>>,
    ) -> Option<Self> {
        let (file, text) = (file.into(), text.into());
        let graph = parse_graph(&mut SourceMap::new(), file.as_ref(), text.as_ref()).graph?;
        let name = graph.r#type.filter(|name| !name.is_empty())?;
        Some(Self::new(name.value, file, text))
    }

    /// Gives what the outer node says about a calculator to the inner node of this name or
    /// calculator.
    #[must_use]
    pub fn with_primary(mut self, node: impl Into<Cow<'static, str>>) -> Self {
        self.primary = Some(node.into());
        self
    }

    /// Says what it does.
    #[must_use]
    pub fn with_doc(mut self, doc: impl Into<Cow<'static, str>>) -> Self {
        self.doc = doc.into();
        self
    }
}

/// A [`Subgraph`] known at compile time, as `register_subgraph!` makes it.
pub struct SubgraphRegistration(pub fn() -> Subgraph);

inventory::collect!(SubgraphRegistration);

/// Makes a subgraph known to [`Registry::global`](crate::Registry::global): its name, its file
/// beside the source file, and its primary inner node.
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
