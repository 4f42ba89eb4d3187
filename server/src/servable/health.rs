//! Readiness of graphs, and of the server: it is ready while all graphs that it needs are.

use std::{sync::Arc, time::Duration};

use graphmill_calculators::{embed::EmbeddingModel, llm::LanguageModel};
use graphmill_llm::{Health, LlmEngineState};

use super::{Servable, Servables, StateName};

/// Time without a step after which an engine with work is not ready, even if it is not restarted
/// for that. It is far above the longest step: a full prefill batch of a large model on a slow
/// machine.
const STALLED: Duration = Duration::from_mins(1);

/// Maximum number of graphs in a reason, as there may be hundreds.
const NAMED: usize = 10;

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
        let Self {
            model,
            stalled,
            health,
        } = self;
        let failure = health.failure.as_deref().unwrap_or("no reason");
        match health.state {
            LlmEngineState::Failed => Some(format!(
                "the engine of `{model}` has failed and could not be started again: {failure}"
            )),
            LlmEngineState::Restarting => Some(format!(
                "the engine of `{model}` has failed and is being started again: {failure}"
            )),
            LlmEngineState::Running if *stalled >= STALLED => {
                let seconds = stalled.as_secs();
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
        match self.state_name() {
            StateName::Listed | StateName::Loading | StateName::Unloading | StateName::Unloaded
                if self.loads_on_demand() && self.is_settled() =>
            {
                // A request loads it, so that neither that nor a running load is a reason.
                let reason = self.last_failure()?;
                Some(format!("`{name}` could not be loaded: {reason}"))
            }
            StateName::Unloading | StateName::Unloaded if self.is_kept_out() => {
                let reason = self.failure().unwrap_or_default();
                Some(format!("`{name}` is not loaded: {reason}"))
            }
            StateName::Listed | StateName::Loading => Some(format!("loading `{name}`")),
            StateName::Unloading | StateName::Unloaded => {
                Some(format!("`{name}` is being unloaded or replaced"))
            }
            StateName::Failed => {
                let reason = self.failure().unwrap_or_default();
                Some(format!("`{name}` could not be loaded: {reason}"))
            }
            StateName::Waiting => {
                let reason = self.failure().unwrap_or_default();
                Some(format!("`{name}` waits for a file: {reason}"))
            }
            StateName::Available => self.engines().iter().find_map(LlmEngineHealth::unready),
        }
    }

    /// Returns true if it is loaded without a request, but not yet.
    fn is_awaited(&self) -> bool {
        match self.state_name() {
            StateName::Listed | StateName::Loading => {
                !(self.loads_on_demand() && self.is_settled())
            }
            _ => false,
        }
    }

    /// Returns the health of its engines.
    fn engines(&self) -> Vec<LlmEngineHealth> {
        let generating = self
            .resources()
            .into_iter()
            .map(|model: Arc<LanguageModel>| {
                let status = model.engine().status();
                LlmEngineHealth {
                    stalled: status.stalled_for,
                    model: status.model,
                    health: model.health(),
                }
            });
        let embedding = self
            .resources()
            .into_iter()
            .map(|model: Arc<EmbeddingModel>| {
                let status = model.engine().status();
                LlmEngineHealth {
                    stalled: status.stalled_for,
                    model: status.model,
                    health: model.health(),
                }
            });
        generating.chain(embedding).collect()
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
        let required: Vec<&Servable> = self.iter().filter(is_required).collect();
        if required.is_empty() {
            return self.none_is_ready();
        }
        let loading: Vec<String> = required
            .iter()
            .filter(|servable| servable.is_awaited())
            .map(|servable| format!("`{}`", servable.name()))
            .collect();
        if !loading.is_empty() {
            return Some(format!("loading {}", listed(&loading, ", ")));
        }
        let reasons = required.iter().filter_map(|servable| servable.unready());
        let mut reasons: Vec<String> = reasons.collect();
        // Graphs that share an engine have the same reason.
        reasons.dedup();
        (!reasons.is_empty()).then(|| listed(&reasons, "; "))
    }

    /// Returns the reason why no graph would answer; `None` if one would.
    fn none_is_ready(&self) -> Option<String> {
        if self.iter().next().is_none() {
            // Without any graph in the configuration, none is missing, unless the server waits for
            // one.
            return self.settings.waits.then(|| NO_GRAPH.to_owned());
        }
        let awaited = self.iter().filter(|servable| servable.is_awaited());
        let awaited: Vec<String> = awaited.map(|it| format!("`{}`", it.name())).collect();
        if !awaited.is_empty() {
            return Some(format!("loading {}", listed(&awaited, ", ")));
        }
        let reasons: Option<Vec<String>> = self.iter().map(Servable::unready).collect();
        let mut reasons = reasons?;
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
