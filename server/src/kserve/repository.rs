//! The graphs of the configuration, as a Triton model repository.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use graphmill_engine::shortened;
use tokio::task::spawn_blocking;

use super::{
    Label, ParameterMap, SHOWN_BYTES,
    parameters::field,
    proto::{
        InferParameter, ModelRepositoryParameter, infer_parameter::ParameterChoice,
        model_repository_parameter, repository_index_response::ModelIndex,
    },
    unsupported, wrong,
};
use crate::{
    errors::{Cause, Failure, Result},
    run::RequestContext,
    servable::{Servable, Servables, StateName},
    telemetry::log,
};

/// Maximum time that a request waits for the graph that it loads.
const LOAD_AT_MOST: Duration = Duration::from_hours(1);

/// State reason of a graph that no request has loaded yet.
const ON_DEMAND: &str = "loaded by its first request";

/// Returns the state of a graph in the terms of Triton and TorchServe.
pub(crate) fn state(servable: &Servable) -> &'static str {
    match servable.state_name() {
        StateName::Available => "READY",
        StateName::Listed if servable.loads_on_demand() => "UNAVAILABLE",
        StateName::Listed | StateName::Loading | StateName::Waiting => "LOADING",
        StateName::Unloading => "UNLOADING",
        StateName::Failed | StateName::Unloaded => "UNAVAILABLE",
    }
}

/// Lists all graphs; with `ready`, only the ready ones.
pub(crate) fn index(servables: &Servables, ready: bool) -> Vec<ModelIndex> {
    let listed = servables.iter().map(|servable| {
        let Label { name, version } = servable.into();
        let state = state(servable);
        let reason = servable.failure().map(|why| why.to_string());
        let untried = || (state == "UNAVAILABLE").then(|| ON_DEMAND.to_owned());
        ModelIndex {
            name,
            version,
            state: state.to_owned(),
            reason: reason.or_else(untried).unwrap_or_default(),
        }
    });
    listed.filter(|it| !ready || it.state == "READY").collect()
}

/// Converts the parameters of a gRPC request to those of REST.
pub(crate) fn parameters_of(given: BTreeMap<String, ModelRepositoryParameter>) -> ParameterMap {
    use model_repository_parameter::ParameterChoice as Given;

    let read = |value| match value {
        Given::BoolParam(value) => ParameterChoice::BoolParam(value),
        Given::Int64Param(value) => ParameterChoice::Int64Param(value),
        Given::StringParam(value) => ParameterChoice::StringParam(value),
        Given::BytesParam(value) => {
            ParameterChoice::StringParam(String::from_utf8_lossy(&value).into_owned())
        }
    };
    let read = |(name, value): (String, ModelRepositoryParameter)| {
        let parameter_choice = value.parameter_choice.map(read);
        (name, InferParameter { parameter_choice })
    };
    given.into_iter().map(read).collect()
}

/// Loads a graph from its current files, and answers when it is served. A model of a repository can
/// get a configuration from the request. Otherwise the whole configuration is read again.
pub(crate) async fn load(who: &RequestContext, name: &str, parameters: ParameterMap) -> Result<()> {
    let loaded = load_as(who, name, parameters).await;
    audit(who, "load", name, loaded.as_ref().err());
    loaded
}

async fn load_as(who: &RequestContext, name: &str, parameters: ParameterMap) -> Result<()> {
    let config = read_config(parameters)?;
    let served = Arc::clone(&who.runner.served);
    if config.is_some() && !served.reads_models() {
        let why = "only models of a --model_repository_path can be loaded with a configuration";
        return Err(unsupported("parameters.config", why));
    }
    let what = if served.reads_models() {
        "model was not loaded"
    } else {
        "configuration was not reloaded"
    };
    let (actor, named) = (who.key(), name.to_owned());
    let reloading =
        spawn_blocking(move || served.reload_model(actor.as_deref(), &named, config.as_deref()));
    if let Err(refused) = reloading.await.map_err(|_| Failure::stopping())? {
        let why = format!("the {what}: {}", refused.reason);
        return Err(Failure::new(Cause::BadRequest, why));
    }
    for graph in versions(who, name)? {
        graph.let_in();
        let (find, served) = (|| who.find(graph.name()), &who.runner.served);
        let available = served.available(find, LOAD_AT_MOST, who.deadline(None));
        who.guard(None).wait(available).await?;
    }
    Ok(())
}

/// Unloads a graph with all its versions, once its requests have ended. Requests do not load it
/// again.
pub(crate) async fn unload(
    who: &RequestContext,
    name: &str,
    parameters: &ParameterMap,
) -> Result<()> {
    check_unload(parameters)?;
    let graphs = versions(who, name)?;
    let unloading = spawn_blocking(move || graphs.iter().try_for_each(|it| it.put_to_sleep(true)));
    let unloaded = unloading.await.map_err(|_| Failure::stopping())?;
    audit(who, "unload", name, unloaded.as_ref().err());
    unloaded
}

/// Returns the graph of this name, or all its versions.
pub(super) fn versions(who: &RequestContext, name: &str) -> Result<Vec<Arc<Servable>>> {
    let found = who.find(name)?.servable;
    let servables = who.servables();
    if found.name() == servables.without_alias(name) {
        return Ok(vec![found]);
    }
    let is_version = |it: &&Arc<Servable>| it.graph() == found.graph();
    Ok(servables.all().filter(is_version).cloned().collect())
}

/// Returns the configuration in a request that loads a model. Refuses other parameters.
fn read_config(parameters: ParameterMap) -> Result<Option<String>> {
    let mut config = None;
    for (name, InferParameter { parameter_choice }) in parameters {
        match (&*name, parameter_choice) {
            ("config", Some(ParameterChoice::StringParam(text))) => config = Some(text),
            ("config", _) => return Err(wrong(field(&name), "expected JSON in a string")),
            _ if name.starts_with("file:") => {
                let why = "put files into the folder of the repository, not into a request";
                return Err(unsupported(field(&name), why));
            }
            _ => {
                let why = "unknown parameter: a load accepts only `config`";
                return Err(wrong(field(&name), why));
            }
        }
    }
    Ok(config)
}

/// Refuses parameters that are not supported for unloading a graph.
fn check_unload(parameters: &ParameterMap) -> Result<()> {
    for (name, value) in parameters {
        match (&**name, &value.parameter_choice) {
            ("unload_dependents", Some(ParameterChoice::BoolParam(false))) => {}
            ("unload_dependents", Some(ParameterChoice::BoolParam(true))) => {
                let why = "the graph of an ensemble contains its models; unload models of other \
                           names by their names";
                return Err(unsupported(field(name), why));
            }
            ("unload_dependents", _) => return Err(wrong(field(name), "expected true or false")),
            _ => return Err(wrong(field(name), "unknown parameter of an unload")),
        }
    }
    Ok(())
}

fn audit(who: &RequestContext, action: &str, name: &str, failure: Option<&Failure>) {
    let outcome = if failure.is_none() { "done" } else { "failed" };
    let reason = failure.map(|failure| failure.message.as_str());
    let name = shortened(name, SHOWN_BYTES);
    who.audit(action, &log::shown(&name), outcome, reason);
}
