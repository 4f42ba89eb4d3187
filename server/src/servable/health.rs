//! Readiness of graphs, and of the server: it is ready while all graphs that it needs are.

use std::{sync::Arc, time::Duration};

use graphmill_calculators::{embed::EmbeddingModel, llm::LanguageModel};
use graphmill_llm::{Health, LlmEngineState};

use super::{Servable, Servables, StateName};

/// An engine that has had work for this long without making a step is not ready, whether it will be
/// given up for it or not. Far above the time of the longest step: a full prefill batch of a large
/// model on a slow machine.
const STALLED: Duration = Duration::from_mins(1);

/// Graphs that are named in a reason; there may be hundreds.
const NAMED: usize = 10;

/// How an engine of a graph is.
struct LlmEngineHealth {
    model: String,
    stalled: Duration,
    health: Health,
}

impl LlmEngineHealth {
    /// Why it does not answer, if it does not.
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
    /// Why requests for the graph would not be answered now; `None` when they would.
    pub(crate) fn unready(&self) -> Option<String> {
        let name = self.name();
        match self.state_name() {
            StateName::Listed | StateName::Loading | StateName::Unloading | StateName::Unloaded
                if self.loads_on_demand() && self.is_settled() =>
            {
                // A request has it loaded, and a load under way is no news.
                let reason = self.last_failure()?;
                Some(format!("`{name}` could not be loaded: {reason}"))
            }
            StateName::Unloading | StateName::Unloaded if self.is_kept_out() => {
                let reason = self.failure().unwrap_or_default();
                Some(format!("`{name}` is not loaded: {reason}"))
            }
            StateName::Listed | StateName::Loading => Some(format!("loading `{name}`")),
            StateName::Unloading | StateName::Unloaded => {
                Some(format!("`{name}` makes room for what takes its place"))
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

    /// Whether it is loaded without a request for it, and is not yet.
    fn is_awaited(&self) -> bool {
        match self.state_name() {
            StateName::Listed | StateName::Loading => {
                !(self.loads_on_demand() && self.is_settled())
            }
            _ => false,
        }
    }

    /// How its engines are.
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
    /// Why no graph will ever answer, if so: none is listed, or none could be loaded or waits to
    /// be.
    pub(crate) fn nothing_to_serve(&self) -> Option<String> {
        if self.iter().next().is_none() {
            return Some("the configuration lists no graph".to_owned());
        }
        let failed = |servable: &Servable| {
            (servable.state_name() == StateName::Failed).then(|| format!("`{}`", servable.name()))
        };
        // Why is in the log.
        let names: Option<Vec<String>> = self.iter().map(failed).collect();
        names.map(|names| format!("{} could not be loaded", listed(&names, ", ")))
    }

    /// Why the server is not ready; `None` when it is: all graphs are that are neither optional nor
    /// kept out by an operator. Where there is no other, one has to be, once each has been loaded or
    /// has failed.
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
        // Graphs that share an engine have the same to say.
        reasons.dedup();
        (!reasons.is_empty()).then(|| listed(&reasons, "; "))
    }

    /// Why no graph would answer; `None` when one would.
    fn none_is_ready(&self) -> Option<String> {
        if self.iter().next().is_none() {
            // If none is configured, none is missing, unless the server waits for one.
            return self
                .waits
                .then(|| "the configuration lists no graph".to_owned());
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

    /// Why the server will not get well by itself: an engine failed and could not be started again.
    pub(crate) fn beyond_help(&self) -> Option<String> {
        let engines = self.iter().flat_map(Servable::engines);
        let mut failed = engines.filter(|engine| engine.health.state == LlmEngineState::Failed);
        failed.find_map(|engine| engine.unready())
    }
}

/// The first of some things.
fn listed(all: &[String], between: &str) -> String {
    let shown = all.iter().take(NAMED).cloned().collect::<Vec<_>>();
    match all.len().saturating_sub(NAMED) {
        0 => shown.join(between),
        more => format!("{}{between}and {more} more", shown.join(between)),
    }
}
