//! Expanded graphs as text, as JSON, and as diagrams, for the command line and for operators.

mod diagrams;
mod drawing;
mod text;

use clap::ValueEnum;
use graphmill_engine::Explain;

use drawing::draw;

/// The output format of an expanded graph.
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExplainFormat {
    /// Text for people to read.
    Text,
    /// JSON with all details, for programs.
    Json,
    /// A diagram in the language of Graphviz.
    Dot,
    /// A diagram in the language of Mermaid.
    Mermaid,
}

impl ExplainFormat {
    /// Writes a graph in this format.
    pub(crate) fn write(self, explain: &Explain) -> String {
        match self {
            Self::Text => text::text(explain),
            Self::Json => format!("{:#}\n", serde_json::json!(explain)),
            Self::Dot => diagrams::dot(&draw(explain)),
            Self::Mermaid => diagrams::mermaid(&draw(explain)),
        }
    }

    /// Returns the media type for HTTP.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Text | Self::Dot | Self::Mermaid => "text/plain; charset=utf-8",
        }
    }
}
