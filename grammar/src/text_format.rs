//! The rules of the text format, from `text_format.pest`.

pub(crate) use grammar::{Rule, TextFormat};

/// Maximum nesting of messages and lists.
pub const MAX_DEPTH: usize = 100;

mod grammar {
    #![allow(missing_docs, unreachable_pub, reason = "the derive documents no rule")]

    /// The grammar of the text format.
    #[derive(pest_derive::Parser)]
    #[grammar = "text_format.pest"]
    pub struct TextFormat;
}
