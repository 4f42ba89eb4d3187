//! `DELETE /v3/requests/{id}`: cancels a running request from another connection.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Path, State},
    http::StatusCode,
};
use graphmill_engine::shortened;

use super::operation::{Answer, Group, Operation};
use crate::app::state::App;
use crate::{
    errors::{Cause, Failure},
    keys::Caller,
    observe::{self, Audit},
};

/// How much of an id an error shows.
const SHOWN_BYTES: usize = 150;

#[rustfmt::skip]
pub(super) fn operations() -> Vec<Operation> {
    let paths = ["/v3/requests/{id}", "/v1/requests/{id}"].map(|path| {
        Operation::delete(path, cancel)
            .about(Group::Generation, "Cancels the request of the same key, or for an `admin` of any, whose answer has this `x-request-id`")
            .answers(Answer::Nothing)
            .listed(path.starts_with("/v3"))
    });
    paths.into()
}

/// Requests of other keys are unknown, except to keys that may manage the server.
async fn cancel(
    State(app): State<Arc<App>>,
    caller: Option<Extension<Arc<Caller>>>,
    Path(id): Path<String>,
) -> Result<StatusCode, Failure> {
    let key = caller.as_ref().map(|caller| &**caller.name());
    let is_cancelled = match &caller {
        Some(caller) if caller.administers() => app.runner.running.cancel_of_any_key(&id),
        _ => app.runner.running.cancel(&id, key),
    };
    let id = shortened(&id, SHOWN_BYTES);
    if let Some(caller) = caller.filter(|caller| caller.administers()) {
        observe::audit(&Audit {
            action: "cancel",
            actor: Some(caller.name()),
            subject: &id,
            outcome: if is_cancelled { "done" } else { "failed" },
            reason: (!is_cancelled).then_some("there is no such request"),
        });
    }
    if is_cancelled {
        return Ok(StatusCode::NO_CONTENT);
    }
    let message = format!("no request `{id}` is being answered");
    Err(Failure::new(Cause::NotFound, message))
}
