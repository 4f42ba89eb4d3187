//! From a graph file to a plan with its models loaded.

use std::{path::Path, sync::Arc};

use graphmill_calculators::{
    http::{dialect::Dialect, dialect_table},
    llm::LanguageModel,
};
use graphmill_engine::{
    Environment, FileStamps, Files, Plan, Subgraph, TrackedFiles, read_regular,
};
use graphmill_grammar::{
    Diagnostic, SourceMap,
    diag::{self, has_errors},
    parse_graph,
};

use crate::{
    config::{
        GraphEntry,
        subgraphs::{Known, Named},
    },
    tensors::{self, Declared},
};

/// The tags of the stream on which a graph takes an HTTP request. OVMS's graphs that embed and rank
/// have the shorter one.
const REQUEST_TAGS: [&str; 2] = ["HTTP_REQUEST_PAYLOAD", "REQUEST_PAYLOAD"];
/// The tags of the stream on which a graph gives the answer.
const RESPONSE_TAGS: [&str; 2] = ["HTTP_RESPONSE_PAYLOAD", "RESPONSE_PAYLOAD"];

/// The stream on which a graph takes an HTTP request.
pub(crate) fn request_stream(plan: &Plan) -> Option<&str> {
    let mut tags = REQUEST_TAGS.into_iter();
    tags.find_map(|tag| plan.input_with_tag(tag))
}

/// The stream on which a graph gives the answer.
pub(crate) fn response_stream(plan: &Plan) -> Option<&str> {
    let mut tags = RESPONSE_TAGS.into_iter();
    tags.find_map(|tag| plan.output_with_tag(tag))
}

/// What compiling a graph file gave.
pub(crate) struct Compiled {
    /// `None` when a diagnostic is an error.
    pub(crate) plan: Option<Arc<Plan>>,
    /// The texts that the diagnostics point into.
    pub(crate) sources: SourceMap,
    pub(crate) diagnostics: Vec<Diagnostic>,
    pub(super) made: Made,
}

/// What a graph is made of.
#[derive(Clone, Debug, Default)]
pub(super) struct Made {
    /// The files: the graph, its subgraphs, models and what lies beside them.
    pub(super) seen: FileStamps,
    /// The text of the graph file; none where it cannot be read.
    pub(super) text: Option<Arc<str>>,
    /// The subgraphs beside it.
    pub(super) beside: Arc<[Subgraph]>,
    /// The dialects whose requests its nodes read, by their endpoints: none of a graph of tensors.
    /// `None` where that is not known: before it is compiled, or where nodes of other crates read.
    pub(super) reads: Option<Vec<&'static str>>,
}

impl Made {
    /// Returns true if it reads requests at an endpoint.
    pub(super) fn reads(&self, endpoint: &str) -> bool {
        let mut read = self.reads.iter().flatten();
        read.any(|own| *own == endpoint)
    }

    /// The entry of a graph with what it was made of in the place of its files.
    pub(super) fn entry(&self, entry: &GraphEntry) -> GraphEntry {
        GraphEntry {
            text: self.text.clone().or_else(|| entry.text.clone()),
            beside: Some(Arc::clone(&self.beside)),
            ..entry.clone()
        }
    }
}

/// Compiles a graph file; paths in its options are relative to `base`, and the subgraphs that lie
/// beside it can be its nodes. The error is about the files themselves.
pub(crate) fn compile(
    file: &Path,
    base: &Path,
    environment: &Environment,
    named: &Named,
) -> Result<Compiled, String> {
    let mut seen = FileStamps::default();
    seen.look(file);
    let contents =
        read_regular(file).map_err(|error| format!("cannot read `{}`: {error}", file.display()))?;
    let mut compiled = compile_text(file, contents, base, environment, named);
    seen.extend(&compiled.made.seen);
    compiled.made.seen = seen;
    Ok(compiled)
}

/// Compiles the text of a graph as if it were that of `file`.
pub(crate) fn compile_text(
    file: &Path,
    contents: impl Into<Vec<u8>>,
    base: &Path,
    environment: &Environment,
    named: &Named,
) -> Compiled {
    let known = named.and_beside(file);
    compile_with(file, contents.into(), base, environment, &known)
}

/// Compiles the text of a graph that no file has. Only what the registry knows can be its nodes.
pub(super) fn compile_alone(text: String, environment: &Environment) -> Compiled {
    let known = Named::default().and_kept(&[]);
    let (file, base) = (Path::new("graph.pbtxt"), Path::new(""));
    compile_with(file, text.into_bytes(), base, environment, &known)
}

/// Compiles the text of a graph that is not served as if it were that of the entry's file.
pub(super) fn compile_in_place(
    text: &str,
    entry: &GraphEntry,
    environment: &Environment,
) -> Compiled {
    compile_text(
        &entry.file,
        text,
        &entry.base,
        &with_adapters(entry, environment),
        &Named::default(),
    )
}

/// The environment of a graph, whose language model has the adapters that it was given, too.
fn with_adapters(entry: &GraphEntry, environment: &Environment) -> Environment {
    let adapters = entry.adapters.clone();
    let environment = environment.clone();
    environment.with_amended::<LanguageModel>(move |spec| {
        spec.engine.adapters.extend_from_slice(&adapters);
    })
}

fn compile_with(
    file: &Path,
    contents: Vec<u8>,
    base: &Path,
    environment: &Environment,
    known: &Known,
) -> Compiled {
    let mut sources = SourceMap::new();
    let text = std::str::from_utf8(&contents).ok().map(Into::into);
    let parsed = parse_graph(&mut sources, file.display().to_string(), contents);
    let mut diagnostics = parsed.diagnostics;
    let mut plan = None;
    let mut seen = FileStamps::default();
    let files = Arc::new(TrackedFiles::new(Files::new(base)));
    if let Some(graph) = parsed.graph {
        known.look(&mut seen);
        diagnostics.extend(known.ambiguities(&graph, &mut sources));
        let registry = known.register(environment.registry().clone());
        let mut environment = environment
            .clone()
            .with_registry(registry)
            .with_files(Arc::clone(&files));
        if has_errors(&diagnostics) {
            // What else is wrong is worth knowing; models are not loaded for it.
            environment = environment.looking_only();
        }
        let (compiled, more) = Plan::compile(&graph, &mut sources, &environment);
        diagnostics.extend(more);
        match (Declared::read(&graph), &compiled) {
            (Ok(declared), Some(plan)) => plan.attach(declared),
            (Ok(_), None) => {}
            (Err(wrong), _) => diagnostics.extend(wrong),
        }
        diag::sort(&mut diagnostics);
        plan = compiled.filter(|_| !has_errors(&diagnostics));
    }
    seen.extend(&files.seen());
    let reads = plan.as_deref().and_then(dialects_of);
    Compiled {
        plan,
        sources,
        diagnostics,
        made: Made {
            seen,
            text,
            beside: known.beside().into(),
            reads,
        },
    }
}

/// The endpoints of the dialects of the requests that enter a graph, as far as its nodes tell. A
/// node of a graph of tensors reads what another one has made.
fn dialects_of(plan: &Plan) -> Option<Vec<&'static str>> {
    let nodes = plan.explain().nodes.iter();
    let read = nodes.flat_map(|node| dialect_table::read_by(&node.calculator));
    let read: Vec<_> = read.map(Dialect::endpoint).collect();
    match request_stream(plan) {
        None => Some(Vec::new()),
        Some(_) => (!read.is_empty()).then_some(read),
    }
}

/// Compiles the graph of a configuration's entry.
pub(super) fn compile_entry(
    entry: &GraphEntry,
    environment: &Environment,
) -> Result<Compiled, String> {
    let (file, base, named) = (&entry.file, &entry.base, Named::default());
    let environment = &with_adapters(entry, environment);
    let text = match (&entry.text, &entry.maker) {
        (Some(text), _) => Arc::clone(text),
        (None, Some(maker)) => maker.graph()?,
        (None, None) => return compile(file, base, environment, &named),
    };
    let contents = text.as_bytes().to_vec();
    let Some(beside) = &entry.beside else {
        return Ok(compile_text(file, contents, base, environment, &named));
    };
    let known = named.and_kept(beside);
    let mut compiled = compile_with(file, contents, base, environment, &known);
    // What takes its place is found in the file.
    compiled.made.seen.look(file);
    Ok(compiled)
}

/// Compiles the graph of a configuration's entry, and checks that requests can be answered by it.
pub(super) fn load(entry: &GraphEntry, environment: &Environment) -> Result<Compiled, String> {
    if let Some(reason) = entry.refused_subconfig() {
        return Err(reason);
    }
    let compiled = compile_entry(entry, environment)?;
    if let Some(plan) = &compiled.plan {
        answers(plan)?;
    }
    Ok(compiled)
}

/// Why a graph can answer neither REST requests nor tensors, if so.
pub(crate) fn answers(plan: &Plan) -> Result<(), String> {
    if tensors::is_served(plan)? {
        return Ok(());
    }
    if request_stream(plan).is_none() {
        let why = format!(
            "the graph has no `input_stream: \"{}:...\"`",
            REQUEST_TAGS[0]
        );
        return Err(match tensors::foreign_input(plan) {
            Some((name, types)) => format!(
                "{why}, and its input stream `{name}` takes `{}`, which no tensor can be: no request can enter it",
                types.join("` or `")
            ),
            None => format!("{why}, so no request can enter it"),
        });
    }
    if response_stream(plan).is_none() {
        return Err(format!(
            "the graph has no `output_stream: \"{}:...\"`, so no answer can leave it",
            RESPONSE_TAGS[0]
        ));
    }
    Ok(())
}
