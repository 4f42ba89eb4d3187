//! Texts: chat templates, and the reasoning and the calls of tools in what models write.

pub mod chat_template;
mod formats;
mod jinja;
pub mod reasoning;
pub(crate) mod request_templates;
mod template_limits;
pub mod tool_calls;
