//! The models of a graph: how much they read, and their adapters. A request names an adapter behind
//! its graph, `graph:adapter`, or by its own name.

use std::{path::PathBuf, sync::Arc, time::Duration};

use graphmill_calculators::{
    embed::EmbeddingModel,
    http::{
        dialect::{Dialect, Family, Purpose},
        dialect_table,
    },
    llm::LanguageModel,
    text_nodes::ApplyChatTemplate,
};
use graphmill_dialects::bodies;
use graphmill_engine::Calculator as _;
use graphmill_llm::Vision;

use super::{Choice, Servable, Servables};

/// The endpoint of graphs that take tensors.
pub(crate) const INFER: &str = "infer";

/// The endpoints of models that rank, which those of more than two classes do not have.
const OF_RANKS: [&str; 3] = [bodies::RERANK, bodies::TEI_RERANK, bodies::SCORE];

/// The tag that names of models have for Ollama's clients: `graph:latest` is the graph.
pub(crate) const LATEST: &str = "latest";

/// What the `model` of a request names.
pub(crate) struct Named {
    pub(crate) servable: Arc<Servable>,
    pub(crate) adapter: Option<Arc<str>>,
}

impl Servables {
    /// A graph, an adapter of a graph, or an adapter; of several graphs with an adapter of that
    /// name, the first by name.
    pub(crate) fn named(&self, name: &str, choice: &Choice) -> Option<Named> {
        if let Some(servable) = self.of_graph(name, choice) {
            return Some(Named {
                servable: Arc::clone(servable),
                adapter: None,
            });
        }
        let behind_graph = name.rsplit_once(':').and_then(|(graph, adapter)| {
            let servable = self.of_graph(graph, choice)?;
            if adapter == LATEST && !servable.adapters().iter().any(|own| own == adapter) {
                return Some((servable, None));
            }
            // Before the graph is loaded its adapters are unknown, and the answer is that it is
            // not loaded.
            let known =
                servable.plan().is_err() || servable.adapters().iter().any(|own| own == adapter);
            known.then_some((servable, Some(adapter)))
        });
        let (servable, adapter) = behind_graph.or_else(|| {
            let mut graphs = self.by_name.values();
            graphs
                .find(|servable| servable.adapters().iter().any(|own| own == name))
                .map(|servable| (servable, Some(name)))
        })?;
        Some(Named {
            servable: Arc::clone(servable),
            adapter: adapter.map(Into::into),
        })
    }
}

impl Servable {
    /// About how long it takes until those are admitted that wait in the queue of its models now.
    pub(crate) fn queue_time(&self) -> Duration {
        let models = self.resources::<LanguageModel>();
        let times = models
            .iter()
            .map(|model| model.engine().status().queue_time);
        times.max().unwrap_or_default()
    }

    /// The names of the adapters of its models, once it is loaded.
    pub(crate) fn adapters(&self) -> Vec<String> {
        let Ok(plan) = self.plan() else {
            return Vec::new();
        };
        let models = plan.resources::<LanguageModel>();
        let names = |model: &Arc<LanguageModel>| -> Vec<String> {
            let engine = model.engine();
            let adapters = engine.spec().adapters.iter();
            adapters.map(|adapter| adapter.name.clone()).collect()
        };
        models.iter().flat_map(names).collect()
    }

    /// Returns true if it was given an adapter of this name at run time.
    pub(crate) fn was_given(&self, adapter: &str) -> bool {
        self.entry().adapters.iter().any(|it| it.name == adapter)
    }

    /// The file of an adapter of its models, once it is loaded.
    pub(crate) fn adapter_file(&self, adapter: &str) -> Option<PathBuf> {
        let models = self.resources::<LanguageModel>();
        models.iter().find_map(|model| {
            let engine = model.engine();
            let mut adapters = engine.spec().adapters.iter();
            let found = adapters.find(|it| it.name == adapter);
            found.map(|it| it.path.clone())
        })
    }

    /// What each of its language models reads beside text, once they are loaded: `image`, `audio`.
    pub(crate) fn reads(&self) -> Vec<&'static str> {
        let models = self.plan().map(|plan| plan.resources::<LanguageModel>());
        let models = models.unwrap_or_default();
        let each = |reads: fn(&Vision) -> bool| {
            let has = |model: &Arc<LanguageModel>| model.engine().vision().is_some_and(reads);
            !models.is_empty() && models.iter().all(has)
        };
        let images = each(Vision::reads_images).then_some("image");
        let sounds = each(|vision| vision.sound_rate().is_some()).then_some("audio");
        images.into_iter().chain(sounds).collect()
    }

    /// Returns the reason for which it refuses conversations, once it is loaded; `None` if it takes
    /// them, or asks its model for no chat template.
    pub(crate) fn chat_refused(&self) -> Option<String> {
        let plan = self.plan().ok()?;
        let mut nodes = plan.explain().nodes.iter();
        nodes
            .any(|node| *node.calculator == *ApplyChatTemplate::NAME)
            .then(|| plan.resources::<LanguageModel>())?
            .iter()
            .find_map(|model| model.chat_refused())
    }

    /// The ends of the paths that answer with it, the most common one first: before it is loaded, as
    /// far as its nodes tell. Empty where that is not known.
    pub(crate) fn endpoints(&self) -> Vec<&'static str> {
        let made = self.made();
        if made.reads.as_ref().is_some_and(Vec::is_empty) {
            return vec![INFER];
        }
        let hears = self.reads().contains(&"audio");
        let chats = self.chat_refused().is_none();
        let models = self.resources::<EmbeddingModel>();
        let ranks = models.iter().all(|model| model.engine().head().ranks());
        let read = dialect_table::all().filter(|dialect| made.reads(dialect.endpoint()));
        let answered = read.filter(|dialect| {
            let mut routes = dialect.routes().iter();
            let is_chat = match dialect.family() {
                Family::Text(text) => text.native().endpoint() == bodies::CHAT,
                Family::Vectors(_) | Family::Scores(_) => false,
            };
            routes.any(|route| route.purpose == Purpose::Answer)
                // A file is one of sound.
                && (hears || dialect.file_field().is_none())
                && (chats || !is_chat)
                && (ranks || !OF_RANKS.contains(&dialect.endpoint()))
        });
        let mut all: Vec<_> = answered.map(Dialect::endpoint).collect();
        all.dedup();
        all
    }

    /// The tokens that a sequence of its model can have, once it is loaded; of several models, of
    /// that with the fewest.
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
