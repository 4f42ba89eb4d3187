//! Conversion of trees to Rust types through serde, with the location of every mistake.
//!
//! A calculator's options are a plain struct, usually
//! `#[derive(Deserialize, Default)] #[serde(default)]`. This module reads one from an option body
//! with protobuf's rules: repeated fields become a sequence, lists are flattened into it, enum
//! values are words or numbers, and numbers are checked against the range of their type. A field
//! that the struct lacks is an error even without `deny_unknown_fields`, because an ignored option
//! would silently change the result.
//!
//! A tuple of structs is read from one message, too: each takes the fields that it has. So a
//! message can consist of groups declared in several places. serde's `flatten` cannot do this,
//! because it loses the locations of the values.
//!
//! serde stops at the first error. To report all errors, the failed value is set aside and the
//! struct is read again without it, until only valid values are left or a required one is missing.
//! Unknown fields are found before any value is read and are reported together.

mod error;
mod input;
mod message;
mod variant;

use std::cell::RefCell;
use std::collections::HashSet;

use serde::de::DeserializeOwned;

use crate::ast::{Message, Value};
use crate::diag::{self, Diagnostic};
use crate::graph::OptionsMessage;
use crate::span::Span;
use error::Error;
use message::Body;

/// Maximum number of wrong values of one message that are reported.
const MAX_ERRORS: usize = 100;

/// State of one reading, shared by its levels.
#[derive(Default)]
struct Context {
    /// Values that were reported and are left out, by address: spans are not unique in a tree that
    /// a program made.
    aside: RefCell<HashSet<*const Value>>,
    diagnostics: RefCell<Vec<Diagnostic>>,
}

impl Context {
    fn is_aside(&self, value: &Value) -> bool {
        self.aside.borrow().contains(&std::ptr::from_ref(value))
    }

    /// Reports a mistake in `value` and leaves the value out from now on.
    fn set_aside(&self, value: &Value, diagnostic: Option<Diagnostic>) {
        self.aside.borrow_mut().insert(value);
        self.diagnostics.borrow_mut().extend(diagnostic);
    }
}

/// Reads a message as a `T`, or reports all mistakes in it.
///
/// `name` is the message's name in diagnostics, and `head` is the location of diagnostics about the
/// whole message. The list of errors is empty if the parser has already reported the only mistake.
///
/// ```
/// use graphmill_grammar::{de::from_message, parse, SourceMap};
///
/// #[derive(Debug, Default, PartialEq, serde::Deserialize)]
/// #[serde(default)]
/// struct Options { models_path: String, cache_size: u64, stop: Vec<String> }
///
/// let mut sources = SourceMap::new();
/// let file = sources.add("options", r#"models_path: "./" stop: "a" stop: ["b", "c"]"#);
/// let (tree, _) = parse(&sources, file);
/// let options: Options = from_message(&tree.root, "Options", tree.root.head()).unwrap();
/// assert_eq!(options, Options { models_path: "./".into(), cache_size: 0, stop: vec!["a".into(), "b".into(), "c".into()] });
/// ```
pub fn from_message<T: DeserializeOwned>(
    message: &Message,
    name: &str,
    head: Span,
) -> Result<T, Vec<Diagnostic>> {
    let cx = Context::default();
    for _ in 0..MAX_ERRORS {
        let error = match T::deserialize(Body::new(&cx, message, name, head)) {
            Ok(value) if cx.diagnostics.borrow().is_empty() && cx.aside.borrow().is_empty() => {
                return Ok(value);
            }
            Ok(_) => break,
            Err(error) => error,
        };
        if !cx.settle(error, name, head) {
            break;
        }
    }
    let mut diagnostics = cx.diagnostics.into_inner();
    diag::sort(&mut diagnostics);
    Err(diagnostics)
}

/// Reads an option message as a `T`. Diagnostics use the name of its type and the location of that
/// name.
pub fn from_options<T: DeserializeOwned>(options: &OptionsMessage) -> Result<T, Vec<Diagnostic>> {
    from_message(&options.body, options.short_name(), options.name.span)
}

impl Context {
    /// Reports the error that ended one reading. Returns `true` if another reading makes sense.
    fn settle(&self, error: Error<'_>, name: &str, head: Span) -> bool {
        let Error {
            problem,
            culprit,
            place,
        } = error;
        let diagnostic = problem.diagnose(name, place.unwrap_or(head), culprit);
        match culprit {
            Some((_, value)) if self.is_aside(value) => false,
            Some((_, value)) => {
                self.set_aside(value, diagnostic);
                true
            }
            None => {
                self.diagnostics.borrow_mut().extend(diagnostic);
                false
            }
        }
    }
}
