//! Nodes on text: chat templates, tokens to text and back, stop strings.

pub mod chat_template;
mod detokenizer;
mod formats;
mod jinja;
pub mod reasoning;
mod stop_string;
mod tokenizer;
pub mod tool_calls;

pub use chat_template::ApplyChatTemplate;
pub use detokenizer::{Detokenizer, Utf8Decoder};
pub use reasoning::ReasoningParser;
pub use stop_string::StopString;
pub use tokenizer::Tokenizer;
pub use tool_calls::ToolParser;
