//! Resources: objects that outlive a request, such as model weights with their engine thread,
//! caches, limiters and tables.
//!
//! A resource is loaded when a plan is compiled. All sessions of all plans that ask for the same
//! thing share it: the cache key is the resource's type, its resolved [`Resource::Spec`] and the
//! files that it was loaded from. If one of these files is replaced, the next load makes a new
//! resource, and holders of the old one keep it. The cache does not keep resources alive: the last
//! plan that drops one frees it. A resource synchronizes itself.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt::Debug,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, Weak},
};

use crate::{
    error::{Error, Result},
    file_source::{FileSource, TrackedFiles},
    file_stamps::FileStamps,
    lock::lock,
    packet::TypeInfo,
};

/// Code of errors about files that are complete but cannot be loaded.
pub const INVALID_RESOURCE: &str = "invalid_resource";

/// An object shared between sessions and plans.
pub trait Resource: Send + Sync + Sized + 'static {
    /// Everything that decides the contents. Equal specs share one resource.
    type Spec: Clone + Debug + Hash + Eq + Send + Sync + 'static;

    /// Makes the spec independent of its location, for example relative paths absolute. One thing
    /// named in two ways is then loaded once.
    fn resolve(spec: Self::Spec, _files: &dyn FileSource) -> Result<Self::Spec> {
        Ok(spec)
    }

    /// Checks, without loading, that the resolved spec can be loaded. An error about an option of
    /// the node names it as its field, with `/` between the steps of its path: `parts/0/path`.
    fn check(_spec: &Self::Spec, _files: &dyn FileSource) -> Result<()> {
        Ok(())
    }

    /// Loads the resource. May take long; runs while a plan is compiled, never in a session.
    ///
    /// # Errors
    /// With the code [`INVALID_RESOURCE`] if loading these files can never succeed.
    fn load(spec: &Self::Spec, files: &dyn FileSource) -> Result<Self>;
}

/// A loaded resource of any type.
pub(crate) type AnyResource = Arc<dyn Any + Send + Sync>;

/// A spec of any type.
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

/// Key of the cache: a spec with the type of its resource.
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

/// The functions of [`Resource`] for one type, with the type erased.
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
            of: TypeInfo::new::<R>(),
            resolve: |key, files| R::resolve(spec_of::<R>(key).clone(), files).map(key_of::<R>),
            check: |key, files| R::check(spec_of::<R>(key), files),
            load: |key, files| Ok(Arc::new(R::load(spec_of::<R>(key), files)?)),
        }
    }

    /// Resolves a key and checks, without loading, that its resource can be loaded.
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

/// A resource that replaces one defined by a graph.
#[derive(Clone)]
pub(crate) struct ResourceOverride {
    of: TypeInfo,
    load: Arc<Provide>,
}

impl ResourceOverride {
    pub(crate) fn new<R: Resource>(
        load: impl Fn(Option<&R::Spec>, &dyn FileSource) -> Result<Arc<R>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            of: TypeInfo::new::<R>(),
            load: Arc::new(move |key, files| Ok(load(key.map(spec_of::<R>), files)?)),
        }
    }

    /// Loads the replacement of a resource of type `of`. `key` is present if a node defines the
    /// resource.
    pub(crate) fn load(
        &self,
        of: TypeInfo,
        key: Option<&ResourceKey>,
        files: &dyn FileSource,
    ) -> Result<AnyResource> {
        if of != self.of {
            let provided = self.of;
            return Err(Error::invalid(format!(
                "expected a resource of type `{of}`, but the provided one has type `{provided}`"
            )));
        }
        (self.load)(key, files)
    }
}

/// A resource in use, with the files that it was loaded from.
struct CachedResource {
    resource: Weak<dyn Any + Send + Sync>,
    files: FileStamps,
}

type ResourceSlot = Arc<Mutex<Option<CachedResource>>>;

/// Resources that are in use. One cache serves all graphs of a process.
#[derive(Default)]
pub struct ResourceCache {
    slots: Mutex<HashMap<ResourceKey, ResourceSlot>>,
}

impl ResourceCache {
    /// Makes a cache without any resource.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of resources in use.
    pub fn len(&self) -> usize {
        let slots: Vec<ResourceSlot> = lock(&self.slots).values().cloned().collect();
        slots.iter().filter(|slot| is_alive(slot)).count()
    }

    /// Returns `true` if no resource is in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the resource of a key, loading it if it is not in use. Waits if another thread is
    /// loading it.
    pub(crate) fn get(
        &self,
        kind: &ResourceKind,
        key: &ResourceKey,
        files: &dyn FileSource,
    ) -> Result<AnyResource> {
        let recording = TrackedFiles::new(files);
        let key = (kind.resolve)(key, &recording)?;
        let slot = {
            let mut slots = lock(&self.slots);
            // Remove slots that nobody is loading and whose resource is gone.
            slots.retain(|_, slot| Arc::strong_count(slot) > 1 || is_alive(slot));
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
        *slot = Some(CachedResource {
            resource: Arc::downgrade(&resource),
            files: recording.seen(),
        });
        Ok(resource)
    }

    /// Returns the resource of a key if it is in use and its files are unchanged. Does not wait for
    /// one that is being loaded.
    pub(crate) fn shared(
        &self,
        kind: &ResourceKind,
        key: &ResourceKey,
        files: &dyn FileSource,
    ) -> Result<AnyResource> {
        let key = (kind.resolve)(key, files)?;
        let slot = lock(&self.slots).get(&key).cloned();
        let resource = slot.and_then(|slot| {
            let slot = slot.try_lock().ok()?;
            let loaded = slot.as_ref()?;
            let resource = loaded.resource.upgrade()?;
            loaded.files.changed().is_none().then_some(resource)
        });
        resource.ok_or_else(|| {
            Error::unavailable("no served graph has loaded it, and it is not loaded here")
        })
    }
}

/// Returns `true` if the resource of a slot is in use.
fn is_alive(slot: &ResourceSlot) -> bool {
    let loaded = lock(slot);
    let loaded = loaded.as_ref();
    loaded.is_some_and(|loaded| loaded.resource.strong_count() > 0)
}

impl Debug for ResourceCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResourceCache")
            .field("loaded", &self.len())
            .finish_non_exhaustive()
    }
}
