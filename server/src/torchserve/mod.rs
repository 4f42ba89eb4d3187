//! TorchServe's API, whatever carries it: requests for predictions are named parts, which REST reads
//! out of bodies and gRPC out of messages. A graph of tensors takes them as its inputs and its side
//! packets, a graph for HTTP as the prompt and the parameters of a completion.

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

/// Tells in TorchServe's words how the server is, and the reason where it is not ready.
pub(crate) fn health(app: &App) -> (&'static str, Option<String>) {
    match app.unready() {
        None => ("Healthy", None),
        reason => ("Unhealthy", reason),
    }
}
