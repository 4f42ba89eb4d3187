//! The dialects of HTTP in which models are asked to generate text.
//!
//! A dialect is a folder of this module and a line of [`ALL`]. Its paths, its fields (a file of the table), what it makes of a request,
//! how it writes an answer and how it tells a failure are all behind [`Dialect`]: neither the nodes nor the server know one by name.

use graphmill_engine::{Error, Result};
use serde_json::{Map, Value, json};

use super::{
    chat::Chat,
    completions::Completions,
    fields::shown,
    inspect::question::{self, Asked},
    messages::Messages,
    responses::Responses,
    translate::Translated,
};
use crate::payload::{
    GenerationParams, HttpResponse, JsonBody, RequestInput, TextChunk, TextRequest,
};

/// All dialects.
pub const ALL: &[&dyn Dialect] = &[&Chat, &Completions, &Responses, &Messages];

/// The prefixes under which every dialect is served.
pub const PREFIXES: &[&str] = &["/v3/v1", "/v3", "/v1"];

/// How requests for generated text are read and their answers are written.
pub trait Dialect: Sync {
    /// What its paths begin with behind a prefix, which is also its name in the table of fields: `chat/completions`.
    fn endpoint(&self) -> &'static str;

    /// What can be asked in it.
    fn routes(&self) -> &'static [Route];

    /// The prefix under which the documentation shows its paths.
    fn shown_under(&self) -> &'static str {
        "/v3"
    }

    /// What the ids of its answers begin with.
    fn id_prefix(&self) -> &'static str;

    /// The dialect whose fields [`translate`](Self::translate) makes of a request.
    fn native(&self) -> &'static dyn Dialect;

    /// A request in the terms of the [native](Self::native) dialect; none where it is in these terms already.
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

    /// The event that says why a stream has no more of them, with its name if events have names. `number` counts the events before it.
    fn error_event(&self, failure: &Failure<'_>, _number: u64) -> (Option<&'static str>, Value) {
        (None, self.error(failure))
    }

    /// The header in which its clients look for the request's id, besides `x-request-id`.
    fn id_header(&self) -> Option<&'static str> {
        None
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
    /// Takes a chunk in and adds what it makes to `out`; true when the answer is complete.
    ///
    /// # Errors
    /// A chunk that does not fit to those before it.
    fn take(
        &mut self,
        request: &TextRequest,
        chunk: &TextChunk,
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

/// OpenAI's error object: `{"error": {"message", "type", "param", "code"}}`, with the node that failed under `error.graph`.
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

/// The dialect that a path belongs to, whether or not something is served there.
pub fn of_path(path: &str) -> Option<&'static dyn Dialect> {
    let mut dialects = ALL.iter().copied();
    dialects.find(|dialect| is_under(path, dialect.endpoint()))
}

/// Whether a path is this one behind one of the prefixes, or below it.
pub fn is_under(path: &str, name: &str) -> bool {
    PREFIXES.iter().any(|prefix| {
        let behind = path.strip_prefix(prefix);
        let behind = behind.and_then(|path| path.strip_prefix('/')?.strip_prefix(name));
        behind.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// The dialect with this endpoint.
pub fn named(endpoint: &str) -> Option<&'static dyn Dialect> {
    let named = ALL.iter().find(|dialect| dialect.endpoint() == endpoint);
    named.copied()
}

/// The dialect of a request, and what it asks for. What comes before a path is the server's business.
pub(super) fn of_request(uri: &str) -> Result<(&'static dyn Dialect, Asked)> {
    let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
    let ends = |end: &str| {
        let before = path.strip_suffix(end);
        before.is_some_and(|before| before.ends_with('/'))
    };
    let of_dialects = ALL.iter().flat_map(|dialect| {
        let routes = dialect.routes().iter();
        routes.map(move |route| (route.path, *dialect, route.asked))
    });
    let routes = || of_dialects.clone().chain(question::routes());
    match routes().find(|(end, ..)| ends(end)) {
        Some((_, dialect, Asked::Generation)) => Ok((dialect, question::explained(query)?)),
        Some((_, dialect, asked)) => Ok((dialect, asked)),
        None => {
            let served: Vec<String> = routes().map(|(end, ..)| format!("`{end}`")).collect();
            let message = format!(
                "this graph serves {}, not `{}`",
                served.join(", "),
                shown(path)
            );
            Err(Error::not_found(message).with_code("unknown_endpoint"))
        }
    }
}
