//! The adapters that a request names.

use std::sync::Arc;

use crate::settings::Number;

/// An adapter that a request names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamedAdapter {
    /// Name in the spec of the engine.
    pub name: Arc<str>,
    /// Factor of its change; `None` for the one in the spec.
    pub scale: Option<Number>,
}

impl NamedAdapter {
    /// Returns a list with the adapter of this name at the scale of the spec; empty if there is no
    /// name.
    pub fn list(name: Option<Arc<str>>) -> Arc<[Self]> {
        let one = name.map(|name| Self { name, scale: None });
        one.into_iter().collect()
    }
}
