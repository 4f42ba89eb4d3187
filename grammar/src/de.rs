//! Trees to Rust types through serde, with the place of every mistake.

use serde::de::DeserializeOwned;

use crate::ast::Message;
use crate::diag::Diagnostic;

/// Reads a message as a `T`; `name` is what the message is called in diagnostics.
pub fn from_message<T: DeserializeOwned>(
    message: &Message,
    name: &str,
) -> Result<T, Vec<Diagnostic>> {
    let _ = (message, name);
    Err(Vec::new())
}
