//! The registry of diagnostic codes. Every kind of mistake has a number, a title, and an
//! explanation with an example.
//!
//! A code is a constant, so a check can name only existing codes. The reference page, `--explain`
//! and the tests read the same text. Each crate keeps its own list. The first two digits are the
//! theme:
//!
//! | codes | theme | where |
//! |---|---|---|
//! | GM01xx | syntax | [`syntax`] |
//! | GM02xx | fields, options, port names | [`fields`], [`ports`] |
//! | GM03xx | streams | engine |
//! | GM04xx | types | engine |
//! | GM05xx | side packets and resources | engine |
//! | GM06xx | cycles | engine |
//! | GM07xx | executors | engine |
//! | GM08xx | calculators | engine |
//! | GM09xx | `config.json` | server |

use std::fmt;

/// Declares the codes of a theme, in the order of their numbers, and the list `ALL` of them.
#[macro_export]
macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $title:literal { $($rest:tt)* })*) => {
        /// All codes of this theme, by number.
        pub const ALL: &[&$crate::codes::Code] = &[$(&$name),*];
        $(
            $(#[$doc])*
            pub static $name: $crate::codes::Code = $crate::codes::Code {
                number: $number,
                title: $title,
                $($rest)*
            };
        )*
    };
}

pub mod fields;
pub mod ports;
pub mod syntax;

/// A kind of mistake with its documentation.
#[derive(Debug, PartialEq, Eq)]
pub struct Code {
    /// Number, which is shown as `GM0123`.
    pub number: u16,
    /// Title: the mistake in a few words.
    pub title: &'static str,
    /// Explanation and remedy, in one or two paragraphs of Markdown.
    pub explanation: &'static str,
    /// File, or part of one, with the mistake.
    pub wrong: &'static str,
    /// Same text without the mistake.
    pub right: &'static str,
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GM{:04}", self.number)
    }
}

/// Iterates over all codes of this crate by number.
pub fn all() -> impl Iterator<Item = &'static Code> {
    [syntax::ALL, fields::ALL, ports::ALL]
        .into_iter()
        .flatten()
        .copied()
}
