//! The graphs of the configuration, as a repository of models.

use std::sync::Arc;

use graphmill_engine::shortened;
use tokio::task::spawn_blocking;

use super::{Label, SHOWN_BYTES, proto::repository_index_response::ModelIndex};
use crate::{
    errors::{Cause, Failure},
    servable::{Choice, Servable, Servables, Served, StateName},
};

/// The state of a graph as Triton and TorchServe name it.
pub(crate) fn state(servable: &Servable) -> &'static str {
    match servable.state_name() {
        StateName::Available => "READY",
        StateName::Listed | StateName::Loading | StateName::Waiting => "LOADING",
        StateName::Unloading => "UNLOADING",
        StateName::Failed | StateName::Unloaded => "UNAVAILABLE",
    }
}

/// Lists all graphs; with `ready`, those that are.
pub(crate) fn index(servables: &Servables, ready: bool) -> Vec<ModelIndex> {
    let listed = servables.iter().map(|servable| {
        let Label { name, version } = servable.into();
        let reason = servable.failure();
        ModelIndex {
            name,
            version,
            state: state(servable).to_owned(),
            reason: reason.map_or(String::new(), |why| why.to_string()),
        }
    });
    listed.filter(|it| !ready || it.state == "READY").collect()
}

/// Reads the configuration again, and answers when the graph is served as the configuration has it.
/// `actor` is the name of the request's key, `parameter` is the name of one that the request has.
pub(crate) async fn load(
    served: &Arc<Served>,
    actor: Option<Arc<str>>,
    name: &str,
    parameter: Option<&String>,
) -> Result<(), Failure> {
    if let Some(parameter) = parameter {
        let why = format!(
            "`parameters.{}`: graphs are loaded as their files have them, without parameters",
            shortened(parameter, SHOWN_BYTES)
        );
        return Err(Failure::new(Cause::Unsupported, why));
    }
    let reloading = Arc::clone(served);
    let Ok(reloaded) = spawn_blocking(move || reloading.reload_for(actor.as_deref(), None)).await
    else {
        return Err(Failure::stopping());
    };
    if let Err(refused) = reloaded {
        let why = format!("the configuration was not reloaded: {}", refused.reason);
        return Err(Failure::new(Cause::BadRequest, why));
    }
    let named = served.now().find(name, &Choice::Newest, |_, _| true)?;
    named.servable.plan().map(drop)
}

/// Refuses to unload a graph by its name.
pub(crate) fn unload() -> Failure {
    let why = "graphs are unloaded by taking them out of the configuration: it says what is served";
    Failure::new(Cause::Unsupported, why)
}
