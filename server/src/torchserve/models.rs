//! TorchServe's management API: lists, descriptions and changes of graphs.

use std::{path::Path, sync::Arc};

use graphmill_calculators::tensor::batch::{Batcher, MAX_INSTANCES};
use graphmill_engine::read_text;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use crate::{
    app::state::{App, Options},
    config::{self, edit},
    errors::{Cause, Failure, Result},
    kserve::{self, Label, wrong},
    replace::replace,
    run::RequestContext,
    servable::Servable,
};

/// Maximum number of graphs in a page of the list, unless the request sets another.
pub(crate) const PAGE: usize = 100;

/// Version that means all versions.
const ALL: &str = "all";

/// Splits the rest of a path into the name of a graph, which can contain slashes, and its version,
/// which is empty if the path has none.
pub(crate) fn named<'a>(who: &RequestContext, path: &'a str) -> (&'a str, &'a str) {
    if who.find(path).is_ok() {
        return (path, "");
    }
    match path.rsplit_once('/') {
        Some((name, version))
            if version == ALL || version.starts_with(|c: char| c.is_ascii_digit()) =>
        {
            (name, number(version))
        }
        _ => (path, ""),
    }
}

/// Returns a version without the `.0` that TorchServe appends.
pub(crate) fn number(version: &str) -> &str {
    version.strip_suffix(".0").unwrap_or(version)
}

/// Lists the names of at most `limit` graphs, beginning with number `first`.
pub(crate) fn list(who: &RequestContext, first: usize, limit: usize) -> Result<Value> {
    if limit == 0 {
        return Err(wrong("limit", "it is at least 1"));
    }
    let servables = who.servables();
    let names = servables.iter().map(Servable::graph);
    let mut names: Vec<&str> = names.filter(|name| who.sees(name, None)).collect();
    names.dedup();
    let shown = names.iter().skip(first).take(limit);
    let models = shown.map(|name| json!({ "modelName": name, "modelUrl": name }));
    let mut answer = json!({ "models": models.collect::<Value>() });
    let next = first.saturating_add(limit);
    if next < names.len() {
        answer["nextPageToken"] = json!(next.to_string());
    }
    Ok(answer)
}

/// Describes all versions of a graph.
fn describe_all(who: &RequestContext, name: &str) -> Result<Value> {
    let graph = who.find(name)?.servable.graph().to_owned();
    let servables = who.servables();
    let all = servables.iter().filter(|it| it.graph() == graph);
    let versions = all.map(|it| it.version().map_or(String::new(), |it| it.to_string()));
    let mut described = Vec::new();
    for version in versions {
        if let Value::Array(one) = describe(who, &graph, &version)? {
            described.extend(one);
        }
    }
    Ok(described.into())
}

/// Describes versions of a graph: the named one, all, or the one that answers requests without a
/// version.
pub(crate) fn describe(who: &RequestContext, name: &str, version: &str) -> Result<Value> {
    if version == ALL {
        return describe_all(who, name);
    }
    let graph = kserve::find(who, name, version)?;
    let Label { name, version } = Label::from(&*graph);
    let batchers = batchers(&graph);
    let workers = batchers.iter().map(|it| it.instances()).min().unwrap_or(1);
    let (rows, delay) = batchers.first().map_or((1, 0), |batcher| {
        let batching = &batcher.info().batching;
        let delay = batching.max_queue_delay_microseconds;
        (batching.max_batch_size, delay.div_ceil(1_000))
    });
    let status = kserve::state(&graph);
    let all = (0..workers).map(|id| json!({ "id": id.to_string(), "status": status }));
    Ok(json!([{
        "modelName": name,
        "modelVersion": version,
        "modelUrl": name,
        "runtime": kserve::PLATFORM,
        "minWorkers": workers,
        "maxWorkers": workers,
        "batchSize": rows,
        "maxBatchDelay": delay,
        "loadedAtStartup": !graph.loads_on_demand(),
        "workers": all.collect::<Value>(),
    }]))
}

/// Returns the batchers of a graph. Their threads correspond to TorchServe's workers.
fn batchers(graph: &Servable) -> Vec<Arc<Batcher>> {
    let plan = graph.plan();
    plan.map_or(Vec::new(), |plan| plan.resources::<Batcher>())
}

/// Refuses a number of workers other than one for a new graph.
pub(crate) fn check_workers(workers: Option<i64>) -> Result<()> {
    match workers {
        None | Some(1) => Ok(()),
        Some(_) => Err(no_workers()),
    }
}

fn no_workers() -> Failure {
    let why = "only graphs that batch tensors have threads of their own to scale: requests of all \
               others run side by side, as the options of their nodes say";
    Failure::new(Cause::Unsupported, why)
}

/// Sets the number of threads of a graph that batches tensors. A number between `least` and `most`
/// is not changed. The status in the answer contains the new number.
pub(crate) fn scale(
    who: &RequestContext,
    (name, version): (&str, &str),
    least: Option<i64>,
    most: Option<i64>,
) -> Result<Value> {
    let graph = kserve::find(who, name, version)?;
    let least = least.unwrap_or(1);
    let most = most.unwrap_or(least);
    for (field, number) in [("min_worker", least), ("max_worker", most)] {
        if !(1..=i64::from(MAX_INSTANCES)).contains(&number) {
            let why = format!("it is a number from 1 to {MAX_INSTANCES}");
            return Err(wrong(field, why));
        }
    }
    if most < least {
        return Err(wrong("max_worker", "it is at least `min_worker`"));
    }
    let name = graph.name();
    let batchers = batchers(&graph);
    if batchers.is_empty() {
        if least > 1 {
            return Err(no_workers());
        }
        let status = format!("`{name}` has one worker, in which requests run side by side");
        return Ok(json!({ "status": status }));
    }
    let mut told = Vec::new();
    for batcher in &batchers {
        let now = i64::from(batcher.instances());
        let wanted = u32::try_from(now.clamp(least, most)).unwrap_or(MAX_INSTANCES);
        batcher.scale(wanted)?;
        told.push(format!("{wanted} threads for `{}`", batcher.info().model));
    }
    let told = told.join(", ");
    who.audit("scale", name, "done", Some(&told));
    Ok(json!({ "status": format!("`{name}` has {told}") }))
}

/// Makes a version the default, which answers requests without a version.
pub(crate) fn set_default(who: &RequestContext, name: &str, version: &str) -> Result<Value> {
    let graph = kserve::find(who, name, version)?;
    if let Some(version) = graph.version() {
        who.servables().set_default(graph.graph(), version)?;
        who.audit("set default", graph.name(), "done", None);
    }
    let Label { name, version } = Label::from(&*graph);
    let status = format!("the version {version} of `{name}` is the default");
    Ok(json!({ "status": status }))
}

/// Adds a folder to the configuration, and serves it.
pub(crate) async fn register(
    app: &App,
    who: &RequestContext,
    url: &str,
    name: &str,
) -> Result<Value> {
    let (root, file) = editable(app, "registered by adding them to")?;
    let path = url.strip_prefix("file://").unwrap_or(url);
    if Path::new(path).extension().is_some_and(|end| end == "mar") {
        let why = "archives of TorchServe are code in Python: it names a folder with a graph.pbtxt \
                   in that of --allow_registration";
        return Err(wrong("url", why));
    }
    let (root, folder) = (root.canonicalize(), root.join(path).canonicalize());
    let (Ok(root), Ok(folder)) = (root, folder) else {
        let why = "there is no such folder where graphs are registered from";
        return Err(wrong("url", why));
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
) -> Result<Value> {
    let (_, file) = editable(app, "unregistered by taking them out of")?;
    let graph = kserve::find(who, name, version)?;
    let name = graph.graph().to_owned();
    if let Some(own) = graph.version().filter(|_| !version.is_empty()) {
        if who.find(&name)?.servable.name() == graph.name() {
            let why = format!("the default version of `{name}` cannot be unregistered");
            return Err(Failure::new(Cause::Forbidden, why));
        }
        let servables = who.servables();
        let others = servables.iter().filter(|it| it.graph() == name);
        let others = others.filter_map(Servable::version).filter(|it| *it != own);
        let others: Vec<u64> = others.collect();
        let status = format!("the version {own} of `{name}` is unregistered");
        let edit = move |file: &Path| edit::serve_versions(file, &name, &others);
        change(app, who, file, edit).await?;
        return Ok(json!({ "status": status }));
    }
    let status = format!("`{name}` is unregistered");
    change(app, who, file, move |file| edit::remove(file, &name)).await?;
    Ok(json!({ "status": status }))
}

/// Returns the folder that graphs are registered from, and the configuration file. `what` is the
/// change, for the error if one of them is not set.
fn editable<'a>(app: &'a App, what: &str) -> Result<(&'a Path, &'a Path)> {
    let Options {
        registration,
        config_path,
        ..
    } = &app.options;
    if let (Some(root), Some(file)) = (registration, config_path) {
        return Ok((root, file));
    }
    let lacking = match registration {
        None => "which --allow_registration allows",
        Some(_) => "and this server has none: --config_path names one",
    };
    let why = format!("graphs are {what} the config.json, {lacking}");
    Err(Failure::new(Cause::Unsupported, why))
}

/// Changes the configuration file, and serves the new configuration. Restores the file if that
/// fails.
async fn change(
    app: &App,
    who: &RequestContext,
    file: &Path,
    change: impl FnOnce(&Path) -> Result<(), String> + Send + 'static,
) -> Result<()> {
    // Changes are made one after the other, because each reads the result of the one before.
    let changing = Arc::clone(&app.changing).lock_owned().await;
    let (served, actor, file) = (Arc::clone(&app.runner.served), who.key(), file.to_owned());
    let work = spawn_blocking(move || {
        // Held until the end of the change, even if the client leaves.
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
    let changed = work.await.unwrap_or_else(|_| Err("it failed".to_owned()));
    changed.map_err(|why| {
        let why = format!("the configuration is not changed: {why}");
        Failure::new(Cause::BadRequest, why)
    })
}
