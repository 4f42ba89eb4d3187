//! The models of a graph: their media, context lengths and adapters. A request names an adapter
//! after its graph, `graph:adapter`, or by its own name.

use std::{path::PathBuf, sync::Arc, time::Duration};

use graphmill_calculators::{
    embed::EmbeddingModel,
    http::{
        dialect::{Dialect, Family, Purpose},
        dialect_table,
    },
    llm::LanguageModel,
    text::nodes::ApplyChatTemplate,
};
use graphmill_dialects::bodies;
use graphmill_engine::Calculator as _;
use graphmill_llm::Vision;

use super::{Servable, Servables};

/// Endpoint of graphs that take tensors.
pub(crate) const INFER: &str = "infer";

/// Endpoints of models that rank. Models with more than two classes do not have them.
const OF_RANKS: [&str; 3] = [bodies::RERANK, bodies::TEI_RERANK, bodies::SCORE];

/// Tag that Ollama's clients append to names of models: `graph:latest` is the graph.
pub(crate) const LATEST: &str = "latest";

/// The graph or adapter that the `model` of a request names.
pub(crate) struct ResolvedGraph {
    pub(crate) servable: Arc<Servable>,
    pub(crate) adapter: Option<Arc<str>>,
}

impl Servables {
    /// Finds a graph, an adapter of a graph, or an adapter by its own name. If several graphs have
    /// an adapter of that name, the first graph by name counts. `word` chooses among versions by the
    /// percentages of the configuration: equal words get the same version. Without one, it is the
    /// newest that is not a canary.
    pub(crate) fn named(&self, name: &str, word: Option<&str>) -> Option<ResolvedGraph> {
        let graph = || Some((self.find_version(name, word)?, None));
        let behind_graph = || {
            let (graph, adapter) = name.rsplit_once(':')?;
            let servable = self.find_version(graph, word)?;
            let has = servable.has_adapter(adapter);
            if adapter == LATEST && !has {
                return Some((servable, None));
            }
            // The adapters of a graph that is not in memory may have changed. The answer is then
            // that it is not loaded.
            (has || servable.plan().is_err()).then_some((servable, Some(adapter)))
        };
        let alone = || Some((self.all().find(|it| it.has_adapter(name))?, Some(name)));
        let (servable, adapter) = graph().or_else(behind_graph).or_else(alone)?;
        Some(ResolvedGraph {
            servable: Arc::clone(servable),
            adapter: adapter.map(Into::into),
        })
    }
}

impl Servable {
    /// Returns an estimate of the time until the requests now in its models' queues are admitted.
    pub(crate) fn queue_time(&self) -> Duration {
        let models = self.resources::<LanguageModel>();
        let times = models.iter().map(|it| it.engine().status().queue_time);
        times.max().unwrap_or_default()
    }

    /// Returns the names of its models' adapters, as of its last load or check. They stay known
    /// while it is not in memory.
    pub(crate) fn adapters(&self) -> Vec<String> {
        let made = self.sources();
        let adapters = made.adapters.iter();
        adapters.map(|adapter| adapter.name.clone()).collect()
    }

    /// Returns true if one of its models has an adapter of this name.
    fn has_adapter(&self, name: &str) -> bool {
        self.sources().adapters.iter().any(|it| it.name == name)
    }

    /// Returns true if it was given an adapter of this name at run time.
    pub(crate) fn was_given(&self, adapter: &str) -> bool {
        self.entry().adapters.iter().any(|it| it.name == adapter)
    }

    /// Returns the file of an adapter of its models.
    pub(crate) fn adapter_file(&self, adapter: &str) -> Option<PathBuf> {
        let made = self.sources();
        let found = made.adapters.iter().find(|it| it.name == adapter);
        found.map(|it| it.path.clone())
    }

    /// Returns the media that each of its language models reads besides text, once they are loaded:
    /// `image`, `audio`.
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

    /// Returns the reason why it refuses conversations, once it is loaded. `None` if it accepts
    /// them, or needs no chat template.
    pub(crate) fn chat_refused(&self) -> Option<String> {
        let plan = self.plan().ok()?;
        let mut nodes = plan.explain().nodes.iter();
        nodes
            .any(|node| *node.calculator == *ApplyChatTemplate::NAME)
            .then(|| plan.resources::<LanguageModel>())?
            .iter()
            .find_map(|model| model.chat_refused())
    }

    /// Returns the ends of the paths that it answers, most common first. Before it is loaded, its
    /// nodes determine them. Empty if not known.
    pub(crate) fn endpoints(&self) -> Vec<&'static str> {
        let made = self.sources();
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
                Family::Text(text) => !text.continues_prompts(),
                Family::Vectors(_) | Family::Scores(_) => false,
            };
            routes.any(|route| route.purpose == Purpose::Answer)
                // A file field is for sounds.
                && (hears || dialect.file_field().is_none())
                && (chats || !is_chat)
                && (ranks || !OF_RANKS.contains(&dialect.endpoint()))
        });
        let mut all: Vec<_> = answered.map(Dialect::endpoint).collect();
        all.dedup();
        all
    }

    /// Returns the maximum number of tokens in a sequence of its model, once it is loaded; with
    /// several models, the lowest.
    pub(crate) fn context_length(&self) -> Option<usize> {
        let plan = self.plan().ok()?;
        let generating = plan.resources::<LanguageModel>();
        let embedding = plan.resources::<EmbeddingModel>();
        let generating = generating.iter().map(|it| it.engine().context_length());
        let embedding = embedding.iter().map(|it| it.engine().context_length());
        generating.chain(embedding).min()
    }
}
