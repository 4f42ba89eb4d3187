//! Bodies of requests: the fields of each endpoint, and groups of fields that several endpoints share.

/// Makes a list of fields that no struct holds. Their comments are their documentation, as in structs.
macro_rules! plain {
    ($($(#[doc = $about:literal])+ $name:literal: $kind:ident($meaning:expr),)+) => {
        [$($crate::schema::Plain::$kind($name, $meaning, concat!($($about),+)),)+]
    };
}

pub mod chat;
pub mod completions;
pub mod generate;
pub mod hugging_face;
pub mod length;
pub mod llama_server;
pub mod lmdeploy;
pub mod messages;
pub mod ollama;
pub mod openllm;
pub mod output;
pub mod prompts;
pub mod responses;
pub mod run;
mod shapes;
pub mod structural_tag;
pub mod token_details;
pub mod tools;
pub mod transcriptions;
pub mod vectors;

use graphmill_llm::SamplingParams;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::schema::{Endpoint, Plain};

/// OpenAI's endpoint for conversations of messages.
pub const CHAT: &str = "chat/completions";
/// OpenAI's endpoint for the continuation of prompts.
pub const COMPLETIONS: &str = "completions";
/// OpenAI's endpoint for conversations of items.
pub const RESPONSES: &str = "responses";
/// OpenAI's endpoint for summaries of items.
pub const COMPACT: &str = "responses/compact";
/// Anthropic's endpoint for conversations of content blocks.
pub const MESSAGES: &str = "messages";
/// OpenAI's endpoint for transcripts of speech.
pub const TRANSCRIPTIONS: &str = "audio/transcriptions";
/// Triton's endpoint for the continuation of a text.
pub const GENERATE: &str = "generate";
/// Triton's endpoint for the continuation of a text as a stream.
pub const GENERATE_STREAM: &str = "generate_stream";
/// OpenLLM's endpoint for the continuation of a text. Its path is `generate`, like Triton's.
pub const OPENLLM: &str = "openllm/generate";
/// OpenLLM's endpoint for the continuation of a text as a stream.
pub const OPENLLM_STREAM: &str = "openllm/generate_stream";
/// TGI's endpoint for the continuation of a text.
pub const TGI: &str = "/generate";
/// TGI's endpoint for the continuation of a text as a stream.
pub const TGI_STREAM: &str = "/generate_stream";
/// TGI's endpoint for the continuation of a text, whose body decides about a stream.
pub const TGI_EITHER: &str = "/";
/// LMDeploy's endpoint for conversations kept by the server.
pub const INTERACTIVE: &str = "chat/interactive";
/// LMDeploy's endpoint for the tokens of a text.
pub const ENCODE: &str = "encode";
/// Endpoint for the tokens of a text.
pub const TOKENIZE: &str = "tokenize";
/// Endpoint for the text of tokens.
pub const DETOKENIZE: &str = "detokenize";
/// OpenAI's endpoint for vectors of texts.
pub const EMBEDDINGS: &str = "embeddings";
/// Cohere's endpoint for vectors of texts.
pub const EMBED: &str = "embed";
/// Endpoint that rates how well documents answer a query.
pub const RERANK: &str = "rerank";
/// TEI's endpoint for vectors of texts.
pub const TEI_EMBED: &str = "/embed";
/// TEI's endpoint for the comparison of texts.
pub const SIMILARITY: &str = "/similarity";
/// TEI's fields at the endpoint of [`RERANK`].
pub const TEI_RERANK: &str = "/rerank";
/// TEI's endpoint that classifies texts.
pub const PREDICT: &str = "/predict";
/// vLLM's endpoint for vectors of texts.
pub const POOLING: &str = "pooling";
/// vLLM's endpoint for the comparison of texts.
pub const SCORE: &str = "score";
/// vLLM's endpoint that classifies texts.
pub const CLASSIFY: &str = "classify";
/// Ollama's endpoint for conversations of messages.
pub const OLLAMA_CHAT: &str = "api/chat";
/// Ollama's endpoint for the continuation of prompts.
pub const OLLAMA_GENERATE: &str = "api/generate";
/// Ollama's endpoint for vectors of texts.
pub const OLLAMA_EMBED: &str = "api/embed";
/// Ollama's endpoint for the vector of one text.
pub const OLLAMA_EMBEDDINGS: &str = "api/embeddings";
/// llama-server's endpoint for the continuation of prompts.
pub const LLAMA_COMPLETION: &str = "/completion";
/// llama-server's endpoint for the gap between two texts.
pub const LLAMA_INFILL: &str = "/infill";
/// llama-server's endpoint for vectors of texts.
pub const LLAMA_EMBEDDING: &str = "/embedding";

/// Sampling fields that need no reading.
const SAMPLING: &[Plain] = &plain! {
    /// Alternative name of `repetition_penalty`, which wins if both are given.
    "repeat_penalty": Alias("repetition_penalty"),
    /// Beam search is not supported: tokens are sampled.
    "use_beam_search": Only(&["false"]),
    /// Beam search is not supported: tokens are sampled.
    "num_beams": Only(&["1"]),
    /// Use `n` for the number of choices.
    "num_return_sequences": Only(&["1"]),
    /// Use `dry_multiplier` to prevent repetition.
    "no_repeat_ngram_size": Only(&["0"]),
    /// Beam search is not supported.
    "diversity_penalty": Only(&["0"]),
    /// Beam search is not supported.
    "length_penalty": Only(&["1"]),
    /// Beam search is not supported.
    "early_stopping": Only(&["false"]),
    /// The order of samplers is fixed.
    "logits_processors": Only(&["[]"]),
    /// The order of samplers is fixed.
    "samplers": Only(&[]),
    /// Use `mirostat` for adaptive sampling.
    "adaptive_target": Only(&["-1"]),
};

/// Adds the fields of all endpoints that generate text.
fn generating(endpoint: Endpoint) -> Endpoint {
    let endpoint = endpoint.with::<length::Length>();
    let endpoint = endpoint.with::<SamplingParams>().and(SAMPLING);
    let endpoint = endpoint.with::<output::Output>().and(output::PLAIN);
    let endpoint = endpoint.with::<token_details::TokenDetails>();
    endpoint.with::<run::Run>().and(run::PLAIN)
}

/// Returns the field for streams, of endpoints whose path decides about it.
fn stream(only: &'static [&'static str]) -> [Plain; 1] {
    plain! {
        /// The path decides whether the answer is a stream.
        "stream": Only(only),
    }
}

/// Makes an endpoint with the fields of a struct, and others that need no reading.
fn endpoint<T: JsonSchema>(name: &'static str, plain: &[Plain]) -> Endpoint {
    Endpoint::new(name).with::<T>().and(plain)
}

pub(crate) fn all() -> Vec<Endpoint> {
    let chat = endpoint::<chat::Chat>(CHAT, chat::PLAIN);
    let chat = generating(chat.and(completions::NO_VECTORS))
        .with::<tools::Tools>()
        .and(tools::PLAIN)
        .akin(COMPLETIONS);
    let continuing = |vectors: &[Plain]| {
        let own = endpoint::<completions::Completions>(COMPLETIONS, vectors);
        generating(own).akin(CHAT)
    };
    let texts = continuing(completions::NO_VECTORS);
    let generate = |name, only| {
        Endpoint::new(name)
            .with::<generate::Generate>()
            .with::<generate::Parameters>()
            .beside(&texts, generate::LISTED, &[])
            .akin(CHAT)
            .beside(&Endpoint::new("").with::<generate::PathFields>(), &[], &[])
            .and(generate::PLAIN)
            .and(&stream(only))
    };
    let tgi = |name| {
        Endpoint::new(name)
            .with::<hugging_face::Generate>()
            .with::<hugging_face::Parameters>()
            .beside(&texts, hugging_face::LISTED, &[])
            .akin(CHAT)
            .and(hugging_face::GENERATE)
    };
    let openllm = |name, only| {
        Endpoint::new(name)
            .with::<openllm::OpenLlm>()
            .beside(&Endpoint::new("").with::<openllm::LlmConfig>(), &[], &[])
            .beside(&texts, &[], &[])
            .akin(CHAT)
            .and(openllm::PLAIN)
            .and(&stream(only))
    };
    let responses = Endpoint::new(RESPONSES)
        .with::<responses::Responses>()
        .beside(&chat, responses::LISTED, &["messages"])
        .akin(COMPLETIONS)
        .and(responses::PLAIN);
    let ollama = |own: Endpoint, without: &[&str]| {
        let own = own.with::<ollama::Common>().with::<ollama::Limit>();
        own.beside(&chat, ollama::LISTED, without)
    };
    let llama = |own: Endpoint| {
        own.with::<llama_server::Generation>()
            .with::<llama_server::Adapters>()
            .beside(&texts, llama_server::LISTED, llama_server::WITHOUT)
            .and(llama_server::GENERATION)
    };
    let embeddings = endpoint::<vectors::Embeddings>(EMBEDDINGS, vectors::EMBEDDINGS);
    vec![
        chat.clone().with::<llama_server::Adapters>(),
        continuing(completions::PLAIN).with::<llama_server::Adapters>(),
        responses.clone(),
        Endpoint::new(COMPACT)
            .beside(&responses, &["input", "instructions"], &[])
            .akin(COMPLETIONS),
        Endpoint::new(MESSAGES)
            .with::<messages::Messages>()
            .beside(&chat, messages::LISTED, &[])
            .akin(COMPLETIONS)
            .and(messages::PLAIN),
        generate(GENERATE, &["false"]),
        generate(GENERATE_STREAM, &["true"]),
        openllm(OPENLLM, &["false"]),
        openllm(OPENLLM_STREAM, &["true"]),
        tgi(TGI).and(&stream(&["false"])),
        tgi(TGI_STREAM).and(&stream(&["true"])),
        tgi(TGI_EITHER),
        Endpoint::new(INTERACTIVE)
            .with::<lmdeploy::Interactive>()
            .beside(&generating(Endpoint::new("")), lmdeploy::LISTED, &[])
            .beside(&Endpoint::new("").and(completions::NO_VECTORS), &[], &[])
            .beside(&Endpoint::new("").with::<lmdeploy::History>(), &[], &[])
            .akin(CHAT)
            .and(lmdeploy::INTERACTIVE),
        Endpoint::new(TRANSCRIPTIONS)
            .with::<transcriptions::Transcriptions>()
            .beside(&chat, transcriptions::LISTED, transcriptions::WITHOUT)
            .akin(COMPLETIONS)
            .and(transcriptions::PLAIN),
        Endpoint::new(TOKENIZE)
            .with::<prompts::Tokenize>()
            .beside(&chat, &[], &[])
            .and(prompts::PLAIN),
        Endpoint::new(DETOKENIZE).with::<prompts::Detokenize>(),
        Endpoint::new(ENCODE).with::<lmdeploy::Encode>(),
        embeddings.clone(),
        endpoint::<vectors::CohereEmbed>(EMBED, vectors::EMBED),
        endpoint::<hugging_face::Embed>(TEI_EMBED, hugging_face::EMBED),
        Endpoint::new(SIMILARITY).with::<hugging_face::Similarity>(),
        endpoint::<vectors::Rerank>(RERANK, vectors::RERANK),
        endpoint::<hugging_face::Rerank>(TEI_RERANK, hugging_face::RERANK),
        endpoint::<hugging_face::Predict>(PREDICT, hugging_face::PREDICT),
        Endpoint::new(POOLING)
            .beside(&embeddings, vectors::LISTED, &[])
            .and(vectors::POOLING),
        endpoint::<vectors::Score>(SCORE, vectors::SCORE),
        endpoint::<vectors::Classify>(CLASSIFY, vectors::CLASSIFY),
        ollama(
            Endpoint::new(OLLAMA_CHAT).with::<ollama::OllamaChat>(),
            ollama::WITHOUT,
        ),
        ollama(
            Endpoint::new(OLLAMA_GENERATE).with::<ollama::OllamaGenerate>(),
            &[ollama::WITHOUT, ollama::WITHOUT_TOOLS].concat(),
        )
        .and(ollama::GENERATE),
        Endpoint::new(OLLAMA_EMBED).with::<ollama::OllamaEmbed>(),
        Endpoint::new(OLLAMA_EMBEDDINGS).with::<ollama::Embeddings>(),
        llama(Endpoint::new(LLAMA_COMPLETION).with::<llama_server::Completion>()),
        llama(Endpoint::new(LLAMA_INFILL).with::<llama_server::Infill>()),
        endpoint::<llama_server::Embedding>(LLAMA_EMBEDDING, llama_server::EMBEDDING),
    ]
}

/// Stands for a field with its own reader, which reads the text of the body.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct ReadApart;

/// A text, or its parts.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Text<T> {
    /// Text given as one string.
    Whole(String),
    /// Text given in several parts.
    Parts(Vec<T>),
}

impl<T> From<String> for Text<T> {
    fn from(text: String) -> Self {
        Self::Whole(text)
    }
}

impl<T: From<String>> Text<T> {
    /// Returns the parts. A whole text is the only one.
    pub fn into_parts(self) -> Vec<T> {
        match self {
            Self::Whole(text) => vec![text.into()],
            Self::Parts(parts) => parts,
        }
    }
}

/// A part that consists of text.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Said {
    /// Text of the part, never `null`.
    pub text: String,
}
