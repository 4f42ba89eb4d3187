//! How much the model of a graph reads.

use graphmill_calculators::{embed::EmbeddingModel, llm::LanguageModel};

use super::Servable;

impl Servable {
    /// The tokens that a sequence of its model can have, once it is loaded; of several models, of that with the fewest.
    pub(crate) fn context_length(&self) -> Option<usize> {
        let plan = self.plan().ok()?;
        let generating = plan.resources::<LanguageModel>();
        let embedding = plan.resources::<EmbeddingModel>();
        let generating = generating
            .iter()
            .map(|model| model.engine().context_length());
        let embedding = embedding
            .iter()
            .map(|model| model.engine().context_length());
        generating.chain(embedding).min()
    }
}
