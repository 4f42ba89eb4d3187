//! Nodes on text: chat templates, conversion between text and tokens, stop strings, reasoning and
//! tool calls.

mod amendments;
mod by_prompt;
mod chat_template;
mod detokenizer;
mod features;
pub(crate) mod media;
mod reasoning;
mod stop_string;
mod tokenizer;
mod tool_calls;

pub use chat_template::ApplyChatTemplate;
pub use detokenizer::{Detokenizer, Utf8Decoder};
pub use features::{TextFeatures, TextFeaturesOptions};
pub use reasoning::{ReasoningParser, ReasoningParserOptions, ReasoningParserPorts};
pub use stop_string::StopString;
pub use tokenizer::Tokenizer;
pub use tool_calls::{ToolParser, ToolParserOptions, ToolParserPorts};
