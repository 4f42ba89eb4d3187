//! Readiness of graphs, and of the server: it is ready while all graphs that it needs are.

use std::time::Duration;

use graphmill_calculators::{embed::EmbeddingModel, llm::LanguageModel};
use graphmill_llm::{Health, LlmEngineState};

use super::{NAMED, Servable, Servables, StateName};

/// Time without a step after which an engine with work is not ready, even if it is not restarted
/// for that. It is far above the longest step: a full prefill batch of a large model on a slow
/// machine.
const STALLED: Duration = Duration::from_mins(1);

/// Reason why a server without any graph answers no request.
pub(super) const NO_GRAPH: &str = "no graph is configured, and no model was found";

/// The health of an engine of a graph.
struct LlmEngineHealth {
    model: String,
    stalled: Duration,
    health: Health,
}

impl LlmEngineHealth {
    /// Returns the reason why the engine does not answer; `None` if it does.
    fn unready(&self) -> Option<String> {
        let (model, health) = (&self.model, &self.health);
        let failure = health.failure.as_deref().unwrap_or("no reason");
        match health.state {
            LlmEngineState::Failed => Some(format!(
                "the engine of `{model}` has failed and could not be started again: {failure}"
            )),
            LlmEngineState::Restarting => Some(format!(
                "the engine of `{model}` has failed and is being started again: {failure}"
            )),
            LlmEngineState::Running if self.stalled >= STALLED => {
                let seconds = self.stalled.as_secs();
                Some(format!(
                    "the engine of `{model}` has made no step for {seconds} s"
                ))
            }
            LlmEngineState::Running => None,
        }
    }
}

impl Servable {
    /// Returns the reason why requests for the graph would not be answered now; `None` if they
    /// would.
    pub(crate) fn unready(&self) -> Option<String> {
        let name = self.name();
        let reason = || self.failure().unwrap_or_default();
        match self.state_name() {
            StateName::Listed | StateName::Loading | StateName::Unloading | StateName::Unloaded
                if self.loads_on_demand() && self.is_settled() =>
            {
                // A request loads it, so that neither that nor a running load is a reason.
                let reason = self.last_failure()?;
                Some(format!("`{name}` could not be loaded: {reason}"))
            }
            StateName::Unloading | StateName::Unloaded if self.is_kept_out() => {
                Some(format!("`{name}` is not loaded: {}", reason()))
            }
            StateName::Listed | StateName::Loading => Some(format!("loading `{name}`")),
            StateName::Unloading | StateName::Unloaded => {
                Some(format!("`{name}` is being unloaded or replaced"))
            }
            StateName::Failed => Some(format!("`{name}` could not be loaded: {}", reason())),
            StateName::Waiting => Some(format!("`{name}` waits for a file: {}", reason())),
            StateName::Available => self.engines().iter().find_map(LlmEngineHealth::unready),
        }
    }

    /// Returns true if the server loads it without a request, and has not finished yet.
    fn is_awaited(&self) -> bool {
        matches!(self.state_name(), StateName::Listed | StateName::Loading)
            && !(self.loads_on_demand() && self.is_settled())
    }

    /// Returns the health of its engines.
    fn engines(&self) -> Vec<LlmEngineHealth> {
        let generating = self.resources::<LanguageModel>().into_iter();
        let generating = generating.map(|it| {
            let status = it.engine().status();
            (status.model, status.stalled_for, it.health())
        });
        let embedding = self.resources::<EmbeddingModel>().into_iter();
        let embedding = embedding.map(|it| {
            let status = it.engine().status();
            (status.model, status.stalled_for, it.health())
        });
        let all = generating.chain(embedding);
        all.map(|(model, stalled, health)| LlmEngineHealth {
            model,
            stalled,
            health,
        })
        .collect()
    }
}

impl Servables {
    /// Returns the reason why no graph will ever answer: none is listed, or none could be loaded or
    /// waits for its files. `None` while one may.
    pub(crate) fn nothing_to_serve(&self) -> Option<String> {
        if self.iter().next().is_none() {
            return Some(NO_GRAPH.to_owned());
        }
        let failed = |servable: &Servable| {
            (servable.state_name() == StateName::Failed).then(|| format!("`{}`", servable.name()))
        };
        // The reason is in the log.
        let names: Option<Vec<String>> = self.iter().map(failed).collect();
        names.map(|names| format!("{} could not be loaded", listed(&names, ", ")))
    }

    /// Returns the reason why the server is not ready; `None` if it is. All graphs must be ready
    /// that are neither optional nor kept out by an operator. If there are none of these, one graph
    /// must be ready after all were tried.
    pub(crate) fn unready(&self) -> Option<String> {
        let is_required = |servable: &&Servable| !servable.is_optional() && !servable.is_kept_out();
        let mut needed: Vec<&Servable> = self.iter().filter(is_required).collect();
        let is_one_enough = needed.is_empty();
        if is_one_enough {
            needed = self.iter().collect();
        }
        if needed.is_empty() {
            // Without any graph in the configuration, none is missing, unless the server waits for
            // one.
            return self.settings.waits.then(|| NO_GRAPH.to_owned());
        }
        let awaited = needed.iter().filter(|servable| servable.is_awaited());
        let awaited: Vec<String> = awaited.map(|it| format!("`{}`", it.name())).collect();
        if !awaited.is_empty() {
            return Some(format!("loading {}", listed(&awaited, ", ")));
        }
        let reasons = needed.iter().filter_map(|servable| servable.unready());
        let mut reasons: Vec<String> = reasons.collect();
        if reasons.is_empty() || (is_one_enough && reasons.len() < needed.len()) {
            return None;
        }
        // Graphs that share an engine have the same reason.
        reasons.dedup();
        Some(listed(&reasons, "; "))
    }

    /// Returns the reason why the server cannot recover by itself: an engine failed and could not
    /// be restarted.
    pub(crate) fn beyond_help(&self) -> Option<String> {
        let engines = self.iter().flat_map(Servable::engines);
        let mut failed = engines.filter(|engine| engine.health.state == LlmEngineState::Failed);
        failed.find_map(|engine| engine.unready())
    }
}

/// Joins the first entries of a list, and the number of others.
fn listed(all: &[String], between: &str) -> String {
    let shown = all.iter().take(NAMED).cloned().collect::<Vec<_>>();
    match all.len().saturating_sub(NAMED) {
        0 => shown.join(between),
        more => format!("{}{between}and {more} more", shown.join(between)),
    }
}
