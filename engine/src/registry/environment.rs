//! Everything a graph is compiled against.

use std::{collections::HashMap, sync::Arc};

use crate::{
    error::Result,
    file_source::{FileSource, Files},
    lanes::Executors,
    resource::{Amendment, Provided, Resource, ResourceCache, ResourceKey},
};

use super::Registry;

/// What a plan is compiled against: calculators, files, shared resources, executors. Cheap to
/// clone.
#[derive(Clone)]
pub struct Environment {
    pub(crate) registry: Arc<Registry>,
    pub(crate) files: Arc<dyn FileSource>,
    pub(crate) resources: Arc<ResourceCache>,
    pub(crate) executors: Arc<Executors>,
    pub(crate) provided: HashMap<String, Provided>,
    amendments: Vec<Amendment>,
    pub(crate) loading: Loading,
}

/// What becomes of the resources of a graph.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) enum Loading {
    /// They are loaded.
    All,
    /// Those that are loaded already are taken; others are errors.
    Shared,
    /// Only whether they are there is looked at.
    Look,
    /// Nobody asks for them.
    Nothing,
}

impl Environment {
    /// With the file system as seen from the current folder, no resources loaded, and the executor
    /// `cpu`.
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

    /// The registry.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The cache of loaded resources.
    pub fn resources(&self) -> &Arc<ResourceCache> {
        &self.resources
    }

    /// The executors that graphs share.
    pub fn executors(&self) -> &Executors {
        &self.executors
    }

    /// Uses another registry.
    #[must_use]
    pub fn with_registry(mut self, registry: Registry) -> Self {
        self.registry = Arc::new(registry);
        self
    }

    /// Reads files through this source: usually [`Files`] seen from the graph's folder.
    #[must_use]
    pub fn with_files(mut self, files: impl FileSource + 'static) -> Self {
        self.files = Arc::new(files);
        self
    }

    /// Uses these executors.
    #[must_use]
    pub fn with_executors(mut self, executors: Arc<Executors>) -> Self {
        self.executors = executors;
        self
    }

    /// Uses `resource` wherever a graph names a resource `name`, whatever its nodes define.
    #[must_use]
    pub fn with_resource<R: Resource>(self, name: impl Into<String>, resource: Arc<R>) -> Self {
        self.with_resource_from(name, move |_, _| Ok(Arc::clone(&resource)))
    }

    /// Uses what `load` gives wherever a graph names a resource `name`. It gets the spec that a node
    /// defines, not resolved, if one does.
    #[must_use]
    pub fn with_resource_from<R: Resource>(
        mut self,
        name: impl Into<String>,
        load: impl Fn(Option<&R::Spec>, &dyn FileSource) -> Result<Arc<R>> + Send + Sync + 'static,
    ) -> Self {
        self.provided.insert(name.into(), Provided::new(load));
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

    /// Checks graphs without loading resources; sessions of such a plan are refused if a node needs
    /// one.
    #[must_use]
    pub fn without_loading(mut self) -> Self {
        self.loading = Loading::Nothing;
        self
    }

    /// Uses only resources that are already loaded, and loads none: a missing one is an error.
    #[must_use]
    pub fn sharing_only(mut self) -> Self {
        self.loading = Loading::Shared;
        self
    }

    /// As [`Environment::without_loading`], unless that is what is asked for already, but tells of
    /// resources that are not there ([`Resource::check`]).
    #[must_use]
    pub fn looking_only(mut self) -> Self {
        if self.loading == Loading::All {
            self.loading = Loading::Look;
        }
        self
    }
}
