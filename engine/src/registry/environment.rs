//! The environment of a compilation.

use std::{collections::HashMap, sync::Arc};

use crate::{
    error::Result,
    executors::Executors,
    file_source::{FileSource, Files},
    resource::{Amendment, Resource, ResourceCache, ResourceKey, ResourceOverride},
};

use super::Registry;

/// Everything that plans are compiled against: calculators, files, resources and executors. Cheap
/// to clone.
#[derive(Clone)]
pub struct Environment {
    pub(crate) registry: Arc<Registry>,
    pub(crate) files: Arc<dyn FileSource>,
    pub(crate) resources: Arc<ResourceCache>,
    pub(crate) executors: Arc<Executors>,
    pub(crate) provided: HashMap<String, ResourceOverride>,
    amendments: Vec<Amendment>,
    pub(crate) loading: Loading,
}

/// The treatment of a graph's resources.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) enum Loading {
    /// Loads resources that are not loaded yet.
    All,
    /// Uses only resources that are already loaded. A missing one is an error.
    Shared,
    /// Checks that resources can be loaded, without loading them.
    Look,
    /// Ignores resources, even missing ones.
    Nothing,
}

impl Environment {
    /// Makes an environment with the file system relative to the current folder, no loaded
    /// resources, and the executor `cpu`.
    pub fn new(registry: Registry) -> Self {
        Self {
            registry: Arc::new(registry),
            files: Arc::new(Files::default()),
            resources: Arc::default(),
            executors: Arc::default(),
            provided: HashMap::new(),
            amendments: Vec::new(),
            loading: Loading::All,
        }
    }

    /// Returns the calculators and subgraphs that graphs can name.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Returns the cache of loaded resources.
    pub fn resources(&self) -> &Arc<ResourceCache> {
        &self.resources
    }

    /// Returns the executors that graphs share.
    pub fn executors(&self) -> &Executors {
        &self.executors
    }

    /// Replaces the calculators and subgraphs.
    #[must_use]
    pub fn with_registry(mut self, registry: Registry) -> Self {
        self.registry = Arc::new(registry);
        self
    }

    /// Replaces the source of files, usually by [`Files`] with the graph's folder as base.
    #[must_use]
    pub fn with_files(mut self, files: impl FileSource + 'static) -> Self {
        self.files = Arc::new(files);
        self
    }

    /// Replaces the executors that graphs share.
    #[must_use]
    pub fn with_executors(mut self, executors: Arc<Executors>) -> Self {
        self.executors = executors;
        self
    }

    /// Uses `resource` for each resource `name` of a graph, whatever its nodes define.
    #[must_use]
    pub fn with_resource<R: Resource>(self, name: impl Into<String>, resource: Arc<R>) -> Self {
        self.with_resource_from(name, move |_, _| Ok(Arc::clone(&resource)))
    }

    /// Uses the result of `load` for each resource `name` of a graph. `load` gets the unresolved
    /// spec, if a node defines one.
    #[must_use]
    pub fn with_resource_from<R: Resource>(
        mut self,
        name: impl Into<String>,
        load: impl Fn(Option<&R::Spec>, &dyn FileSource) -> Result<Arc<R>> + Send + Sync + 'static,
    ) -> Self {
        self.provided
            .insert(name.into(), ResourceOverride::new(load));
        self
    }

    /// Changes each spec that a node defines for a resource of this type, before it is resolved.
    #[must_use]
    pub fn with_amended<R: Resource>(
        mut self,
        amend: impl Fn(&mut R::Spec) + Send + Sync + 'static,
    ) -> Self {
        self.amendments.push(Amendment::new::<R>(amend));
        self
    }

    /// Returns the key of what a node defines, with all changes.
    pub(crate) fn amended(&self, key: &ResourceKey) -> ResourceKey {
        let amendments = self.amendments.iter();
        amendments.fold(key.clone(), |key, amendment| amendment.apply(key))
    }

    /// Compiles graphs without loading resources. Sessions of such a plan are refused if a node
    /// needs a resource.
    #[must_use]
    pub fn without_loading(mut self) -> Self {
        self.loading = Loading::Nothing;
        self
    }

    /// Uses only resources that are already loaded. A missing one is an error.
    #[must_use]
    pub fn sharing_only(mut self) -> Self {
        self.loading = Loading::Shared;
        self
    }

    /// Compiles graphs without loading resources, but reports resources that cannot be loaded
    /// ([`Resource::check`]). Has no effect after [`Environment::without_loading`] or
    /// [`Environment::sharing_only`].
    #[must_use]
    pub fn looking_only(mut self) -> Self {
        if self.loading == Loading::All {
            self.loading = Loading::Look;
        }
        self
    }
}
