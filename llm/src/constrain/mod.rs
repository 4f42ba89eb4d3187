//! Constrained generation: a text that must match a JSON schema, a regular expression, a list of
//! choices or a grammar.
//!
//! A [`Constraint`] is compiled once, by [`LlmEngine::compile`](crate::LlmEngine::compile) on a
//! thread of [`compiling`], which tenants use in turns. [`grammar`] translates it to a grammar of
//! llguidance ([`schema`] and [`gbnf`] translate what llguidance does not support directly), and
//! [`compiler`] compiles that for the model's [`vocabulary`]. Each sequence then follows its own
//! copy ([`matching`]), which returns the allowed tokens for every next token. It computes them
//! while the backend computes the token's logits.
//!
//! A constraint that cannot be compiled is an error before the first token. A constraint that
//! proves too complex later ends the sequence with an error. A constrained text never becomes a
//! free one.

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
