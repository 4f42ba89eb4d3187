//! The table of dialects, the only place that names them. A dialect is a module beside this file
//! and a line of `ALL`. Other crates add theirs with
//! [`register_dialect!`](crate::register_dialect).

use graphmill_engine::{Calculator as _, Error};
use indexmap::IndexSet;

#[doc(hidden)]
pub use graphmill_engine::registry::inventory;

use super::dialect::{Dialect, Family, Place, Purpose, Route, Target};
use super::inspect::tokenizer::Tokenizer;
use super::{
    chat, completions, embeddings, fields, generate, llama_server::LlamaServer, lmdeploy, messages,
    ollama::Ollama, openllm, request, rerank, responses, tei, tgi, transcriptions, vllm,
};
use crate::payload::HttpRequestPayload;

/// The dialects of this crate, the most common ones first.
const ALL: &[&dyn Dialect] = &[
    &chat::Chat,
    &completions::Completions,
    &responses::Responses,
    &responses::Compact,
    &messages::Messages,
    &transcriptions::Transcriptions,
    &openllm::OpenLlm::WHOLE,
    &openllm::OpenLlm::STREAM,
    &generate::TritonDialect::WHOLE,
    &generate::TritonDialect::STREAM,
    &tgi::Tgi::WHOLE,
    &tgi::Tgi::STREAM,
    &tgi::Tgi::EITHER,
    &lmdeploy::Interactive,
    &Tokenizer::TOKENIZE,
    &Tokenizer::DETOKENIZE,
    &Tokenizer::ENCODE,
    &embeddings::DIALECT,
    &embeddings::COHERE,
    &tei::Tei::EMBED,
    &tei::Tei::SIMILARITY,
    &rerank::CohereRerank,
    &tei::Tei::RERANK,
    &tei::Tei::PREDICT,
    &vllm::POOLING_DIALECT,
    &vllm::SCORE_DIALECT,
    &vllm::CLASSIFY_DIALECT,
    &Ollama::CHAT,
    &Ollama::GENERATE,
    &Ollama::EMBED,
    &Ollama::EMBEDDINGS,
    &LlamaServer::COMPLETION,
    &LlamaServer::INFILL,
    &LlamaServer::EMBEDDING,
];

/// A dialect with one path, the usual form of errors, and one function for its requests.
#[derive(Debug)]
pub(super) struct PathDialect {
    pub(super) routes: &'static [Route],
    pub(super) place: Place,
    pub(super) family: Family,
}

impl Dialect for PathDialect {
    fn routes(&self) -> &'static [Route] {
        self.routes
    }

    fn place(&self) -> Place {
        self.place
    }

    fn family(&'static self) -> Family {
        self.family
    }
}

/// A dialect of another crate.
pub struct Registration(pub &'static dyn Dialect);

inventory::collect!(Registration);

/// Adds a dialect, a constant expression such as `&Mine`, to those of the program.
#[macro_export]
macro_rules! register_dialect {
    ($dialect:expr) => {
        $crate::http::dialect_table::inventory::submit! {
            $crate::http::dialect_table::Registration($dialect)
        }
    };
}

/// Iterates over all dialects of the program.
pub fn all() -> impl Iterator<Item = &'static dyn Dialect> {
    let registered = inventory::iter::<Registration>.into_iter();
    let registered = registered.map(|registration| registration.0);
    ALL.iter().copied().chain(registered)
}

/// Iterates over the dialects whose requests a calculator reads, the most common one first.
pub fn read_by(calculator: &str) -> impl Iterator<Item = &'static dyn Dialect> {
    all().filter(move |dialect| {
        let reader = match dialect.family() {
            Family::Text(_) => request::OpenAIRequest::NAME,
            Family::Vectors(_) => embeddings::EmbeddingsRequest::NAME,
            Family::Scores(_) => rerank::RerankRequest::NAME,
        };
        reader == calculator
    })
}

impl HttpRequestPayload {
    /// Creates a POST request without a body. Without a target, it goes to the dialect whose path
    /// `uri` ends with.
    pub fn new(uri: impl Into<String>, target: Option<Target>) -> Self {
        let uri = uri.into();
        Self {
            method: "POST".to_owned(),
            target: target.or_else(|| find(&uri)),
            uri,
            ..Self::default()
        }
    }
}

/// Returns the target of a path: the route with the longest path at its end. The server has checked
/// the part before it.
fn find(uri: &str) -> Option<Target> {
    let path = uri.split('?').next().unwrap_or_default();
    let routes = all().flat_map(|dialect| dialect.routes().iter().map(move |it| (dialect, it)));
    let fitting = routes.filter(|(dialect, route)| {
        let before = path.strip_suffix(route.path);
        before.is_some_and(|before| match dialect.place() {
            Place::Bare => before == "/",
            _ => before.ends_with('/'),
        })
    });
    let (dialect, route) = fitting.max_by_key(|(_, route)| route.path.len())?;
    let purpose = Some(route.purpose);
    Some(Target { dialect, purpose })
}

/// Returns the error of a calculator for a request whose dialect it does not read.
pub(super) fn not_read(calculator: &str, uri: &str) -> Error {
    // Dialects with files need a model for sound, which is not known here.
    let read = read_by(calculator).filter(|dialect| dialect.file_field().is_none());
    let all = read.flat_map(|dialect| {
        let begin = match dialect.place() {
            Place::Behind(prefixes) => prefixes.first().copied().unwrap_or_default(),
            Place::Bare => "",
            Place::BehindTheGraph => "/v2/models/{name}",
        };
        let routes = dialect.routes().iter();
        let answered = routes.filter(|route| route.purpose == Purpose::Answer);
        answered.map(move |route| format!("`{begin}/{}`", route.path))
    });
    let paths: IndexSet<String> = all.collect();
    let paths = Vec::from_iter(paths).join(", ");
    let path = fields::shown(uri.split('?').next().unwrap_or_default());
    let message = format!("this graph answers at {paths}, not at `{path}`");
    Error::not_found(message).with_code("unknown_endpoint")
}
