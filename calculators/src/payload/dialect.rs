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

/// An HTTP dialect: its paths, and the form of its requests and errors.
pub trait Dialect: Debug + Sync {
    /// Returns its paths. The first of them is its [endpoint](Self::endpoint).
    fn routes(&self) -> &'static [Route];

    /// Returns the first path without its prefix, such as `chat/completions`. It is also the
    /// dialect's name in the table of fields.
    fn endpoint(&self) -> &'static str {
        self.routes().first().map_or("", |route| route.path)
    }

    /// Returns the family of its requests, which determines the node that reads them.
    fn family(&'static self) -> Family;

    /// Returns the part of a URL before its paths.
    fn place(&self) -> Place {
        Place::Behind(PREFIXES)
    }

    /// Returns other dialects at the same path. A request belongs to the first one that [may be
    /// meant](Self::is_meant) and whose family a graph serves.
    fn others(&self) -> &'static [&'static dyn Dialect] {
        &[]
    }

    /// Returns true if a body can belong to this dialect. Others may have the same path.
    fn is_meant(&self, _: &JsonBody) -> bool {
        true
    }

    /// Returns true if a request may omit `model`. It then goes to the only graph of its family.
    fn needs_no_model(&self) -> bool {
        self.place() == Place::Bare
    }

    /// Returns true if the server stores conversations for its clients, and gives each request the
    /// earlier messages.
    fn keeps_conversations(&self) -> bool {
        false
    }

    /// Converts an HTTP status that is usual in most dialects to the one that this dialect uses.
    fn status(&self, status: u16) -> u16 {
        status
    }

    /// Returns the name of the form field for a file, if requests can be forms
    /// (`multipart/form-data`). In JSON this field is Base64. `None` if requests are always JSON.
    fn file_field(&self) -> Option<&'static str> {
        None
    }

    /// Writes the answer to a failed request.
    fn error(&self, failure: &Failure<'_>) -> Value {
        error(failure)
    }

    /// Writes the event that ends a stream with an error, with its name if events have names. The
    /// number counts the events before it.
    fn error_event(&self, failure: &Failure<'_>, _number: u64) -> (Option<&'static str>, Value) {
        (None, self.error(failure))
    }

    /// Returns the framing of its streams.
    fn framing(&self) -> Framing {
        Framing::Events
    }

    /// Returns true if an answer is a stream unless the request says otherwise.
    fn streams_by_default(&self) -> bool {
        false
    }

    /// Returns true if the request unloads its graph after the answer, and false if it changes the
    /// time that its graph stays loaded. `None` if it says nothing about that.
    ///
    /// # Errors
    /// The error names the wrong field.
    fn unloads(&self, _: &JsonBody) -> Result<Option<bool>> {
        Ok(None)
    }

    /// Returns the answer to a request that only loads its graph, or only unloads it if `unloads`
    /// is true. `None` for any other request.
    ///
    /// # Errors
    /// The error names the wrong field.
    fn loaded(&self, _: &JsonBody, _unloads: bool) -> Result<Option<Value>> {
        Ok(None)
    }

    /// Returns the adapters that a request names beside `model`, of those of the graph's model.
    ///
    /// # Errors
    /// The error names the wrong field.
    fn adapters(&self, _: &JsonBody, _: &[AdapterSpec]) -> Result<Vec<NamedAdapter>> {
        Ok(Vec::new())
    }

    /// Returns the name of its error schema in `/openapi.json`.
    fn error_form(&self) -> &'static str {
        "Error"
    }

    /// Returns the header in which its clients expect the request's id, in addition to
    /// `x-request-id`.
    fn id_header(&self) -> Option<&'static str> {
        None
    }

    /// Returns the request header by which its clients are recognized at paths that belong to no
    /// dialect.
    fn client_header(&self) -> Option<&'static str> {
        None
    }
}

/// The framing of a stream of answers.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Server-sent events: `text/event-stream`.
    Events,
    /// Lines of JSON: `application/x-ndjson`.
    Lines,
}

/// Reads requests for generated text and writes their answers.
pub trait TextDialect: Dialect {
    /// Returns the prefix of the ids of its answers.
    fn id_prefix(&self) -> &'static str;

    /// Returns true if its requests have prompts to continue, false if they have conversations.
    fn continues_prompts(&self) -> bool {
        false
    }

    /// Returns the fields of its requests; `None` if it has no table of them.
    fn fields(&self) -> Option<&'static Endpoint> {
        schema::endpoint(self.endpoint())
    }

    /// Reads the input of a request, and the dialect's own parameters of generation.
    ///
    /// # Errors
    /// The error names the wrong field.
    fn input(&self, body: &JsonBody, fields: &mut Fields) -> Result<(RequestInput, OwnParams)>;

    /// Returns true if answers can have the ids of tokens, and the log probabilities of those of a
    /// prompt, when a request asks for them.
    fn tells_tokens(&self) -> bool {
        false
    }

    /// Adds the effective parameters to the fields of the request that the answer repeats.
    fn complete(&self, _: &mut Map<String, Value>, _: &GenerationParams) {}

    /// Creates the writer of the answer to a request.
    fn writer(&self, request: &TextRequest) -> Box<dyn AnswerWriter>;
}

/// Parameters of generation from a dialect's own fields.
#[derive(Debug, Default)]
pub struct OwnParams {
    /// Maximum number of tokens of a choice; -1 is no limit.
    pub max_tokens: Option<i64>,
    /// The part of each prompt that is read, if a field of the dialect sets it.
    pub truncation: Option<Truncation>,
    /// Number of choices, if a field of the dialect sets it.
    pub n: Option<u32>,
    /// True if the prompt is repeated before the answer.
    pub echo: bool,
    /// Number of the likeliest tokens to report at each place.
    pub logprobs: Option<u8>,
    /// Maximum number of tokens of reasoning.
    pub reasoning_budget: Option<u32>,
    /// Texts that end a choice, if a field of the dialect sets them.
    pub stop: Option<Vec<String>>,
    /// The pattern that the text has to match, if a field of the dialect sets it.
    pub constraint: Option<TextConstraint>,
    /// True if the answer is a stream whatever the fields say.
    pub stream: bool,
    /// True if the answer writes tool calls as `function_call`.
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
    /// Scores and classes: `RerankRequestCalculator`. The function reads a body, with the request's
    /// id.
    Scores(fn(&JsonBody, &str) -> Result<RerankRequest>),
}

/// The prefixes under which dialects are served. The documentation shows the first.
pub const PREFIXES: &[&str] = &["/v3", "/v1", "/v3/v1"];

/// The part of a URL before the paths of a dialect.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Each of these prefixes. The documentation shows the first. The body names the graph.
    Behind(&'static [&'static str]),
    /// No prefix: the path follows the address. Servers of one model have such paths, so the body
    /// need not name the graph.
    Bare,
    /// `/v2/models/`, the name of the graph, and an optional version. The dialect's path is one
    /// segment. The server copies the name into the body as `model`, and reports the graph that
    /// answers in `model_name` and `model_version`.
    BehindTheGraph,
}

/// The dialect and the purpose of a request.
#[derive(Copy, Clone, Debug)]
pub struct Target {
    /// Dialect of the request's path.
    pub dialect: &'static dyn Dialect,
    /// Purpose of the request; `None` if the path is below the dialect's and serves nothing.
    pub purpose: Option<Purpose>,
}

/// The purpose of a request.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// An answer of the model.
    Answer,
    /// The values that a request for an answer would run with, and its cost.
    Explanation,
    /// The prompts of a request for an answer.
    Rendering,
    /// The number of tokens of the prompts. If set, the answer's `object` field has this kind.
    Count(Option<&'static str>),
    /// The prompt of a conversation.
    Template,
    /// The tokens of a text, and their number.
    Tokens,
    /// The tokens of a text and their number, in LMDeploy's form.
    Encoding,
    /// The text of given tokens.
    Text,
}

impl Purpose {
    /// Returns true if the request may omit `model` and is served without a prefix, as by servers
    /// of one model.
    pub fn needs_no_model(self) -> bool {
        matches!(
            self,
            Self::Template | Self::Tokens | Self::Encoding | Self::Text
        )
    }
}

/// A path of a dialect, for one purpose.
#[derive(Debug)]
pub struct Route {
    /// The path after the prefix.
    pub path: &'static str,
    /// Purpose of requests to this path.
    pub purpose: Purpose,
    /// A sentence that describes it in the documentation.
    pub summary: &'static str,
    /// Fields that a request must have.
    pub required: &'static [&'static str],
    /// Fields that a whole answer has.
    pub answer: &'static [&'static str],
}

/// Writes an answer from chunks of text.
pub trait AnswerWriter: Send {
    /// Prepares for the answer of this run. Called before its first chunk.
    fn begin(&mut self, _: &RunCx) {}

    /// Adds a chunk, and appends the packets that it completes to `out`. Returns true when the
    /// answer is complete.
    ///
    /// # Errors
    /// The chunk does not fit to those before it.
    fn take(&mut self, chunk: &TextChunk, out: &mut AnswerPackets<'_>) -> Result<bool>;
}

/// The packets of an answer that a chunk of text completes.
#[derive(Debug)]
pub struct AnswerPackets<'a> {
    /// The request that is answered.
    pub request: &'a TextRequest,
    /// Token counts of the answer so far.
    pub usage: Usage,
    /// Packets in the order in which they are sent.
    pub packets: Vec<HttpResponse>,
}

/// A failure of a request: it got no answer, or only a part of one.
#[derive(Clone, Copy, Debug)]
pub struct Failure<'a> {
    /// HTTP status, as most dialects have it.
    pub status: u16,
    /// Kind of the failure, in OpenAI's words.
    pub kind: &'a str,
    /// Machine-readable code, for programs.
    pub code: Option<&'a str>,
    /// Human-readable description of the failure.
    pub message: &'a str,
    /// The wrong field of the request.
    pub param: Option<&'a str>,
    /// Name of the node that failed.
    pub node: Option<&'a str>,
    /// True if the same request may succeed later.
    pub passes: bool,
    /// Id of the request, for dialects whose errors have it.
    pub request: Option<&'a str>,
}

/// Writes OpenAI's error object: `{"error": {"message", "type", "param", "code"}}`. The node that
/// failed is under `error.graph`.
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
