//! The adapters that a request names.

use std::sync::Arc;

use crate::spec::Number;

/// An adapter that a request names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamedAdapter {
    /// Its name in the spec of the engine.
    pub name: Arc<str>,
    /// Factor of its change; `None` for the one in the spec.
    pub scale: Option<Number>,
}

impl NamedAdapter {
    /// Lists the adapter of this name with the scale in the spec, if there is a name.
    pub fn list(name: Option<Arc<str>>) -> Arc<[Self]> {
        let one = name.map(|name| Self { name, scale: None });
        one.into_iter().collect()
    }
}
