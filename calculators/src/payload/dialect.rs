//! The interface of HTTP dialects.
//!
//! Paths, fields (a file of `dialects/src/bodies/`), requests, answers and errors are all
//! behind [`Dialect`] and [`TextDialect`]: neither the nodes nor the server know a dialect by name.

use std::fmt::Debug;

use graphmill_dialects::{
    Fields,
    schema::{self, Endpoint},
};
use graphmill_engine::{Result, RunCx};
use graphmill_llm::{AdapterSpec, NamedAdapter, Usage};
use serde_json::{Map, Value, json};

use super::{
    EmbeddingsRequest, GenerationParams, HttpResponse, JsonBody, RequestInput, RerankRequest,
    TextChunk, TextConstraint, TextRequest, Truncation,
};

/// Paths, and how requests and errors look there.
pub trait Dialect: Debug + Sync {
    /// Its paths. The first of them is its [endpoint](Self::endpoint).
    fn routes(&self) -> &'static [Route];

    /// The beginning of its paths behind a prefix, which is also its name in the table of fields:
    /// `chat/completions`.
    fn endpoint(&self) -> &'static str {
        self.routes().first().map_or("", |route| route.path)
    }

    /// Family of its requests.
    fn family(&'static self) -> Family;

    /// The part of a URL before its paths.
    fn place(&self) -> Place {
        Place::Behind(PREFIXES)
    }

    /// Other dialects at the same path. A request is in the first that [may be meant](Self::is_meant)
    /// and whose family a graph serves.
    fn others(&self) -> &'static [&'static dyn Dialect] {
        &[]
    }

    /// Returns true if a body can be of this dialect, where others have the same path.
    fn is_meant(&self, _: &JsonBody) -> bool {
        true
    }

    /// Returns true if a request may leave `model` out, and means the only graph of its family.
    fn needs_no_model(&self) -> bool {
        self.place() == Place::Bare
    }

    /// Returns true if the server keeps conversations for its clients, and hands a request what was
    /// said before.
    fn keeps_conversations(&self) -> bool {
        false
    }

    /// The status of a failure that has this one in most dialects.
    fn status(&self, status: u16) -> u16 {
        status
    }

    /// The field of a file, which is Base64 in JSON, where requests can be forms
    /// (`multipart/form-data`); none where they are JSON alone.
    fn file_field(&self) -> Option<&'static str> {
        None
    }

    /// The answer to a request that failed.
    fn error(&self, failure: &Failure<'_>) -> Value {
        error(failure)
    }

    /// The event that says why a stream has no more of them, with its name if events have names.
    /// `number` counts the events before it.
    fn error_event(&self, failure: &Failure<'_>, _number: u64) -> (Option<&'static str>, Value) {
        (None, self.error(failure))
    }

    /// The framing of its streams.
    fn framing(&self) -> Framing {
        Framing::Events
    }

    /// Returns true if an answer is a stream where the request does not say.
    fn streams_by_default(&self) -> bool {
        false
    }

    /// Returns true if a request has its graph leave memory behind the answer, false if it has it
    /// kept for another time than usual; none if it says nothing of that.
    ///
    /// # Errors
    /// Names the field that is wrong.
    fn unloads(&self, _: &JsonBody) -> Result<Option<bool>> {
        Ok(None)
    }

    /// The answer to a request that asks for nothing but its graph in memory, or out of it where it
    /// `unloads`; none for any other.
    ///
    /// # Errors
    /// Names the field that is wrong.
    fn loaded(&self, _: &JsonBody, _unloads: bool) -> Result<Option<Value>> {
        Ok(None)
    }

    /// The adapters that a request names beside `model`, of those that the graph's model has.
    ///
    /// # Errors
    /// Names the field that is wrong.
    fn adapters(&self, _: &JsonBody, _: &[AdapterSpec]) -> Result<Vec<NamedAdapter>> {
        Ok(Vec::new())
    }

    /// The name of the form of its errors in `/openapi.json`.
    fn error_form(&self) -> &'static str {
        "Error"
    }

    /// The header in which its clients look for the request's id, besides `x-request-id`.
    fn id_header(&self) -> Option<&'static str> {
        None
    }

    /// The header that tells its clients from others at paths that are no dialect's.
    fn client_header(&self) -> Option<&'static str> {
        None
    }
}

/// The framing of streams.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Server-sent events.
    Events,
    /// Lines of JSON: `application/x-ndjson`.
    Lines,
}

/// Reads requests for generated text and writes their answers.
pub trait TextDialect: Dialect {
    /// The beginning of the ids of its answers.
    fn id_prefix(&self) -> &'static str;

    /// OpenAI's dialect that asks alike, of a conversation or of prompts.
    fn native(&self) -> &'static dyn TextDialect;

    /// The fields of its requests.
    fn fields(&self) -> Option<&'static Endpoint> {
        schema::endpoint(self.endpoint())
    }

    /// Input of a request, and what the fields of its own say of generation.
    ///
    /// # Errors
    /// Names the field that is wrong.
    fn input(&self, body: &JsonBody, fields: &mut Fields) -> Result<(RequestInput, OwnParams)>;

    /// Returns true if answers tell the ids of tokens, and how likely those of a prompt are, where
    /// a request asks for it.
    fn tells_tokens(&self) -> bool {
        false
    }

    /// Adds to what an answer repeats of its request what the parameters decided.
    fn complete(&self, _: &mut Map<String, Value>, _: &GenerationParams) {}

    /// Writes the answer to a request.
    fn writer(&self, request: &TextRequest) -> Box<dyn AnswerWriter>;
}

/// Generation, as the fields of one dialect describe it.
#[derive(Debug, Default)]
pub struct OwnParams {
    /// Maximum number of tokens of a choice; -1 is no limit.
    pub max_tokens: Option<i64>,
    /// The part of each prompt that is read, where a field of the dialect's own says it.
    pub truncation: Option<Truncation>,
    /// Number of choices, where a field of the dialect's own says it.
    pub n: Option<u32>,
    /// True if the prompt is repeated before the answer.
    pub echo: bool,
    /// Number of the likeliest tokens that the answer tells of at each place.
    pub logprobs: Option<u8>,
    /// Maximum number of tokens of reasoning.
    pub reasoning_budget: Option<u32>,
    /// Texts that end a choice, where a field of the dialect's own says so.
    pub stop: Option<Vec<String>>,
    /// The pattern that the text has to match, where a field of the dialect's own says so.
    pub constraint: Option<TextConstraint>,
    /// True if the answer is a stream whatever the fields say.
    pub stream: bool,
    /// True if its answer tells calls as `function_call`.
    pub function_call: bool,
    /// Fields of the request that its answer repeats or follows.
    pub repeated: Map<String, Value>,
}

/// The purpose of a dialect's requests, and so the node that reads them.
#[derive(Copy, Clone, Debug)]
pub enum Family {
    /// Generated text, and questions about its prompt: `OpenAIRequestCalculator`.
    Text(&'static dyn TextDialect),
    /// Vectors: `EmbeddingsRequestCalculator`. The function reads a body, with the request's id.
    Vectors(fn(&JsonBody, &str) -> Result<EmbeddingsRequest>),
    /// Scores and classes: `RerankRequestCalculator`. The function reads a body, with the request's id.
    Scores(fn(&JsonBody, &str) -> Result<RerankRequest>),
}

/// The prefixes under which dialects are served. The documentation shows the first.
pub const PREFIXES: &[&str] = &["/v3", "/v1", "/v3/v1"];

/// The part of a URL before the paths of a dialect.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Each of these prefixes, of which the documentation shows the first; the body names the
    /// graph.
    Behind(&'static [&'static str]),
    /// None: the path is behind the address. Servers of one model have such paths, so the body need
    /// not name the graph.
    Bare,
    /// `/v2/models/` and the name of the graph, and perhaps its version. A path is one segment.
    /// The server puts the name into the body as `model`, and tells in `model_name` and
    /// `model_version` which graph answers.
    BehindTheGraph,
}

/// The dialect of a request, and what it asks there.
#[derive(Copy, Clone, Debug)]
pub struct Target {
    /// The dialect.
    pub dialect: &'static dyn Dialect,
    /// Purpose of the request; `None` if the path is below the dialect's and serves nothing.
    pub purpose: Option<Purpose>,
}

/// The purpose of a request.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// An answer of the model.
    Answer,
    /// The costs of that.
    Explanation,
    /// The prompts of a request for an answer.
    Rendering,
    /// The number of tokens of these, in an object of this kind where the dialect's objects say
    /// theirs.
    Count(Option<&'static str>),
    /// The prompt of a conversation.
    Template,
    /// The tokens of a text.
    Tokens,
    /// The same with their number, as LMDeploy tells them.
    Encoding,
    /// The text of tokens.
    Text,
}

impl Purpose {
    /// Returns true if the request may leave `model` out, as those of servers of one model do, and
    /// has no prefix there.
    pub fn needs_no_model(self) -> bool {
        matches!(
            self,
            Self::Template | Self::Tokens | Self::Encoding | Self::Text
        )
    }
}

/// Something that can be asked in a dialect.
#[derive(Debug)]
pub struct Route {
    /// The path behind a prefix.
    pub path: &'static str,
    /// The purpose of its requests.
    pub purpose: Purpose,
    /// A sentence for the documentation.
    pub summary: &'static str,
    /// Fields that a request has to have.
    pub required: &'static [&'static str],
    /// Fields that a whole answer has.
    pub answer: &'static [&'static str],
}

/// Writes an answer from chunks of text.
pub trait AnswerWriter: Send {
    /// Looks at the run of the answer, before its first chunk.
    fn begin(&mut self, _: &RunCx) {}

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

/// The reason why a request got no answer, or no whole one.
#[derive(Clone, Copy, Debug)]
pub struct Failure<'a> {
    /// The HTTP status.
    pub status: u16,
    /// OpenAI's name of the kind of failure.
    pub kind: &'a str,
    /// A code for programs.
    pub code: Option<&'a str>,
    /// A text for people.
    pub message: &'a str,
    /// The field of the request that is at fault.
    pub param: Option<&'a str>,
    /// The node that failed.
    pub node: Option<&'a str>,
    /// True if the same request may succeed later.
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
