//! The formats of a model for tool calls and reasoning.

use std::collections::BTreeSet;
use std::sync::Arc;

use graphmill_engine::{Error, Result};
use graphmill_llm::{Token, Vocab};

use crate::text::chat_template::ChatTemplate;
use crate::text::{reasoning, tool_calls};

/// The formats of one model, and the tokens that parsers of any format need.
pub(crate) struct OutputFormats {
    tool_calls: Option<Arc<tool_calls::CallFormat>>,
    reasoning: Option<&'static dyn reasoning::ReasoningFormat>,
    markers: BTreeSet<Token>,
    /// True if every tool call is constrained to its format.
    pub(super) guided: bool,
}

impl OutputFormats {
    /// Returns the formats with these names. For empty names it detects those in the chat template.
    pub(crate) fn new(
        tool_parser: &str,
        reasoning_parser: &str,
        template: Option<&ChatTemplate>,
        guided: bool,
        vocab: &dyn Vocab,
    ) -> Result<Self> {
        let tools = tool_calls::FORMATS
            .named(tool_parser)
            .map_err(Error::invalid)?;
        let reasoning = reasoning::FORMATS
            .named(reasoning_parser)
            .map_err(Error::invalid)?;
        let source = template.map_or("", ChatTemplate::source);
        let tool_calls = tools
            .map(|family| tool_calls::CallFormat::from_family(family, source))
            .or_else(|| {
                let is_open = tool_parser.is_empty();
                is_open.then(|| tool_calls::CallFormat::taught_by(template))?
            });
        let own = tool_calls.iter().flat_map(|format| format.marks());
        let marks = tool_calls::marks().chain(own);
        let marks = marks.chain(reasoning::marks());
        let markers = marks
            .filter_map(|mark| special_token(&mark, vocab))
            .collect();
        Ok(Self {
            tool_calls,
            reasoning: reasoning.or_else(|| {
                let taught = reasoning::FORMATS.taught_by(source)?;
                reasoning_parser.is_empty().then_some(taught.format)
            }),
            markers,
            guided,
        })
    }

    /// Returns the format of its tool calls; `None` if they stay in the text.
    pub(crate) fn tool_calls(&self) -> Option<&Arc<tool_calls::CallFormat>> {
        self.tool_calls.as_ref()
    }

    /// Returns the format of its reasoning; `None` if it stays in the text.
    pub(crate) fn reasoning(&self) -> Option<&'static dyn reasoning::ReasoningFormat> {
        self.reasoning
    }

    /// Returns true if a special token is a mark that a parser needs.
    pub(crate) fn is_marker(&self, token: Token) -> bool {
        self.markers.contains(&token)
    }
}

/// Returns the special token with this spelling, if the vocabulary has one.
fn special_token(spelling: &str, vocab: &dyn Vocab) -> Option<Token> {
    match vocab.tokenize(spelling, false, true).ok()?.as_slice() {
        [token] if vocab.is_control(*token) => Some(*token),
        _ => None,
    }
}

impl std::fmt::Debug for OutputFormats {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OutputFormats").finish_non_exhaustive()
    }
}
