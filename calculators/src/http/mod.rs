//! Nodes that read and write HTTP dialects: the fields of requests and the form of answers.
//!
//! Each dialect is a module: OpenAI's `chat/completions`, `completions` and `responses`,
//! Anthropic's `messages`, KServe's `generate`, OpenLLM's, OpenAI's `audio/transcriptions`. All of
//! them implement [`dialect::Dialect`]. `responses`, `messages` and `audio/transcriptions` have the
//! fields of chats in addition to their own, `generate` those of `completions`, and all answers are
//! written from the same chunks of text. `tgi` has the dialects of Hugging Face's TGI, `lmdeploy`
//! those of LMDeploy, `llama_server` llama-server's own. `embeddings`, Cohere's `embed`, `rerank`
//! and `tei` are dialects with nodes of their own, `tokenize` and `detokenize` are questions to the
//! nodes for text. `ollama` has dialects of both kinds.
//!
//! Every error about a field names it by its JSON path.

mod arguments;
mod body;
mod chat;
mod choices;
mod completions;
pub mod defaults;
pub mod dialect_table;
pub mod embeddings;
mod fields;
mod generate;
mod hugging_face;
pub mod inspect;
mod llama_server;
mod lmdeploy;
mod logprobs;
mod messages;
mod named_events;
mod ollama;
mod openllm;
mod params;
mod parts;
mod prompts;
mod remote_images;
pub mod request;
pub mod rerank;
pub mod response;
mod responses;
mod structural_tag;
mod structured;
mod tei;
mod text_writer;
pub mod texts;
mod tgi;
mod transcriptions;
mod turns;
mod vectors;
mod vllm;
mod wire;

pub use crate::payload::dialect::{self, OwnParams};
pub use chat::Chat;
pub use completions::Completions;
use graphmill_dialects::limits;
pub use hugging_face::{FORM as HUGGING_FACE_ERROR, error as hugging_face_error};
pub use remote_images::RemoteImage;
