//! Nodes on text: chat templates, tokens to text and back, stop strings.

pub mod chat_template;
