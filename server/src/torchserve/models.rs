//! Graphs as TorchServe lists and describes them, and what it would change of them.

use std::{path::Path, sync::Arc};

use graphmill_engine::read_text;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use crate::{
    app::state::{App, Options},
    config::{self, edit},
    errors::{Cause, Failure},
    kserve::{self, Label, wrong},
    replace::replace,
    run::RequestContext,
    servable::Servable,
};

/// Maximum number of graphs of a page, where the request does not say it.
pub(crate) const PAGE: usize = 100;

/// Finds what is behind `/predictions` or `/models`: the name of a graph, which can have slashes,
/// and perhaps a version.
pub(crate) fn named<'a>(who: &RequestContext, path: &'a str) -> (&'a str, &'a str) {
    if who.find(path).is_ok() {
        return (path, "");
    }
    match path.rsplit_once('/') {
        Some((name, version)) if version.starts_with(|c: char| c.is_ascii_digit()) => {
            (name, number(version))
        }
        _ => (path, ""),
    }
}

/// A version as a number: TorchServe writes `1.0`.
pub(crate) fn number(version: &str) -> &str {
    version.strip_suffix(".0").unwrap_or(version)
}

/// Lists so many of the names of the graphs, from one on.
pub(crate) fn list(who: &RequestContext, first: usize, limit: usize) -> Result<Value, Failure> {
    if limit == 0 {
        return Err(wrong("limit", "it is at least 1"));
    }
    let servables = who.servables();
    let names = servables.iter().map(Servable::graph);
    let mut names: Vec<&str> = names.filter(|name| who.sees(name, None)).collect();
    names.dedup();
    let shown = names.iter().skip(first).take(limit);
    let models: Vec<Value> = shown
        .map(|name| json!({ "modelName": name, "modelUrl": name }))
        .collect();
    let mut answer = json!({ "models": models });
    let next = first.saturating_add(limit);
    if next < names.len() {
        answer["nextPageToken"] = json!(next.to_string());
    }
    Ok(answer)
}

/// Describes a graph: the version that is named, or that requests would go to.
pub(crate) fn describe(who: &RequestContext, name: &str, version: &str) -> Result<Value, Failure> {
    let graph = kserve::find(who, name, version)?;
    let Label { name, version } = Label::from(&*graph);
    Ok(json!([{
        "modelName": name,
        "modelVersion": version,
        "modelUrl": name,
        "runtime": kserve::PLATFORM,
        "minWorkers": 1,
        "maxWorkers": 1,
        "batchSize": 1,
        "maxBatchDelay": 0,
        "loadedAtStartup": !graph.loads_on_demand(),
        "workers": [{ "id": "0", "status": kserve::state(&graph) }],
    }]))
}

/// Refuses other numbers of workers than the one that graphs have.
pub(crate) fn check_workers(workers: &[Option<i64>]) -> Result<(), Failure> {
    if workers.iter().flatten().any(|workers| *workers != 1) {
        let why = "a graph has one worker, in which requests run side by side: the options of its \
                   nodes say how many";
        return Err(Failure::new(Cause::Unsupported, why));
    }
    Ok(())
}

/// Says how many workers a graph has.
pub(crate) fn scale(who: &RequestContext, name: &str, version: &str) -> Result<Value, Failure> {
    let graph = kserve::find(who, name, version)?;
    let name = graph.name();
    Ok(json!({ "status": format!("`{name}` has one worker, in which requests run side by side") }))
}

/// Says that a version is the one that answers; refuses to make it so.
pub(crate) fn set_default(
    who: &RequestContext,
    name: &str,
    version: &str,
) -> Result<Value, Failure> {
    let (graph, usual) = (kserve::find(who, name, version)?, who.find(name)?.servable);
    let Label { name, version } = Label::from(&*graph);
    if graph.name() == usual.name() {
        let status = format!("the version {version} of `{name}` is the default");
        return Ok(json!({ "status": status }));
    }
    let why = "the newest version is the default, unless the configuration divides requests \
               (`canary`) or chooses versions (`model_version_policy`)";
    Err(Failure::new(Cause::Unsupported, why))
}

/// Adds a folder to the configuration, and serves it.
pub(crate) async fn register(
    app: &App,
    who: &RequestContext,
    url: &str,
    name: &str,
) -> Result<Value, Failure> {
    let (root, file) = editable(app, "registered by adding them to")?;
    let path = url.strip_prefix("file://").unwrap_or(url);
    let (root, folder) = (root.canonicalize(), root.join(path).canonicalize());
    let (Ok(root), Ok(folder)) = (root, folder) else {
        return Err(wrong(
            "url",
            "there is no such folder where graphs are registered from",
        ));
    };
    if folder == root || !folder.starts_with(&root) {
        let why = "graphs are registered from folders in --allow_registration";
        return Err(wrong("url", why));
    }
    let of_folder = folder.file_name().unwrap_or_default().to_string_lossy();
    let name = if name.is_empty() { &of_folder } else { name }.to_owned();
    if let Some(why) = config::wrong_name(&name) {
        return Err(wrong("model_name", why));
    }
    let status = format!("`{name}` is registered, with one worker");
    change(app, who, file, move |file| edit::add(file, &name, &folder)).await?;
    Ok(json!({ "status": status }))
}

/// Takes a graph out of the configuration.
pub(crate) async fn unregister(
    app: &App,
    who: &RequestContext,
    name: &str,
    version: &str,
) -> Result<Value, Failure> {
    let (_, file) = editable(app, "unregistered by taking them out of")?;
    let graph = kserve::find(who, name, version)?;
    if graph.version().is_some() && !version.is_empty() {
        let why = "versions are chosen by `model_version_policy` of the configuration";
        return Err(Failure::new(Cause::Unsupported, why));
    }
    let name = graph.graph().to_owned();
    let status = format!("`{name}` is unregistered");
    change(app, who, file, move |file| edit::remove(file, &name)).await?;
    Ok(json!({ "status": status }))
}

/// The folder that graphs are registered from, and the configuration. Refuses where there is none.
fn editable<'a>(app: &'a App, what: &str) -> Result<(&'a Path, &'a Path), Failure> {
    let Options {
        registration,
        config_path,
        ..
    } = &app.options;
    if let (Some(root), Some(file)) = (registration, config_path) {
        return Ok((root, file));
    }
    let why = format!("graphs are {what} the config.json (--allow_registration)");
    Err(Failure::new(Cause::Unsupported, why))
}

/// Changes the configuration, and serves what it then says; leaves it as it was if that fails.
async fn change(
    app: &App,
    who: &RequestContext,
    file: &Path,
    change: impl FnOnce(&Path) -> Result<(), String> + Send + 'static,
) -> Result<(), Failure> {
    // One after the other: each reads what the one before has written.
    let changing = Arc::clone(&app.changing).lock_owned().await;
    let (served, actor, file) = (Arc::clone(&app.runner.served), who.key(), file.to_owned());
    let changed = spawn_blocking(move || {
        // Also where the client has left meanwhile.
        let _changing = changing;
        let before = read_text(&file).map_err(|error| error.to_string())?;
        change(&file)?;
        if let Err(refused) = served.reload_for(actor.as_deref(), Some("models API")) {
            let restored = replace(&file, before.as_bytes(), 0o666);
            restored.map_err(|error| format!("cannot restore the configuration: {error}"))?;
            return Err(refused.reason);
        }
        Ok(())
    });
    let changed = changed
        .await
        .unwrap_or_else(|_| Err("it failed".to_owned()));
    changed.map_err(|why| {
        Failure::new(
            Cause::BadRequest,
            format!("the configuration is not changed: {why}"),
        )
    })
}
