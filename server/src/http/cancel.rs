//! `DELETE /v3/requests/{id}`: cancels a running request from another connection.

use axum::{
    extract::{Path, State},
    http::StatusCode,
};
use graphmill_engine::shortened;

use super::{
    AppState, SHOWN_BYTES,
    operation::{Answer, Group, Operation},
};
use crate::{
    errors::{Cause, Failure, Result},
    keys::Caller,
    run::RequestContext,
};

#[rustfmt::skip]
pub(super) fn operations() -> Vec<Operation> {
    let paths = ["/v3/requests/{id}", "/v1/requests/{id}"].map(|path| {
        Operation::delete(path, cancel)
            .about(Group::Generation, "Cancels the running request with this `x-request-id`. It must be of the same key, except for `admin` keys")
            .answers(Answer::Nothing)
            .listed(path.starts_with("/v3"))
    });
    paths.into()
}

/// Requests of other keys count as unknown, except for keys with admin scope.
async fn cancel(
    State(app): AppState,
    who: RequestContext,
    Path(id): Path<String>,
) -> Result<StatusCode> {
    let running = &app.runner.running;
    let administers = who.caller.as_deref().is_some_and(Caller::administers);
    let is_cancelled = running.cancel(&id, who.key().as_deref(), administers);
    let id = shortened(&id, SHOWN_BYTES);
    if administers {
        let outcome = if is_cancelled { "done" } else { "failed" };
        let reason = (!is_cancelled).then_some("there is no such request");
        who.audit("cancel", &id, outcome, reason);
    }
    if is_cancelled {
        return Ok(StatusCode::NO_CONTENT);
    }
    let message = format!("no request `{id}` is running");
    Err(Failure::new(Cause::NotFound, message))
}
