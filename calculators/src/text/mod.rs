//! Texts: chat templates, the reasoning and the calls of tools in what models write, and the nodes
//! on text.

pub mod chat_template;
mod formats;
mod jinja;
pub mod nodes;
pub mod reasoning;
pub mod tool_calls;
