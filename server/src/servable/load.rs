//! From a graph file to a plan with its models loaded.

use std::{path::Path, sync::Arc};

use graphmill_engine::{Environment, Files, Plan};
use graphmill_grammar::{
    Diagnostic, SourceMap,
    diag::{self, has_errors},
    parse_graph,
};

use super::subgraphs::Beside;
use crate::config::GraphEntry;

/// The tag of the stream on which a graph takes an HTTP request.
pub(crate) const REQUEST_TAG: &str = "HTTP_REQUEST_PAYLOAD";
/// The tag of the stream on which a graph gives the answer.
pub(crate) const RESPONSE_TAG: &str = "HTTP_RESPONSE_PAYLOAD";

/// What compiling a graph file gave.
pub(crate) struct Compiled {
    /// `None` when a diagnostic is an error.
    pub(crate) plan: Option<Arc<Plan>>,
    /// The texts that the diagnostics point into.
    pub(crate) sources: SourceMap,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// Compiles a graph file; paths in its options are relative to `base`, and the subgraphs that lie beside it can be its nodes.
/// The error is about the files themselves.
pub(crate) fn compile(
    file: &Path,
    base: &Path,
    environment: &Environment,
) -> Result<Compiled, String> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("cannot read `{}`: {error}", file.display()))?;
    compile_text(file, text, base, environment)
}

/// Compiles the text of a graph as if it were that of `file`.
pub(crate) fn compile_text(
    file: &Path,
    text: String,
    base: &Path,
    environment: &Environment,
) -> Result<Compiled, String> {
    let mut sources = SourceMap::new();
    let parsed = parse_graph(&mut sources, file.display().to_string(), text);
    let mut diagnostics = parsed.diagnostics;
    let mut plan = None;
    if let Some(graph) = parsed.graph {
        let beside = Beside::of(file);
        if let Some(unclear) = beside.ambiguity(&graph) {
            return Err(unclear);
        }
        let registry = beside.register(environment.registry().clone());
        let mut environment = environment
            .clone()
            .with_registry(registry)
            .with_world(Files::new(base));
        if has_errors(&diagnostics) {
            // What else is wrong is worth knowing; models are not loaded for it.
            environment = environment.without_loading();
        }
        let (compiled, more) = Plan::compile(&graph, &mut sources, &environment);
        diagnostics.extend(more);
        diag::sort(&mut diagnostics);
        plan = compiled.filter(|_| !has_errors(&diagnostics));
    }
    Ok(Compiled {
        plan,
        sources,
        diagnostics,
    })
}

/// Compiles the graph of a configuration's entry, and checks that REST requests can be answered by it.
pub(super) fn load(entry: &GraphEntry, environment: &Environment) -> Result<Compiled, String> {
    if let Some(reason) = entry.refused_subconfig() {
        return Err(reason);
    }
    let compiled = compile(&entry.file, &entry.base, environment)?;
    if let Some(plan) = &compiled.plan {
        answers_http(plan)?;
    }
    Ok(compiled)
}

/// Why a graph cannot answer REST requests, if it cannot.
pub(crate) fn answers_http(plan: &Plan) -> Result<(), String> {
    if plan.input_with_tag(REQUEST_TAG).is_none() {
        return Err(format!(
            "the graph has no `input_stream: \"{REQUEST_TAG}:...\"`, so no request can enter it"
        ));
    }
    if plan.output_with_tag(RESPONSE_TAG).is_none() {
        return Err(format!(
            "the graph has no `output_stream: \"{RESPONSE_TAG}:...\"`, so no answer can leave it"
        ));
    }
    Ok(())
}
