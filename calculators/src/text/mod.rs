//! Text that models read and write: chat templates, the formats of reasoning and tool calls, and
//! the nodes that process text.

pub mod chat_template;
mod formats;
mod jinja;
pub mod nodes;
pub mod reasoning;
pub(crate) mod request_templates;
mod template_limits;
pub mod tool_calls;
