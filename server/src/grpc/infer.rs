//! `ModelInfer`: one run of a graph, or the next part of a sequence.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};

use super::{convert, message, methods::read_share, proto::ModelInferRequest};
use crate::{
    app::state::App,
    errors::Failure,
    kserve::{self, RunRequest, Sequences},
    run::RequestContext,
};

pub(super) async fn model_infer(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, Failure> {
    let (who, asked, share): (_, ModelInferRequest, _) = read_share(&app, request).await?;
    let answer = answer(&app.sequences, &who, asked).await?;
    share.is_read();
    Ok(message::tensors(answer))
}

/// The answer to one request.
pub(super) async fn answer(
    sequences: &Arc<Sequences>,
    who: &RequestContext,
    asked: ModelInferRequest,
) -> Result<super::proto::ModelInferResponse, Failure> {
    let request = RunRequest {
        graph: asked.model_name,
        version: asked.model_version,
        parameters: convert::parameters(asked.parameters)?,
        inputs: convert::tensors(asked.inputs, asked.raw_input_contents)?,
        outputs: convert::wanted(asked.outputs)?,
    };
    let outcome = kserve::run(sequences, who, request).await?;
    Ok(convert::answer(&outcome.label, asked.id, outcome.tensors))
}
