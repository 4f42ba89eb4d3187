//! The default graph for requests that name no served graph, and the choice of the dialect at paths
//! that several dialects have.

use std::sync::Arc;

use graphmill_calculators::{http::dialect::Target, llm::LanguageModel, payload::JsonBody};
use graphmill_dialects::bodies::TOKENIZE;

use super::{Servable, Servables, quoted};
use crate::errors::{Cause, Failure};

impl Servables {
    /// Returns the graph for requests at an endpoint of a dialect: the graph named `preferred` if
    /// it reads them, or else the only graph that the client may see and that does.
    ///
    /// # Errors
    /// If there is none, or if there are several.
    pub(crate) fn default_for(
        &self,
        endpoint: &str,
        preferred: Option<&str>,
        sees: impl Fn(&str) -> bool,
    ) -> Result<&Arc<Servable>, Failure> {
        let visible = || self.all().filter(|it| sees(it.graph()));
        let preferred = preferred.map(|name| self.without_alias(name));
        let reads = |it: &&Arc<Servable>| it.sources().reads(endpoint);
        let mut names: Vec<&str> = visible().filter(reads).map(|it| it.graph()).collect();
        if names.is_empty() {
            let is_unknown = |it: &&Arc<Servable>| it.sources().reads.is_none();
            names = visible().filter(is_unknown).map(|it| it.graph()).collect();
        }
        names.dedup();
        let of = |name: &str| self.find_version(name, None);
        let chosen = match names.as_slice() {
            [only] => of(only),
            several => preferred.filter(|name| several.contains(name)).and_then(of),
        };
        chosen.ok_or_else(|| {
            let message = if names.is_empty() {
                format!("no served graph answers at `{endpoint}`")
            } else {
                format!(
                    "`model` names no served graph, and several could answer: {}; choose one with \
                     `--any_model=NAME`",
                    quoted(names.iter())
                )
            };
            Failure::new(Cause::UnknownModel, message).with_field("model")
        })
    }

    /// Returns true if a graph that the client may see reads requests at an endpoint.
    pub(crate) fn answer_at(&self, endpoint: &str, sees: impl Fn(&str) -> bool) -> bool {
        self.all()
            .any(|it| sees(it.graph()) && it.sources().reads(endpoint))
    }

    /// Returns the graph for a question about prompts that names none: the only one that the client
    /// may see and that reads prompts, or one with the only language model.
    pub(crate) fn unnamed(&self, sees: impl Fn(&str) -> bool) -> Option<&Arc<Servable>> {
        let visible = || self.all().filter(|it| sees(it.graph()));
        let mut asked: Vec<_> = visible()
            .filter(|it| it.sources().reads(TOKENIZE))
            .collect();
        if asked.is_empty() {
            asked = visible().collect();
        }
        let first = *asked.first()?;
        if asked.iter().all(|other| other.graph() == first.graph()) {
            return self.find_version(first.graph(), None);
        }
        let models = |it: &&Arc<Servable>| it.resources::<LanguageModel>();
        let with_model = *asked.iter().find(|it| !models(it).is_empty())?;
        let all: Vec<_> = asked.iter().flat_map(models).collect();
        let is_one = all.iter().all(|model| Arc::ptr_eq(model, &all[0]));
        is_one.then_some(with_model)
    }

    /// Returns the dialect of a request if several have its path: the one that fits its body, and
    /// for which there is a graph.
    pub(crate) fn meant(
        &self,
        target: Target,
        body: &JsonBody,
        sees: impl Fn(&str) -> bool,
    ) -> Target {
        let others = target.dialect.others();
        if others.is_empty() {
            return target;
        }
        let all = [target.dialect].into_iter().chain(others.iter().copied());
        let mut meant: Vec<_> = all.filter(|dialect| dialect.is_meant(body)).collect();
        let first = meant.first().copied();
        meant.retain(|dialect| self.answer_at(dialect.endpoint(), &sees));
        let dialect = meant.first().copied().or(first);
        Target {
            dialect: dialect.unwrap_or(target.dialect),
            ..target
        }
    }
}
