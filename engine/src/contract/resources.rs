//! Resources in contracts.

use std::{fmt, sync::Arc};

use crate::{
    error::Result,
    port::Group,
    resource::{AnyResource, Resource, ResourceKey, ResourceKind, key_of},
};

/// A resource that a node needs or defines.
#[derive(Clone, Debug)]
pub(crate) struct ResourceNeed {
    /// Group of the side packet that names the resource: input or output side packets.
    pub(crate) group: Group,
    /// Position of the side packet in the group.
    pub(crate) side: u16,
    pub(crate) kind: ResourceKind,
    /// Key of the resource; present in the node that defines it.
    pub(crate) key: Option<ResourceKey>,
    pub(crate) fits: Option<Fits>,
}

impl ResourceNeed {
    pub(super) fn new<R: Resource>(group: Group, side: u16, spec: Option<R::Spec>) -> Self {
        Self {
            group,
            side,
            kind: ResourceKind::new::<R>(),
            key: spec.map(key_of::<R>),
            fits: None,
        }
    }
}

/// A check of a loaded resource, beyond its type.
#[derive(Clone)]
pub(crate) struct Fits(Arc<Fit>);

type Fit = dyn Fn(&AnyResource) -> Result<()> + Send + Sync;

impl Fits {
    pub(super) fn new<R: Resource>(
        fits: impl Fn(&R) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(move |resource| {
            resource.downcast_ref().map_or(Ok(()), &fits)
        }))
    }

    pub(crate) fn check(&self, resource: &AnyResource) -> Result<()> {
        (self.0)(resource)
    }
}

impl fmt::Debug for Fits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fits")
    }
}
