//! TorchServe's API, independent of the transport. A request for a prediction consists of named
//! parts, which REST reads from bodies and gRPC from messages. A graph of tensors gets them as
//! inputs and side packets; a graph that takes HTTP requests, as the prompt and the parameters of a
//! completion.

mod completion;
pub(crate) mod models;
mod parts;
mod predict;
pub mod proto;
mod tensors;

pub(crate) use parts::{PartKind, RequestPart, collect, fields};
pub(crate) use predict::{Pieces, Prediction, PredictionBody, PredictionRequest, predict};
pub(crate) use tensors::{json as write_tensor, read as read_tensor};

use crate::app::state::App;

/// Returns the state of the server in TorchServe's terms, and the reason if it is not ready.
pub(crate) fn health(app: &App) -> (&'static str, Option<String>) {
    match app.unready() {
        None => ("Healthy", None),
        reason => ("Unhealthy", reason),
    }
}
