//! Questions about prompts, which a request can ask instead of an answer.

use std::sync::Arc;

use graphmill_dialects::bodies::prompts::Tokenize;
use serde_json::{Map, Value};

use super::{GenerationParams, Truncation};

/// A question about the prompts of a request. The request travels as any other, up to its tokens;
/// it has no [`GenerationParams`] on its stream, so nothing is generated.
#[derive(Clone, Debug)]
pub struct PromptQuestion {
    /// The model as the request names it; empty if it names none.
    pub model: Arc<str>,
    /// The kind of question.
    pub kind: QuestionKind,
    /// The part of a prompt that is read; none if all of it is.
    pub truncation: Option<Truncation>,
}

/// A kind of question about prompts.
#[derive(Clone, Debug)]
pub enum QuestionKind {
    /// Their tokens.
    Tokenize {
        /// The form of the answer.
        form: Arc<Tokenize>,
        /// True if there is a list of tokens for each of several texts.
        nested: bool,
    },
    /// Their tokens and the number of these.
    Encode {
        /// True if there is a list of tokens for each of several texts.
        nested: bool,
    },
    /// The text of tokens.
    Detokenize,
    /// Text and tokens, as the model would see them.
    Render,
    /// The number of tokens.
    CountTokens {
        /// The kind of object that the answer says it is, if it says so.
        object: Option<&'static str>,
    },
    /// The effect that the request would have.
    Explain(Arc<EffectiveValues>),
}

/// The values a request would run with.
#[derive(Clone, Debug, Default)]
pub struct EffectiveValues {
    /// The parameters of generation.
    pub params: GenerationParams,
    /// Each value and its source, by the request's field for it, as the answer has them.
    pub values: Map<String, Value>,
    /// Fields of the request that mean nothing here.
    pub ignored: Vec<String>,
}

/// The answer to a [`PromptQuestion`], ready to be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct PromptReport(pub Value);
