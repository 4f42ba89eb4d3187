//! Compilation of a graph file to a plan with loaded models.

use std::{path::Path, sync::Arc};

use graphmill_calculators::{
    http::{dialect::Dialect, dialect_table},
    llm::{LanguageModel, ModelSpec},
};
use graphmill_engine::{
    Environment, FileSource, FileStamps, Files, Plan, Subgraph, TrackedFiles, read_regular,
};
use graphmill_grammar::{
    Diagnostic, SourceMap,
    diag::{self, has_errors},
    parse_graph,
};
use graphmill_llm::AdapterSpec;
use parking_lot::Mutex;

use crate::{
    config::{
        GraphEntry,
        subgraphs::{KnownSubgraphs, NamedSubgraphs},
    },
    tensors::{self, TensorDeclarations},
};

/// Tags of the input stream for HTTP requests. Graphs of OpenVINO Model Server that embed and rank
/// have the shorter one.
const REQUEST_TAGS: [&str; 2] = ["HTTP_REQUEST_PAYLOAD", "REQUEST_PAYLOAD"];
/// Tags of the output stream for HTTP answers.
const RESPONSE_TAGS: [&str; 2] = ["HTTP_RESPONSE_PAYLOAD", "RESPONSE_PAYLOAD"];

/// Returns the input stream for HTTP requests.
pub(crate) fn request_stream(plan: &Plan) -> Option<&str> {
    let mut tags = REQUEST_TAGS.into_iter();
    tags.find_map(|tag| plan.input_with_tag(tag))
}

/// Returns the output stream for HTTP answers.
pub(crate) fn response_stream(plan: &Plan) -> Option<&str> {
    let mut tags = RESPONSE_TAGS.into_iter();
    tags.find_map(|tag| plan.output_with_tag(tag))
}

/// The result of compiling a graph file.
pub(crate) struct CompileResult {
    /// `None` when a diagnostic is an error.
    pub(crate) plan: Option<Arc<Plan>>,
    /// Texts that the diagnostics refer to.
    pub(crate) sources: SourceMap,
    pub(crate) diagnostics: Vec<Diagnostic>,
    pub(super) made: GraphSources,
}

/// The sources of a graph.
#[derive(Clone, Debug, Default)]
pub(super) struct GraphSources {
    /// Files: the graph, its subgraphs, models and files beside them.
    pub(super) seen: FileStamps,
    /// Text of the graph file; `None` if it cannot be read.
    pub(super) text: Option<Arc<str>>,
    /// Subgraphs in the graph's folder.
    pub(super) beside: Arc<[Subgraph]>,
    /// Endpoints of the dialects whose requests its nodes read; empty for a graph of tensors.
    /// `None` if not known: before it is compiled, or if nodes of other crates read requests.
    pub(super) reads: Option<Vec<&'static str>>,
    /// Adapters of its language models, those given at run time included.
    pub(super) adapters: Vec<AdapterSpec>,
}

impl GraphSources {
    /// Returns true if it reads requests at an endpoint.
    pub(super) fn reads(&self, endpoint: &str) -> bool {
        let mut read = self.reads.iter().flatten();
        read.any(|own| *own == endpoint)
    }

    /// Returns the entry of a graph with its stored sources in place of its files.
    pub(super) fn entry(&self, entry: &GraphEntry) -> GraphEntry {
        GraphEntry {
            text: self.text.clone().or_else(|| entry.text.clone()),
            beside: Some(Arc::clone(&self.beside)),
            ..entry.clone()
        }
    }
}

/// Compiles a graph file. Paths in its options are relative to `base`, and subgraphs in its folder
/// can be its nodes. The error is about the files themselves.
pub(crate) fn compile(
    file: &Path,
    base: &Path,
    environment: &Environment,
    named: &NamedSubgraphs,
) -> Result<CompileResult, String> {
    let mut seen = FileStamps::default();
    seen.look(file);
    let contents =
        read_regular(file).map_err(|error| format!("cannot read `{}`: {error}", file.display()))?;
    let mut compiled = compile_text(file, contents, base, environment, named);
    seen.extend(&compiled.made.seen);
    compiled.made.seen = seen;
    Ok(compiled)
}

/// Compiles a text as if it were the contents of `file`.
pub(crate) fn compile_text(
    file: &Path,
    contents: impl Into<Vec<u8>>,
    base: &Path,
    environment: &Environment,
    named: &NamedSubgraphs,
) -> CompileResult {
    let known = named.and_beside(file);
    compile_with(file, contents.into(), base, environment, &known)
}

/// Compiles the text of a graph without a file. It can use only subgraphs in the registry.
pub(super) fn compile_alone(text: String, environment: &Environment) -> CompileResult {
    let known = NamedSubgraphs::default().and_kept(&[]);
    let (file, base) = (Path::new("graph.pbtxt"), Path::new(""));
    compile_with(file, text.into_bytes(), base, environment, &known)
}

/// Compiles the text of a graph that is not served, as if it were the contents of the entry's file.
pub(super) fn compile_in_place(
    text: &str,
    entry: &GraphEntry,
    environment: &Environment,
) -> CompileResult {
    let environment = with_adapters(entry, environment);
    let named = NamedSubgraphs::default();
    compile_text(&entry.file, text, &entry.base, &environment, &named)
}

/// Returns the environment of a graph whose language model also gets the adapters that the graph was
/// given at run time.
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
    known: &KnownSubgraphs,
) -> CompileResult {
    let mut sources = SourceMap::new();
    let text = std::str::from_utf8(&contents).ok().map(Into::into);
    let parsed = parse_graph(&mut sources, file.display().to_string(), contents);
    let mut diagnostics = parsed.diagnostics;
    let mut plan = None;
    let mut seen = FileStamps::default();
    let files = Arc::new(TrackedFiles::new(Files::new(base)));
    let adapters = Arc::<Mutex<Vec<AdapterSpec>>>::default();
    if let Some(graph) = parsed.graph {
        known.look(&mut seen);
        diagnostics.extend(known.ambiguities(&graph, &mut sources));
        let registry = known.register(environment.registry().clone());
        let mut environment = environment
            .clone()
            .with_registry(registry)
            .with_files(Arc::clone(&files));
        let (listed, of_graph) = (Arc::clone(&adapters), Arc::clone(&files));
        environment = environment.with_amended::<LanguageModel>(move |spec| {
            list_adapters(spec, &*of_graph, &listed);
        });
        if has_errors(&diagnostics) {
            // Other errors are reported, too, but models are not loaded.
            environment = environment.looking_only();
        }
        let (compiled, more) = Plan::compile(&graph, &mut sources, &environment);
        diagnostics.extend(more);
        match (TensorDeclarations::read(&graph), &compiled) {
            (Ok(declared), Some(plan)) => plan.attach(declared),
            (Ok(_), None) => {}
            (Err(wrong), _) => diagnostics.extend(wrong),
        }
        diag::sort(&mut diagnostics);
        plan = compiled.filter(|_| !has_errors(&diagnostics));
    }
    seen.extend(&files.seen());
    let reads = plan.as_deref().and_then(dialects_of);
    let adapters = adapters.lock().clone();
    CompileResult {
        plan,
        sources,
        diagnostics,
        made: GraphSources {
            seen,
            text,
            beside: known.beside().into(),
            reads,
            adapters,
        },
    }
}

/// Adds a model's adapters to a list. A spec may be read more than once, so a name is added once.
fn list_adapters(spec: &ModelSpec, files: &dyn FileSource, listed: &Mutex<Vec<AdapterSpec>>) {
    let mut listed = listed.lock();
    for adapter in &spec.engine.adapters {
        if listed.iter().all(|other| other.name != adapter.name) {
            let path = files.resolve(&adapter.path);
            listed.push(AdapterSpec {
                path,
                ..adapter.clone()
            });
        }
    }
}

/// Returns the endpoints of the dialects of requests to a graph, as far as its nodes show. In a
/// graph of tensors, such a node reads a request that another node has made.
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
) -> Result<CompileResult, String> {
    let (file, base, named) = (&entry.file, &entry.base, NamedSubgraphs::default());
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
    // The file is watched, because its replacement is found there.
    compiled.made.seen.look(file);
    Ok(compiled)
}

/// Compiles the graph of a configuration's entry, and checks that it can answer requests.
pub(super) fn load(entry: &GraphEntry, environment: &Environment) -> Result<CompileResult, String> {
    if let Some(reason) = entry.refused_subconfig() {
        return Err(reason);
    }
    let compiled = compile_entry(entry, environment)?;
    if let Some(plan) = &compiled.plan {
        answers(plan)?;
    }
    Ok(compiled)
}

/// Checks that a graph can answer REST requests or tensors.
pub(crate) fn answers(plan: &Plan) -> Result<(), String> {
    if tensors::is_served(plan)? {
        return Ok(());
    }
    if request_stream(plan).is_none() {
        let tag = REQUEST_TAGS[0];
        let why = format!("the graph has no `input_stream: \"{tag}:...\"`");
        return Err(match tensors::foreign_input(plan) {
            Some((name, types)) => format!(
                "{why}, and its input stream `{name}` takes `{}`, which cannot be a tensor: no request can enter it",
                types.join("` or `")
            ),
            None => format!("{why}, so no request can enter it"),
        });
    }
    if response_stream(plan).is_none() {
        let tag = RESPONSE_TAGS[0];
        let why = format!("the graph has no `output_stream: \"{tag}:...\"`");
        return Err(format!("{why}, so no answer can leave it"));
    }
    Ok(())
}
