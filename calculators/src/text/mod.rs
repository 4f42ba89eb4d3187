//! Nodes on text: chat templates, tokens to text and back, stop strings.

pub mod chat_template;
mod detokenizer;
mod stop_string;
mod tokenizer;

pub use chat_template::ApplyChatTemplate;
pub use detokenizer::{Detokenizer, Utf8Decoder};
pub use stop_string::StopString;
pub use tokenizer::Tokenizer;
