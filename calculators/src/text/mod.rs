//! Texts of models: chat templates, and the formats of reasoning and tool calls.

pub mod chat_template;
mod formats;
mod jinja;
pub mod reasoning;
pub(crate) mod request_templates;
mod template_limits;
pub mod tool_calls;
