//! Resources: what outlives a request. Weights and their engine thread, caches, limiters, tables.
//!
//! A resource is loaded when a plan is compiled and shared by every session of every plan that asks
//! for the same thing: the cache is keyed by content, that is by the resource's type and its
//! resolved [`Resource::Spec`], with the files that it was loaded from. After one of them was
//! replaced, the next load gets a new resource, and holders of the old one keep it. The cache does
//! not keep resources alive: the last plan that drops one frees it.
//! A resource synchronizes itself.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt::Debug,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use crate::{
    error::{Error, Result},
    file_source::{FileSource, TrackedFiles},
    file_stamps::FileStamps,
    packet::TypeInfo,
};

/// The code of errors about files that are there in full, and that nothing can be loaded from.
pub const INVALID_RESOURCE: &str = "invalid_resource";

/// Something that is shared between sessions and plans.
pub trait Resource: Send + Sync + Sized + 'static {
    /// Everything that decides what is loaded. Two equal specs share one resource.
    type Spec: Clone + Debug + Hash + Eq + Send + Sync + 'static;

    /// Makes the spec independent of where it was written: relative paths become absolute, so that
    /// one thing named in two ways is loaded once.
    fn resolve(spec: Self::Spec, _files: &dyn FileSource) -> Result<Self::Spec> {
        Ok(spec)
    }

    /// Whether what the resolved spec names is there, as far as that can be told without loading
    /// it. An error that is about an option of the node names it as its field, with `/` between the
    /// steps to it: `parts/0/path`.
    fn check(_spec: &Self::Spec, _files: &dyn FileSource) -> Result<()> {
        Ok(())
    }

    /// Loads it. May take long; happens while a plan is compiled, never in a session.
    ///
    /// # Errors
    /// With the code [`INVALID_RESOURCE`] if it cannot be loaded from these files whatever happens.
    fn load(spec: &Self::Spec, files: &dyn FileSource) -> Result<Self>;
}

/// A loaded resource, whatever it is.
pub(crate) type AnyResource = Arc<dyn Any + Send + Sync>;

/// A spec, whatever it is of.
trait AnySpec: Any + Debug + Send + Sync {
    fn same(&self, other: &dyn AnySpec) -> bool;
    fn content_hash(&self) -> u64;
}

impl<S: Clone + Debug + Hash + Eq + Send + Sync + 'static> AnySpec for S {
    fn same(&self, other: &dyn AnySpec) -> bool {
        (other as &dyn Any).downcast_ref::<S>() == Some(self)
    }

    fn content_hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

/// A spec with the type of its resource: the key of the cache.
#[derive(Clone, Debug)]
pub(crate) struct ResourceKey {
    resource: TypeId,
    spec: Arc<dyn AnySpec>,
}

impl PartialEq for ResourceKey {
    fn eq(&self, other: &Self) -> bool {
        self.resource == other.resource && self.spec.same(&*other.spec)
    }
}

impl Eq for ResourceKey {}

impl Hash for ResourceKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.resource.hash(state);
        state.write_u64((*self.spec).content_hash());
    }
}

type Resolve = fn(&ResourceKey, &dyn FileSource) -> Result<ResourceKey>;
type Check = fn(&ResourceKey, &dyn FileSource) -> Result<()>;
type Load = fn(&ResourceKey, &dyn FileSource) -> Result<AnyResource>;

/// What [`Resource`] does for one type of resource, whatever the type.
#[derive(Copy, Clone, Debug)]
pub(crate) struct ResourceKind {
    pub(crate) of: TypeInfo,
    resolve: Resolve,
    check: Check,
    load: Load,
}

impl ResourceKind {
    pub(crate) fn new<R: Resource>() -> Self {
        Self {
            of: TypeInfo::of::<R>(),
            resolve: |key, files| R::resolve(spec_of::<R>(key).clone(), files).map(key_of::<R>),
            check: |key, files| R::check(spec_of::<R>(key), files),
            load: |key, files| Ok(Arc::new(R::load(spec_of::<R>(key), files)?)),
        }
    }

    /// Whether what the key names is there, as far as that can be told without loading it.
    pub(crate) fn look(&self, key: &ResourceKey, files: &dyn FileSource) -> Result<()> {
        let key = (self.resolve)(key, files)?;
        (self.check)(&key, files)
    }
}

pub(crate) fn key_of<R: Resource>(spec: R::Spec) -> ResourceKey {
    ResourceKey {
        resource: TypeId::of::<R>(),
        spec: Arc::new(spec),
    }
}

fn spec_of<R: Resource>(key: &ResourceKey) -> &R::Spec {
    (&*key.spec as &dyn Any)
        .downcast_ref()
        .expect("a kind makes its own keys")
}

type Amend = dyn Fn(&ResourceKey) -> Option<ResourceKey> + Send + Sync;

/// A change of the specs that nodes define for resources of one type.
#[derive(Clone)]
pub(crate) struct Amendment(Arc<Amend>);

impl Amendment {
    pub(crate) fn new<R: Resource>(amend: impl Fn(&mut R::Spec) + Send + Sync + 'static) -> Self {
        Self(Arc::new(move |key| {
            (key.resource == TypeId::of::<R>()).then(|| {
                let mut spec = spec_of::<R>(key).clone();
                amend(&mut spec);
                key_of::<R>(spec)
            })
        }))
    }

    /// Returns the key with the change, or the same one if it is of another type.
    pub(crate) fn apply(&self, key: ResourceKey) -> ResourceKey {
        (self.0)(&key).unwrap_or(key)
    }
}

type Provide = dyn Fn(Option<&ResourceKey>, &dyn FileSource) -> Result<AnyResource> + Send + Sync;

/// A resource in the place of one that a graph defines.
#[derive(Clone)]
pub(crate) struct Provided {
    of: TypeInfo,
    load: Arc<Provide>,
}

impl Provided {
    pub(crate) fn new<R: Resource>(
        load: impl Fn(Option<&R::Spec>, &dyn FileSource) -> Result<Arc<R>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            of: TypeInfo::of::<R>(),
            load: Arc::new(move |key, files| Ok(load(key.map(spec_of::<R>), files)?)),
        }
    }

    /// Loads it where a graph has a resource of the type `of`, with this key if a node defines it.
    pub(crate) fn load(
        &self,
        of: TypeInfo,
        key: Option<&ResourceKey>,
        files: &dyn FileSource,
    ) -> Result<AnyResource> {
        if of != self.of {
            let provided = self.of;
            return Err(Error::invalid(format!(
                "it is a `{of}`, and a `{provided}` is provided"
            )));
        }
        (self.load)(key, files)
    }
}

/// A resource while it is in use, and the files that it was loaded from.
struct Loaded {
    resource: Weak<dyn Any + Send + Sync>,
    files: FileStamps,
}

type Slot = Arc<Mutex<Option<Loaded>>>;

/// The resources that are loaded now. One of these serves all graphs of a process.
#[derive(Default)]
pub struct ResourceCache {
    slots: Mutex<HashMap<ResourceKey, Slot>>,
}

impl ResourceCache {
    /// An empty cache.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many resources are in use.
    pub fn len(&self) -> usize {
        let slots: Vec<Slot> = self.slots().values().cloned().collect();
        let alive = |slot: &Slot| {
            lock(slot)
                .as_ref()
                .is_some_and(|loaded| loaded.resource.strong_count() > 0)
        };
        slots.iter().filter(|slot| alive(slot)).count()
    }

    /// Whether no resource is in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The resource of a key, loaded if it is not in use. If another thread is loading it, waits
    /// for that.
    pub(crate) fn get(
        &self,
        kind: &ResourceKind,
        key: &ResourceKey,
        files: &dyn FileSource,
    ) -> Result<AnyResource> {
        let recording = TrackedFiles::new(files);
        let key = (kind.resolve)(key, &recording)?;
        let slot = {
            let mut slots = self.slots();
            // A slot that nobody else holds is not being loaded, and one without a living resource
            // is of no use.
            slots.retain(|_, slot| {
                Arc::strong_count(slot) > 1
                    || lock(slot)
                        .as_ref()
                        .is_some_and(|loaded| loaded.resource.strong_count() > 0)
            });
            Arc::clone(slots.entry(key.clone()).or_default())
        };
        let mut slot = lock(&slot);
        if let Some(loaded) = &*slot
            && let Some(resource) = loaded.resource.upgrade()
            && loaded.files.changed().is_none()
        {
            files.also_seen(&loaded.files);
            return Ok(resource);
        }
        (kind.check)(&key, &recording)?;
        let resource = (kind.load)(&key, &recording)?;
        *slot = Some(Loaded {
            resource: Arc::downgrade(&resource),
            files: recording.seen(),
        });
        Ok(resource)
    }

    /// The resource of a key, if it is in use and its files are those that it was loaded from.
    /// Does not wait for one that is being loaded.
    pub(crate) fn shared(
        &self,
        kind: &ResourceKind,
        key: &ResourceKey,
        files: &dyn FileSource,
    ) -> Result<AnyResource> {
        let key = (kind.resolve)(key, files)?;
        let slot = self.slots().get(&key).cloned();
        let resource = slot.and_then(|slot| {
            let slot = slot.try_lock().ok()?;
            let loaded = slot.as_ref()?;
            let resource = loaded.resource.upgrade()?;
            loaded.files.changed().is_none().then_some(resource)
        });
        resource.ok_or_else(|| {
            Error::unavailable("no graph that is served has it loaded, and nothing is loaded here")
        })
    }

    fn slots(&self) -> std::sync::MutexGuard<'_, HashMap<ResourceKey, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Debug for ResourceCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResourceCache")
            .field("loaded", &self.len())
            .finish_non_exhaustive()
    }
}
