//! Questions about prompts, which are answered without generating: their tokens, their text, and
//! what a request would do.

pub(super) mod explain;
mod explanation;
pub(super) mod question;
mod reporter;
pub(super) mod tokenizer;
mod tokens;

pub use reporter::PromptReporter;
