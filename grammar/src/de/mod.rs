//! Trees to Rust types through serde, with the place of every mistake.
//!
//! A calculator's options are a plain struct, usually
//! `#[derive(Deserialize, Default)] #[serde(default)]`. This module reads one from an option body
//! with protobuf's rules: repeated fields gather into a sequence, lists are joined in, enums are
//! words or numbers, numbers are checked against their type's range. A field that the struct does
//! not have is an error whether or not the struct says `deny_unknown_fields`, because an option
//! that is ignored changes an answer in silence.
//!
//! A tuple of structs is read from one message, too: each takes the fields that it has. So a message
//! can consist of groups that are declared in several places, which serde's `flatten` cannot do: it
//! forgets the places of their values.
//!
//! serde stops at the first error. To report all of them, the value that failed is set aside and
//! the struct is read again without it, until only sound values are left or a required one is
//! missing. Fields that do not exist are known before any value is read, and are reported together.

mod error;
mod input;
mod message;

use std::cell::RefCell;
use std::collections::HashSet;

use serde::de::DeserializeOwned;

use crate::ast::{Message, Value};
use crate::diag::{self, Diagnostic};
use crate::graph::OptionsMessage;
use crate::span::Span;
use error::Error;
use message::Body;

/// How many wrong values of one message are reported.
const MAX_ERRORS: usize = 100;

/// What one reading shares between its levels.
#[derive(Default)]
struct Context {
    /// Values that were reported and are left out, by identity: spans are no identity in a tree
    /// that a program made.
    aside: RefCell<HashSet<*const Value>>,
    diagnostics: RefCell<Vec<Diagnostic>>,
}

impl Context {
    fn is_aside(&self, value: &Value) -> bool {
        self.aside.borrow().contains(&std::ptr::from_ref(value))
    }

    /// Reports what is wrong with `value` and leaves it out from now on.
    fn set_aside(&self, value: &Value, diagnostic: Option<Diagnostic>) {
        self.aside.borrow_mut().insert(value);
        self.diagnostics.borrow_mut().extend(diagnostic);
    }
}

/// Reads a message as a `T`, or reports everything that is wrong with it.
///
/// `name` is what diagnostics call the message, and `head` where they point for the message as a
/// whole. The list of errors is empty if something in the message could not be parsed and that is
/// the only thing wrong: it has been reported by the parser.
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

/// Reads an option message as a `T`; diagnostics call it by its type's name and point to where that
/// is written.
pub fn from_options<T: DeserializeOwned>(options: &OptionsMessage) -> Result<T, Vec<Diagnostic>> {
    from_message(&options.body, options.short_name(), options.name.span)
}

impl Context {
    /// Reports the error that ended one reading; tells whether another one makes sense.
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
