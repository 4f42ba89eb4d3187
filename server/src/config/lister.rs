//! A configuration that is made anew from what there is, where no file has it, and models that are
//! read again one by one.

use std::{fmt, sync::Arc};

use super::{Config, GraphEntry};

/// Lists the graphs to serve, each time that the server reloads.
#[derive(Clone)]
pub struct Lister(Arc<dyn Fn() -> Config + Send + Sync>);

impl Lister {
    /// Lists what this function does.
    pub fn new(list: impl Fn() -> Config + Send + Sync + 'static) -> Self {
        Self(Arc::new(list))
    }

    /// The graphs that there are now.
    pub fn list(&self) -> Config {
        (self.0)()
    }
}

impl fmt::Debug for Lister {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lister")
    }
}

/// Returns the graphs of a model, a version each, or why there are none.
type Read = dyn Fn(&str, Option<&str>) -> Result<Vec<GraphEntry>, String> + Send + Sync;

/// Reads a model of a repository, each time that a client loads it by its name.
#[derive(Clone)]
pub struct ModelReader(Arc<Read>);

impl ModelReader {
    /// Reads models by a function of a name, and of a configuration in JSON that counts instead of
    /// the model's own.
    pub fn new(
        read: impl Fn(&str, Option<&str>) -> Result<Vec<GraphEntry>, String> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(read))
    }

    /// The graphs of a model as it is now.
    pub(crate) fn read(&self, name: &str, config: Option<&str>) -> Result<Vec<GraphEntry>, String> {
        (self.0)(name, config)
    }
}

impl fmt::Debug for ModelReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ModelReader")
    }
}
