//! A configuration that is made anew from what there is, where no file has it.

use std::{fmt, sync::Arc};

use super::Config;

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
