//! Constrained generation: a text that has to match a JSON schema, a regular expression, a list of
//! choices or a grammar.
//!
//! A [`Constraint`] is compiled once, by [`LlmEngine::compile`](crate::LlmEngine::compile) on a
//! thread of [`compiling`], which tenants take turns at: [`grammar`] writes it as a grammar of llguidance ([`schema`] and [`gbnf`] read
//! what that does not take as it is), and [`compiler`] compiles that for the model's
//! [`vocabulary`]. Each sequence then follows a copy of its own ([`matching`]), which says for
//! every next token which ones are allowed. It works that out while the backend computes the
//! token's logits.
//!
//! What cannot be compiled is an error before the first token. What can be compiled and proves too
//! complex later ends the sequence with an error. There is no way from a constraint to a free text.

mod bounds;
mod compiler;
mod compiling;
mod constraint;
mod expressions;
mod gbnf;
mod grammar;
mod matching;
mod numbers;
mod productive;
mod reasoning_limit;
mod schema;
mod text;
mod vocabulary;

pub use compiler::{CompileError, CompiledConstraint, ConstraintError};
pub(crate) use compiler::{LazyCompiler, start};
pub use compiling::Compiling;
pub use constraint::{Constraint, ReasoningMarks};
pub use llguidance::regex_to_lark;
pub(crate) use matching::{Ending, Matching};
pub(crate) use reasoning_limit::Reasoning;
pub use reasoning_limit::ReasoningLimit;
pub use schema::resolved as resolved_schema;
pub use text::ConstrainedText;
