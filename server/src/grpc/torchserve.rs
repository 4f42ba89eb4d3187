//! TorchServe's services: predictions, and management of models.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream, stream::BoxStream};
use serde_json::Value;
use tonic::{Request, Response, Status, Streaming};

use super::{
    message::Charged,
    service::{Rpc, read},
};
use crate::{
    app::state::App,
    bodies::Share,
    errors::{Cause, Failure},
    kserve::wrong,
    run::RequestContext,
    torchserve::{
        self, PartKind, Prediction, PredictionBody, PredictionRequest, RequestPart, models,
        proto::{
            inference::{
                self, PredictionResponse, PredictionsRequest, TorchServeHealthResponse,
                inference_ap_is_service_server::InferenceApIsService,
            },
            management::{
                DescribeModelRequest, ListModelsRequest, ManagementResponse, RegisterModelRequest,
                ScaleWorkerRequest, SetDefaultRequest, UnregisterModelRequest,
                management_ap_is_service_server::ManagementApIsService,
            },
        },
    },
};

impl Charged for PredictionsRequest {
    fn parts(&mut self) -> impl Iterator<Item = &mut Bytes> {
        self.input.values_mut()
    }
}

/// Handlers of TorchServe's inference service.
pub(super) struct Predictions(pub(super) Arc<App>);

/// Messages of a streamed answer.
type PredictionStream = BoxStream<'static, Result<PredictionResponse, Status>>;

/// Creates a message with a piece of an answer.
fn message(prediction: Bytes) -> PredictionResponse {
    PredictionResponse {
        prediction,
        ..PredictionResponse::default()
    }
}

/// Runs the prediction that a message requests.
async fn predict(
    app: &Arc<App>,
    who: &RequestContext,
    asked: PredictionsRequest,
    share: &Arc<Share>,
    streams: bool,
) -> Result<Prediction, Failure> {
    let parts = asked.input.into_iter().map(|(name, bytes)| RequestPart {
        name,
        kind: PartKind::Other,
        bytes,
    });
    let request = PredictionRequest {
        name: asked.model_name,
        version: models::number(&asked.model_version).to_owned(),
        parts: parts.collect(),
        streams: Some(streams),
    };
    torchserve::predict(app, who, request, share).await
}

/// Returns the pieces of an answer; a single one if it is not streamed.
async fn pieces(
    app: &Arc<App>,
    who: &RequestContext,
    asked: PredictionsRequest,
    share: &Arc<Share>,
) -> Result<torchserve::Pieces, Failure> {
    Ok(match predict(app, who, asked, share, true).await?.body {
        PredictionBody::Whole(bytes) => stream::iter([Ok(bytes)]).boxed(),
        PredictionBody::Pieces(pieces) => pieces,
    })
}

#[tonic::async_trait]
impl InferenceApIsService for Predictions {
    async fn ping(&self, _: Request<()>) -> Rpc<TorchServeHealthResponse> {
        let health = torchserve::health(&self.0).0.to_owned();
        Ok(Response::new(TorchServeHealthResponse { health }))
    }

    async fn predictions(&self, request: Request<PredictionsRequest>) -> Rpc<PredictionResponse> {
        let (call, mut asked) = read(request);
        let share = call.charge(&mut asked);
        let prediction = predict(&self.0, &call.who, asked, &share, false).await?;
        match prediction.body {
            PredictionBody::Whole(bytes) => Ok(Response::new(message(bytes))),
            PredictionBody::Pieces(_) => {
                Err(Failure::new(Cause::NoAnswer, "the answer is streamed").into())
            }
        }
    }

    type StreamPredictionsStream = PredictionStream;

    async fn stream_predictions(
        &self,
        request: Request<PredictionsRequest>,
    ) -> Rpc<PredictionStream> {
        let (call, mut asked) = read(request);
        let share = call.charge(&mut asked);
        let pieces = pieces(&self.0, &call.who, asked, &share).await?;
        let messages = pieces.map_ok(message).map_err(Status::from);
        Ok(Response::new(messages.boxed()))
    }

    type StreamPredictions2Stream = PredictionStream;

    async fn stream_predictions2(
        &self,
        request: Request<Streaming<PredictionsRequest>>,
    ) -> Rpc<PredictionStream> {
        let (call, _) = read(request);
        if let Some(exchange) = &call.who.entry.exchange {
            exchange.remove_body_limit();
        }
        let state = (Arc::clone(&self.0), call);
        let answers = stream::try_unfold(state, async |(app, call)| {
            let next = call.next::<PredictionsRequest>();
            let Some((asked, share)) = call.who.guard(None).wait(next).await? else {
                return Ok::<_, Status>(None);
            };
            let sequence_id = asked.sequence_id.clone();
            let begun = pieces(&app, &call.who, asked, &share).await;
            let pieces = begun.unwrap_or_else(|failure| stream::iter([Err(failure)]).boxed());
            // The error of one request is reported, and the stream continues.
            let messages = pieces.map(move |piece| {
                let told = piece.map(message);
                let mut told = told.unwrap_or_else(failed);
                told.sequence_id.clone_from(&sequence_id);
                Ok(told)
            });
            Ok(Some((messages, (app, call))))
        });
        Ok(Response::new(answers.try_flatten().boxed()))
    }
}

/// Creates a message with a failure of the stream.
fn failed(failure: Failure) -> PredictionResponse {
    let status = Status::from(failure);
    PredictionResponse {
        status: Some(inference::Status {
            code: status.code().into(),
            message: status.message().to_owned(),
        }),
        ..message(Bytes::new())
    }
}

/// Handlers of TorchServe's management service.
pub(super) struct Management(pub(super) Arc<App>);

/// Converts the answer of the REST API.
fn reply(said: Result<Value, Failure>) -> Rpc<ManagementResponse> {
    let msg = said?.to_string();
    Ok(Response::new(ManagementResponse { msg }))
}

/// Reads a number for which 0 means that it is not set.
fn given(number: i32) -> Option<i64> {
    Some(i64::from(number)).filter(|number| *number != 0)
}

/// Reads a number that must not be negative.
fn count(name: &'static str, count: i32) -> Result<usize, Failure> {
    usize::try_from(count).map_err(|_| wrong(name, "it is at least 0"))
}

#[tonic::async_trait]
impl ManagementApIsService for Management {
    async fn describe_model(
        &self,
        request: Request<DescribeModelRequest>,
    ) -> Rpc<ManagementResponse> {
        let (call, asked) = read(request);
        let version = models::number(&asked.model_version);
        reply(models::describe(&call.who, &asked.model_name, version))
    }

    async fn list_models(&self, request: Request<ListModelsRequest>) -> Rpc<ManagementResponse> {
        let (call, asked) = read(request);
        let limit = match count("limit", asked.limit)? {
            0 => models::PAGE,
            limit => limit,
        };
        let first = count("next_page_token", asked.next_page_token)?;
        reply(models::list(&call.who, first, limit))
    }

    async fn register_model(
        &self,
        request: Request<RegisterModelRequest>,
    ) -> Rpc<ManagementResponse> {
        let (call, asked) = read(request);
        let known = RegisterModelRequest {
            url: asked.url.clone(),
            model_name: asked.model_name.clone(),
            initial_workers: asked.initial_workers,
            synchronous: asked.synchronous,
            ..RegisterModelRequest::default()
        };
        if asked != known {
            let why = "only `url`, `model_name` and `initial_workers` can be set: the rest is in the graph";
            return Err(Failure::new(Cause::Unsupported, why).into());
        }
        models::check_workers(given(known.initial_workers))?;
        reply(models::register(&self.0, &call.who, &known.url, &known.model_name).await)
    }

    async fn scale_worker(&self, request: Request<ScaleWorkerRequest>) -> Rpc<ManagementResponse> {
        let (call, asked) = read(request);
        if asked.number_gpu != 0 {
            return Err(wrong("number_gpu", "set devices in the options of nodes").into());
        }
        let version = models::number(&asked.model_version);
        let (least, most) = (given(asked.min_worker), given(asked.max_worker));
        let graph = (asked.model_name.as_str(), version);
        reply(models::scale(&call.who, graph, least, most))
    }

    async fn set_default(&self, request: Request<SetDefaultRequest>) -> Rpc<ManagementResponse> {
        let (call, asked) = read(request);
        let version = models::number(&asked.model_version);
        reply(models::set_default(&call.who, &asked.model_name, version))
    }

    async fn unregister_model(
        &self,
        request: Request<UnregisterModelRequest>,
    ) -> Rpc<ManagementResponse> {
        let (call, asked) = read(request);
        let version = models::number(&asked.model_version);
        reply(models::unregister(&self.0, &call.who, &asked.model_name, version).await)
    }
}
