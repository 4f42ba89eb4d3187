//! Constrained generation: a text that has to match a JSON schema, a regular expression, a list of choices or a grammar.

mod constraint;

pub use constraint::{Constraint, ReasoningMarks};
