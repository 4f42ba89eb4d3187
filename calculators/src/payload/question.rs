//! Questions about prompts, which a request can ask instead of generating.

use std::sync::Arc;

use graphmill_dialects::bodies::prompts::Tokenize;
use serde_json::{Map, Value};

use super::{GenerationParams, Truncation};

/// A question about the prompts of a request. It travels as other requests do, up to its tokens.
/// Nothing is generated, because it has no [`GenerationParams`] on its stream.
#[derive(Clone, Debug)]
pub struct PromptQuestion {
    /// The model as the request names it; empty if it names none.
    pub model: Arc<str>,
    /// Kind of the question, with the form of its answer.
    pub kind: QuestionKind,
    /// The part of a prompt that is read; `None` if all of it is.
    pub truncation: Option<Truncation>,
}

/// A kind of question about prompts.
#[derive(Clone, Debug)]
pub enum QuestionKind {
    /// The tokens of texts, in the form that the request asks for.
    Tokenize {
        /// The form of the answer.
        form: Arc<Tokenize>,
        /// True if there is a list of tokens for each of several texts.
        nested: bool,
    },
    /// The tokens of texts and their number.
    Encode {
        /// True if there is a list of tokens for each of several texts.
        nested: bool,
    },
    /// The text of given tokens.
    Detokenize,
    /// Text and tokens, as the model would see them.
    Render,
    /// The number of tokens of the prompts.
    CountTokens {
        /// Value of the answer's `object` field, if it has one.
        object: Option<&'static str>,
    },
    /// The values that the request would run with, and its cost.
    Explain(Arc<EffectiveValues>),
}

/// The values that a request would run with.
#[derive(Clone, Debug, Default)]
pub struct EffectiveValues {
    /// Effective parameters of generation, including defaults.
    pub params: GenerationParams,
    /// Each value and its source, under the name of its request field.
    pub values: Map<String, Value>,
    /// Fields of the request that are ignored.
    pub ignored: Vec<String>,
}

/// The answer to a [`PromptQuestion`], ready to be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct PromptReport(pub Value);
