//! The resource behind the side packets `embeddings_servable` and `rerank_servable`: a model's
//! embedding engine.

use std::path::Path;
use std::sync::Arc;

use graphmill_engine::{Error, FileSource, Resource, Result};
use graphmill_llm::embed::{EmbeddingEngine, EmbeddingSpec};
use graphmill_llm::{Health, LoadError, SupervisedEngine, check_headers, resolve_model_path};

use crate::llm::unusable;

/// Option that names the model.
const MODEL: &str = "models_path";

/// A loaded model that embeds, ranks or classifies. All sessions of all graphs with the same model
/// and limits share one.
#[derive(Debug)]
pub struct EmbeddingModel {
    engine: SupervisedEngine<EmbeddingEngine>,
}

impl EmbeddingModel {
    /// Creates a model with the caller's engine.
    ///
    /// # Errors
    /// The thread that watches the engine cannot be started.
    pub fn new(engine: EmbeddingEngine) -> Result<Self> {
        let engine = SupervisedEngine::<EmbeddingEngine>::once(engine).map_err(not_loaded)?;
        Ok(Self { engine })
    }

    /// Returns the engine that batches this model's texts. It is replaced after a failure.
    pub fn engine(&self) -> Arc<EmbeddingEngine> {
        self.engine.current()
    }

    /// Returns the health of the engine.
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
        let engine = SupervisedEngine::<EmbeddingEngine>::load(spec.clone()).map_err(at_fault)?;
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
