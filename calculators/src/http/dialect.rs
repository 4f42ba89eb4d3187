//! The interface of HTTP dialects for text generation.
//!
//! Paths, fields (a file of the table), request translation, answers and errors are all behind
//! [`Dialect`]: neither the nodes nor the server know a dialect by name.

use graphmill_engine::Result;
use graphmill_llm::Usage;
use serde_json::{Map, Value, json};

use super::translate::Translated;
use crate::payload::{
    GenerationParams, HttpResponse, JsonBody, RequestInput, TextChunk, TextRequest,
};

/// How requests for generated text are read and their answers are written.
pub trait Dialect: Sync {
    /// What its paths begin with behind a prefix, which is also its name in the table of fields:
    /// `chat/completions`.
    fn endpoint(&self) -> &'static str;

    /// What can be asked in it.
    fn routes(&self) -> &'static [Route];

    /// What is before its paths.
    fn place(&self) -> Place {
        Place::BehindPrefixes
    }

    /// The prefix under which the documentation shows its paths.
    fn shown_under(&self) -> &'static str {
        "/v3"
    }

    /// The field of a file, which is Base64 in JSON, where requests can be forms
    /// (`multipart/form-data`); none where they are JSON alone.
    fn file_field(&self) -> Option<&'static str> {
        None
    }

    /// What the ids of its answers begin with.
    fn id_prefix(&self) -> &'static str;

    /// The dialect whose fields [`translate`](Self::translate) makes of a request.
    fn native(&self) -> &'static dyn Dialect;

    /// A request in the terms of the [native](Self::native) dialect; none where it is in these
    /// terms already.
    ///
    /// # Errors
    /// What cannot be said in these terms, by the names of this dialect.
    fn translate(&self, _: &JsonBody) -> Result<Option<Translated>> {
        Ok(None)
    }

    /// What a native request asks for. What is not sampling goes to `params`.
    ///
    /// # Errors
    /// Names the field that is wrong.
    fn input(&self, body: &JsonBody, params: &mut GenerationParams) -> Result<RequestInput> {
        self.native().input(body, params)
    }

    /// Adds to what an answer repeats of its request what the parameters decided.
    fn complete(&self, _: &mut Map<String, Value>, _: &GenerationParams) {}

    /// Writes the answer to a request.
    fn writer(&self, request: &TextRequest) -> Box<dyn AnswerWriter>;

    /// The answer to a request that failed.
    fn error(&self, failure: &Failure<'_>) -> Value {
        error(failure)
    }

    /// The event that says why a stream has no more of them, with its name if events have names.
    /// `number` counts the events before it.
    fn error_event(&self, failure: &Failure<'_>, _number: u64) -> (Option<&'static str>, Value) {
        (None, self.error(failure))
    }

    /// The header in which its clients look for the request's id, besides `x-request-id`.
    fn id_header(&self) -> Option<&'static str> {
        None
    }
}

/// What is before the paths of a dialect.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Each of the prefixes; the body names the graph.
    BehindPrefixes,
    /// `/v2/models/` and the name of the graph, and perhaps its version. The server puts the name
    /// into the body as `model`, and tells in `model_name` and `model_version` which graph answers.
    BehindTheGraph,
}

/// What a request asks for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// An answer of the model.
    Generation,
    /// What that would take.
    Explanation,
    /// The prompts of a request for an answer.
    Rendering,
    /// How many tokens these have, in an object of this kind where the dialect's objects say
    /// theirs.
    Count(Option<&'static str>),
    /// The prompt of a conversation.
    Template,
    /// The tokens of a text.
    Tokens,
    /// The text of tokens.
    Text,
}

impl Asked {
    /// Whether the model is asked to generate.
    pub fn is_generation(self) -> bool {
        self == Self::Generation
    }

    /// Whether the request may leave `model` out, as those of servers of one model do.
    pub(super) fn needs_no_model(self) -> bool {
        matches!(self, Self::Template | Self::Tokens | Self::Text)
    }
}

/// Something that can be asked in a dialect.
#[derive(Debug)]
pub struct Route {
    /// The path behind a prefix.
    pub path: &'static str,
    /// What is asked there.
    pub asked: Asked,
    /// What it does, for the documentation.
    pub summary: &'static str,
    /// Fields that a request has to have.
    pub required: &'static [&'static str],
    /// Fields that a whole answer has.
    pub answer: &'static [&'static str],
}

/// Writes an answer from chunks of text.
pub trait AnswerWriter: Send {
    /// Takes a chunk in and adds what it makes to `out`; true when the answer is complete. `usage`
    /// counts the tokens of the answer so far.
    ///
    /// # Errors
    /// A chunk that does not fit to those before it.
    fn take(
        &mut self,
        request: &TextRequest,
        chunk: &TextChunk,
        usage: &Usage,
        out: &mut Vec<HttpResponse>,
    ) -> Result<bool>;
}

/// Why a request got no answer, or no whole one.
#[derive(Clone, Copy, Debug)]
pub struct Failure<'a> {
    /// The HTTP status.
    pub status: u16,
    /// OpenAI's name of the kind of failure.
    pub kind: &'a str,
    /// A code for programs.
    pub code: Option<&'a str>,
    /// What a person reads.
    pub message: &'a str,
    /// The field of the request that is at fault.
    pub param: Option<&'a str>,
    /// The node that failed.
    pub node: Option<&'a str>,
    /// Whether the same request may succeed later.
    pub passes: bool,
    /// The id of the request.
    pub request: Option<&'a str>,
}

/// OpenAI's error object: `{"error": {"message", "type", "param", "code"}}`, with the node that
/// failed under `error.graph`.
pub fn error(failure: &Failure<'_>) -> Value {
    let mut error = json!({
        "message": failure.message,
        "type": failure.kind,
        "param": failure.param,
        "code": failure.code,
    });
    if let Some(node) = failure.node {
        error["graph"] = json!({ "node": node });
    }
    json!({ "error": error })
}
