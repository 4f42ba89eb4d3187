//! The source of a batcher: a model of any type, loaded like any resource.

use std::any::Any;
use std::fmt::{self, Debug};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::marker::PhantomData;
use std::sync::Arc;

use graphmill_engine::{Contract, FileSource, Resource, Result};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::options::{Batching, InputDescription};
use crate::tensor::TensorModel;

/// A model whose node batches requests. [`DynamicBatch`](super::DynamicBatch) of it is a
/// calculator.
pub trait BatchedModel: TensorModel + Resource {
    /// Name of the node in graph files. It ends in `Calculator`.
    const NAME: &'static str;
    /// Description for `graphmill describe`, in one or a few sentences.
    const DOC: &'static str;
    /// Message types that may carry the options. `<NAME>Options` always may.
    const OPTION_NAMES: &'static [&'static str] = &[];
    /// Options of the model, as the field `model` of the node's options.
    type Options: DeserializeOwned + JsonSchema + Default + Send + Sync + 'static;

    /// Returns what the model is loaded from. Errors of the options go to the contract.
    fn spec(options: &Self::Options, c: &mut Contract) -> Self::Spec;

    /// Returns the model's name in messages and metrics.
    fn label(_spec: &Self::Spec) -> String {
        Self::NAME.to_owned()
    }
}

/// The model, limits and ports from which a [`Batcher`](super::Batcher) is loaded. Nodes with equal
/// ones share it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BatcherSpec {
    pub(super) source: ModelSource,
    pub(super) batching: Batching,
    pub(super) inputs: Vec<InputDescription>,
    /// Numbers of inputs and outputs that the node connects.
    pub(super) ports: (usize, usize),
}

/// The spec of a model of any type.
#[derive(Clone)]
pub(super) struct ModelSource(pub(super) Arc<dyn AnySource>);

pub(super) trait AnySource: Any + Debug + Send + Sync {
    fn label(&self) -> String;
    fn same(&self, other: &dyn AnySource) -> bool;
    fn content_hash(&self) -> u64;
    fn resolve(&self, files: &dyn FileSource) -> Result<ModelSource>;
    fn check(&self, files: &dyn FileSource) -> Result<()>;
    fn load(&self, files: &dyn FileSource) -> Result<Arc<dyn TensorModel>>;
}

/// The spec of a model `M`.
struct Of<M: Resource>(M::Spec, PhantomData<fn() -> M>);

impl<M: Resource> Debug for Of<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<M: BatchedModel> AnySource for Of<M> {
    fn label(&self) -> String {
        M::label(&self.0)
    }

    fn same(&self, other: &dyn AnySource) -> bool {
        let other = (other as &dyn Any).downcast_ref::<Self>();
        other.is_some_and(|other| other.0 == self.0)
    }

    fn content_hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.0.hash(&mut hasher);
        hasher.finish()
    }

    fn resolve(&self, files: &dyn FileSource) -> Result<ModelSource> {
        M::resolve(self.0.clone(), files).map(ModelSource::new::<M>)
    }

    fn check(&self, files: &dyn FileSource) -> Result<()> {
        M::check(&self.0, files)
    }

    fn load(&self, files: &dyn FileSource) -> Result<Arc<dyn TensorModel>> {
        Ok(Arc::new(M::load(&self.0, files)?))
    }
}

impl ModelSource {
    pub(super) fn new<M: BatchedModel>(spec: M::Spec) -> Self {
        Self(Arc::new(Of::<M>(spec, PhantomData)))
    }
}

impl Debug for ModelSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl PartialEq for ModelSource {
    fn eq(&self, other: &Self) -> bool {
        self.0.same(&*other.0)
    }
}

impl Eq for ModelSource {}

impl Hash for ModelSource {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.content_hash());
    }
}
