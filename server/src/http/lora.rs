//! Adapters that operators load and unload while the server runs, at vLLM's paths. The graph is
//! loaded again, with these adapters behind those of its file. Running requests finish on the old
//! one.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use axum::extract::State;
use graphmill_calculators::llm::LanguageModel;
use graphmill_llm::{AdapterSpec, Number, is_adapter, resolve_model_path};
use serde::Deserialize;
use tokio::task::spawn_blocking;

use super::{
    AppState,
    openai::{named_or_only, why_to_name},
    operation::{Answer, Group, Operation, Parameter, ParameterKind, Side},
    request::{RequestBody, missing, wrong},
    residence::OF_A_GRAPH,
};
use crate::{
    app::state::App,
    errors::{Cause, Failure, Result},
    run::RequestContext,
    servable::{Servable, Servables},
    telemetry::log,
};

/// Maximum number of adapters that a graph gets at run time. Each load reads all of them again, and
/// the status of an engine distinguishes only this many.
const MAX_LOADED: usize = 64;

/// Maximum length of an adapter's name in bytes. Logs, metrics and lists of models repeat it.
const MAX_NAME: usize = 200;

#[rustfmt::skip]
pub(super) fn operations() -> Vec<Operation> {
    const NAME: Parameter = Parameter::new("lora_name", ParameterKind::Text, "Name of the adapter, without colons");
    const NUMBER: Parameter = Parameter::new("lora_int_id", ParameterKind::Count(1 << 32), "Has no effect");
    const LOAD: &[Parameter] = &[
        NAME,
        Parameter::new("lora_path", ParameterKind::Text, "GGUF file, or a folder with one, in the folder of `--runtime_lora`"),
        Parameter::new("base_model_name", ParameterKind::OptionalText, "Name of the graph. Default: the only graph with a language model"),
        Parameter::new("load_inplace", ParameterKind::Boolean, "`true` replaces an adapter that was loaded under this name"),
        NUMBER,
        Parameter::new("is_3d_lora_weight", ParameterKind::Boolean, "Has no effect: the file determines it"),
    ];
    const UNLOAD: &[Parameter] = &[NAME, NUMBER];
    let operations = [
        Operation::post("/v1/load_lora_adapter", load).about(Group::Models, "Loads an adapter, as vLLM does").takes(LOAD),
        Operation::post("/v1/unload_lora_adapter", unload).about(Group::Models, "Unloads an adapter that was loaded in this way").takes(UNLOAD),
    ];
    let text = Answer::Text(&["text/plain"]);
    operations.map(|it| it.answers(text).refuses(OF_A_GRAPH).on(Side::Management).listed(false)).into()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct LoadRequest {
    lora_name: String,
    lora_path: String,
    base_model_name: Option<String>,
    #[serde(default, rename = "load_inplace")]
    replaces: bool,
    #[serde(default, rename = "lora_int_id")]
    _number: Option<u64>,
    #[serde(default, rename = "is_3d_lora_weight")]
    _is_of_experts: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct UnloadRequest {
    lora_name: String,
    #[serde(default, rename = "lora_int_id")]
    _number: Option<u64>,
}

async fn load(State(app): AppState, who: RequestContext, body: RequestBody) -> Result<String> {
    let root = root(&app)?;
    let request: LoadRequest = body.fields()?;
    let name = request.lora_name;
    let is_odd = |it: char| it == ':' || log::is_disruptive(it);
    if !(1..=MAX_NAME).contains(&name.len()) || name.contains(is_odd) {
        let why = format!("must have 1 to {MAX_NAME} bytes, no colon and no control characters");
        return Err(wrong("lora_name", &why));
    }
    let given = AdapterSpec {
        name: name.clone(),
        path: file(&root, &request.lora_path)?,
        scale: Number::ONE,
    };
    let graph = base(&who, request.base_model_name).await?;
    let replaces = request.replaces;
    let put = move |servables: &Servables, adapters: &mut Vec<AdapterSpec>| {
        let refused = |why: &str| Err(wrong("lora_name", why));
        match adapters.iter().position(|it| it.name == given.name) {
            Some(at) if replaces => adapters[at] = given,
            Some(_) => return refused("is served already: `load_inplace` replaces the adapter"),
            None if servables.named(&given.name, None).is_some() => {
                return refused("is served already");
            }
            None if adapters.len() >= MAX_LOADED => {
                let why = format!("is one too many: a graph gets at most {MAX_LOADED} adapters");
                return refused(&why);
            }
            None => adapters.push(given),
        }
        Ok(())
    };
    let loaded = change(&who, graph, ("load adapter", &name), put).await;
    loaded.map_err(|failure| match failure.param {
        None => failure.with_field("lora_path"),
        Some(_) => failure,
    })?;
    let success = format!("Success: LoRA adapter '{name}' added successfully.");
    Ok(success)
}

async fn unload(State(app): AppState, who: RequestContext, body: RequestBody) -> Result<String> {
    root(&app)?;
    let request: UnloadRequest = body.fields()?;
    let name = request.lora_name;
    let unknown = |why: &str| {
        let message = format!("`lora_name` {why}");
        Failure::new(Cause::NotFound, message).with_field("lora_name")
    };
    let not_loaded = "names no adapter that was loaded at run time";
    let servables = who.servables();
    let visible = || servables.all().filter(|it| who.sees(it.graph(), None));
    let Some(graph) = visible().find(|it| it.was_given(&name)) else {
        let is_own = |it: &Arc<Servable>| it.adapters().contains(&name);
        return Err(unknown(if visible().any(is_own) {
            "names an adapter from a graph's file: remove it there"
        } else {
            not_loaded
        }));
    };
    let taken = name.clone();
    let take = move |_: &Servables, adapters: &mut Vec<AdapterSpec>| {
        let at = adapters.iter().position(|it| it.name == taken);
        adapters.remove(at.ok_or_else(|| unknown(not_loaded))?);
        adapters.retain(has_file);
        Ok(())
    };
    change(&who, Arc::clone(graph), ("unload adapter", &name), take).await?;
    let success = format!("Success: LoRA adapter '{name}' removed successfully.");
    Ok(success)
}

/// Returns true if an adapter still has its file. The graph could not be loaded again without it.
fn has_file(adapter: &AdapterSpec) -> bool {
    let has_file = is_adapter(&adapter.path);
    if !has_file {
        let name = &adapter.name;
        tracing::warn!("the adapter `{name}` is unloaded, too: its file is gone or has changed");
    }
    has_file
}

/// Returns the folder that adapters are loaded from.
fn root(app: &App) -> Result<PathBuf> {
    let folder = app.options.runtime_lora.as_ref();
    let folder = folder.and_then(|folder| folder.canonicalize().ok());
    let why = "adapters are loaded at run time only from the folder of `--runtime_lora`, and none \
               is set";
    folder.ok_or_else(|| Failure::new(Cause::Forbidden, why))
}

/// Finds the file of an adapter in a folder. Links out of the folder are not followed.
fn file(root: &Path, path: &str) -> Result<PathBuf> {
    let inside = |path: &Path| {
        let real = path.canonicalize().ok();
        real.filter(|real| real.starts_with(root)).ok_or_else(|| {
            let why = "`lora_path` names nothing in the folder of `--runtime_lora`";
            Failure::new(Cause::NotFound, why).with_field("lora_path")
        })
    };
    let named = inside(&root.join(path))?;
    let found = resolve_model_path(root, &named.to_string_lossy());
    let found = found.map_err(|error| wrong("lora_path", &format!("has no adapter: {error}")))?;
    let found = inside(&found)?;
    if is_adapter(&found) {
        return Ok(found);
    }
    Err(wrong("lora_path", "names no LoRA adapter in GGUF"))
}

/// Finds the graph for an adapter, and waits until it is loaded.
async fn base(who: &RequestContext, name: Option<String>) -> Result<Arc<Servable>> {
    const FIELD: &str = "base_model_name";
    let servables = who.servables();
    let only = servables.unnamed(|graph| who.sees(graph, None));
    let name = name.as_deref().or(only.map(|it| it.name()));
    let name = name.ok_or_else(|| missing(FIELD, why_to_name(who)))?;
    who.find(name).map_err(|it| it.with_field(FIELD))?;
    let ready = named_or_only(who, Some(name)).await?;
    let models = ready.plan().resources::<LanguageModel>();
    match models.len() {
        1 => Ok(ready.servable),
        0 => Err(wrong(FIELD, "is a graph without a language model")),
        _ => Err(wrong(FIELD, "is a graph with several language models")),
    }
}

/// Loads a graph again with changed adapters. The audit log gets the action and the name of the
/// adapter.
async fn change(
    who: &RequestContext,
    graph: Arc<Servable>,
    (action, name): (&str, &str),
    change: impl FnOnce(&Servables, &mut Vec<AdapterSpec>) -> Result<()> + Send + 'static,
) -> Result<()> {
    let subject = format!("{}:{name}", graph.name());
    let served = Arc::clone(&who.runner.served);
    let changing = spawn_blocking(move || served.change_adapters(&graph, change));
    let changed = changing.await.map_err(|_| Failure::stopping())?;
    let reason = changed.as_ref().err().map(|failure| &*failure.message);
    let outcome = if reason.is_none() { "done" } else { "failed" };
    who.audit(action, &subject, outcome, reason);
    changed
}
