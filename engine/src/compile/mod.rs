//! From a graph to a plan: one phase a file.
//!
//! Compilation continues after an error as long as later diagnostics would still be correct.

mod assemble;
mod cycles;
mod draft;
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
    /// into them. There is a plan if the graph could be read as a whole and there is no error among
    /// the diagnostics.
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
        // What could not be read has been reported by the grammar, and is no graph to run.
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
        // What is wrong in a subgraph is wrong once, however often the subgraph is used.
        diagnostics.dedup();
        if plan.is_none() {
            diag::truncate(&mut diagnostics);
        }
        (plan, diagnostics)
    }
}
