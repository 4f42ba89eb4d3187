//! Questions about prompts, answered without generating: their tokens, their text, and the
//! effective values of a request.

mod effective_values;
pub(super) mod explain;
pub(super) mod question;
mod reporter;
pub(super) mod tokenizer;
mod tokens;

pub(super) use effective_values::values;
pub use reporter::PromptReporter;
