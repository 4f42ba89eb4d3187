//! Configurations without a file: lists of graphs that are made again on reload, and models that
//! clients load one by one.

use std::{fmt, sync::Arc};

use super::{Config, GraphEntry};

/// Function that lists the graphs to serve. It is called at each reload.
#[derive(Clone)]
pub struct Lister(Arc<dyn Fn() -> Config + Send + Sync>);

impl Lister {
    /// Wraps a function that lists graphs.
    pub fn new(list: impl Fn() -> Config + Send + Sync + 'static) -> Self {
        Self(Arc::new(list))
    }

    /// Returns the graphs to serve now.
    pub fn list(&self) -> Config {
        (self.0)()
    }
}

impl fmt::Debug for Lister {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lister")
    }
}

/// Function that returns the graphs of a model, one for each version, or the reason why there are
/// none.
type ReadModel = dyn Fn(&str, Option<&str>) -> Result<Vec<GraphEntry>, String> + Send + Sync;

/// Function that reads a model of a repository. It is called each time that a client loads the
/// model by its name.
#[derive(Clone)]
pub struct ModelReader(Arc<ReadModel>);

impl ModelReader {
    /// Wraps a function of a model's name and of an optional JSON configuration that replaces the
    /// model's own.
    pub fn new(
        read: impl Fn(&str, Option<&str>) -> Result<Vec<GraphEntry>, String> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(read))
    }

    /// Returns the current graphs of a model.
    pub(crate) fn read(&self, name: &str, config: Option<&str>) -> Result<Vec<GraphEntry>, String> {
        (self.0)(name, config)
    }
}

impl fmt::Debug for ModelReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ModelReader")
    }
}
