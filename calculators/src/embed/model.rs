//! The resource behind the side packets `embeddings_servable` and `rerank_servable`: a model's
//! embedding engine.

use std::path::Path;
use std::sync::Arc;

use graphmill_engine::{Error, FileSource, Resource, Result};
use graphmill_llm::embed::{EmbeddingEngine, EmbeddingSpec};
use graphmill_llm::{Health, LoadError, Supervised, check_headers, resolve_model_path};

use crate::llm::unusable;

/// The option that names the model.
const MODEL: &str = "models_path";

/// A loaded model that embeds, ranks or classifies. Every session of every graph that names the same model and
/// limits shares one.
#[derive(Debug)]
pub struct EmbeddingModel {
    engine: Supervised<EmbeddingEngine>,
}

impl EmbeddingModel {
    /// A model on an engine of the caller's own.
    ///
    /// # Errors
    /// If there is no thread to look after it.
    pub fn new(engine: EmbeddingEngine) -> Result<Self> {
        let engine = Supervised::<EmbeddingEngine>::once(engine).map_err(not_loaded)?;
        Ok(Self { engine })
    }

    /// The engine that batches this model's texts; another one after it has failed.
    pub fn engine(&self) -> Arc<EmbeddingEngine> {
        self.engine.current()
    }

    /// How the engine is.
    pub fn health(&self) -> Health {
        self.engine.health()
    }
}

impl Resource for EmbeddingModel {
    type Spec = EmbeddingSpec;

    fn resolve(mut spec: EmbeddingSpec, files: &dyn FileSource) -> Result<EmbeddingSpec> {
        let base = files.resolve(Path::new("."));
        let found = resolve_model_path(&base, &spec.model.to_string_lossy());
        let found = found.map_err(|error| unusable(error).with_field(MODEL))?;
        spec.model = files.resolve(&found);
        Ok(spec)
    }

    fn check(spec: &EmbeddingSpec, _: &dyn FileSource) -> Result<()> {
        check_headers([spec.model.as_path()]).map_err(at_fault)
    }

    fn load(spec: &EmbeddingSpec, _: &dyn FileSource) -> Result<Self> {
        let engine = Supervised::<EmbeddingEngine>::load(spec.clone()).map_err(at_fault)?;
        Ok(Self { engine })
    }
}

fn at_fault(error: LoadError) -> Error {
    let option = match &error {
        LoadError::Spec { field, .. } => field,
        _ => MODEL,
    };
    not_loaded(error).with_field(option)
}

fn not_loaded(error: LoadError) -> Error {
    Error::unavailable(error.to_string()).with_source(error)
}
