//! Compilation of a graph to a plan. Each phase has a file.
//!
//! After an error, compilation continues as long as later diagnostics are correct.

mod assemble;
mod cycles;
mod draft;
mod executor_declarations;
mod executors;
mod expand;
mod explain;
mod fields;
mod loops;
mod order;
mod policies;
mod queues;
mod sides;
mod streams;
mod types;
mod warnings;

use std::sync::Arc;

use graphmill_grammar::{Diagnostic, GraphConfig, SourceMap, diag};

use crate::{plan::Plan, registry::environment::Environment};

use draft::{Draft, contracts};

impl Plan {
    /// Compiles a graph. Files of subgraphs are added to `sources`, so that diagnostics can point
    /// into them. Returns a plan if the whole graph could be read and no diagnostic is an error.
    pub fn compile(
        graph: &GraphConfig,
        sources: &mut SourceMap,
        environment: &Environment,
    ) -> (Option<Arc<Self>>, Vec<Diagnostic>) {
        let mut draft = Draft::new(graph, environment);
        expand::expand(&mut draft, sources);
        contracts::resolve(&mut draft);
        fields::check(&mut draft);
        streams::connect(&mut draft);
        order::sort(&mut draft);
        types::check(&mut draft);
        policies::resolve(&mut draft);
        executors::resolve(&mut draft);
        fields::lanes(&mut draft);
        sides::connect(&mut draft);
        // Unreadable parts have been reported by the grammar, and the rest is not the graph that
        // was meant.
        if !draft.incomplete && !diag::has_errors(&draft.diagnostics) {
            warnings::check(&mut draft);
            loops::check(&mut draft);
            queues::check(&mut draft);
            sides::load(&mut draft);
        } else {
            sides::look(&mut draft);
        }
        let mut diagnostics = std::mem::take(&mut draft.diagnostics);
        let complete = !draft.incomplete && !diag::has_errors(&diagnostics);
        let plan = complete.then(|| Arc::new(assemble::assemble(draft, sources)));
        diag::sort(&mut diagnostics);
        // A mistake in a subgraph is reported once, however often the subgraph is used.
        diagnostics.dedup();
        if plan.is_none() {
            diag::truncate(&mut diagnostics);
        }
        (plan, diagnostics)
    }
}
