//! The graph that is meant where a request names none.

use std::sync::Arc;

use graphmill_calculators::http::{
    dialect::{Dialect, Target},
    dialect_table,
};
use graphmill_calculators::payload::JsonBody;

use super::{Choice, Servable, Servables};
use crate::errors::{Cause, Failure};

/// Maximum number of graphs that an error lists.
const LISTED: usize = 20;

impl Servables {
    /// The graph that a request of a dialect means if it names none: of those that the client may
    /// see the only one, or the only one that is loaded and reads requests of the dialect's family.
    ///
    /// # Errors
    /// Names the graphs that there are.
    pub(crate) fn default_graph(
        &self,
        dialect: &'static dyn Dialect,
        sees: impl Fn(&str) -> bool,
    ) -> Result<&Arc<Servable>, Failure> {
        let reader = dialect_table::reader(dialect);
        let mut visible: Vec<&Servable> = self.iter().filter(|it| sees(it.graph())).collect();
        visible.dedup_by_key(|it| it.graph());
        if visible.len() > 1 {
            visible.retain(|it| it.has_node(reader));
        }
        let end = dialect.endpoint();
        let Some(first) = visible.first() else {
            let message = format!("no graph that is served answers at `{end}`");
            return Err(Failure::new(Cause::UnknownModel, message).of_field("model"));
        };
        let only = self.of_graph(first.graph(), &Choice::Newest);
        only.filter(|_| visible.len() == 1).ok_or_else(|| {
            let names = visible.iter().take(LISTED);
            let names: Vec<String> = names.map(|it| format!("`{}`", it.graph())).collect();
            let why = format!(
                "`model` is missing: it names the graph that answers, of {}",
                names.join(", ")
            );
            let failure = Failure::new(Cause::BadRequest, why).of_field("model");
            failure.with_code("missing_required_parameter")
        })
    }

    /// The dialect of a request, where several have its path: that which its body is of, and for
    /// which there is a graph.
    pub(crate) fn meant(
        &self,
        target: Target,
        body: &JsonBody,
        sees: impl Fn(&str) -> bool,
    ) -> Target {
        let all = [target.dialect]
            .into_iter()
            .chain(target.dialect.others().iter().copied());
        let meant = all.filter(|dialect| dialect.is_meant(body));
        let is_served = |dialect: &&'static dyn Dialect| {
            let reader = dialect_table::reader(*dialect);
            self.iter()
                .any(|it| sees(it.graph()) && it.has_node(reader))
        };
        let dialect = meant.clone().find(is_served).or(meant.clone().next());
        Target {
            dialect: dialect.unwrap_or(target.dialect),
            ..target
        }
    }
}

impl Servable {
    /// Returns true if it is loaded and has a node of this calculator.
    fn has_node(&self, calculator: &str) -> bool {
        let Ok(plan) = self.plan() else { return false };
        let mut nodes = plan.explain().nodes.iter();
        nodes.any(|node| *node.calculator == *calculator)
    }
}
