//! Questions about prompts, which a request can ask instead of an answer.

use std::sync::Arc;

use serde_json::Value;

use super::GenerationParams;

/// A question about the prompts of a request. The request travels as any other, up to its tokens;
/// it has no [`GenerationParams`] on its stream, so nothing is generated.
#[derive(Clone, Debug)]
pub struct PromptQuestion {
    /// The model as the request names it; empty if it names none.
    pub model: Arc<str>,
    /// What is asked.
    pub kind: QuestionKind,
}

/// What is asked about prompts.
#[derive(Clone, Debug)]
pub enum QuestionKind {
    /// Their tokens.
    Tokenize(Tokenization),
    /// The text of tokens.
    Detokenize,
    /// Text and tokens, as the model would see them.
    Render,
    /// The number of tokens.
    CountTokens {
        /// The kind of object that the answer says it is, if it says so.
        object: Option<&'static str>,
    },
    /// What the request would do.
    Explain(Arc<Explained>),
}

/// How tokens are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokenization {
    /// Most tokens of a text; the others are cut off its end.
    pub max_length: Option<u32>,
    /// Whether shorter lists are filled up to `max_length`.
    pub pad: bool,
    /// Whether they are filled at their beginning.
    pub pad_left: bool,
    /// Whether the text of each token is listed too.
    pub token_strs: bool,
    /// Whether tokens are objects of id and text.
    pub with_pieces: bool,
    /// Whether there is a list of tokens for each of several texts.
    pub nested: bool,
}

/// The values a request would run with.
#[derive(Clone, Debug, Default)]
pub struct Explained {
    /// How its tokens would be generated.
    pub params: GenerationParams,
    /// Each value, and where it is from.
    pub values: Vec<ResolvedValue>,
    /// Fields of the request that mean nothing here.
    pub ignored: Vec<String>,
}

/// A value that a request runs with.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedValue {
    /// The request's field for it.
    pub field: &'static str,
    /// The value; null for none.
    pub value: Value,
    /// Who said so.
    pub source: ValueSource,
}

/// Where a value is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueSource {
    /// A field of the request.
    Request,
    /// An option of a node of the graph.
    Graph,
    /// The model.
    Model,
    /// Nobody said anything else.
    Default,
}

impl ValueSource {
    /// Its name in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Graph => "graph",
            Self::Model => "model",
            Self::Default => "default",
        }
    }
}

/// The answer to a [`PromptQuestion`], ready to be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct PromptReport(pub Value);
