//! Predictions: single runs of graphs of tensors, and completions. A text is returned whole or in
//! pieces, and ends with the token of the options, if there is one.

use std::{sync::Arc, time::Duration};

use axum::http::HeaderMap;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream, stream::BoxStream};
use graphmill_engine::Plan;
use serde_json::{Map, Value};

use super::{
    RequestPart, completion,
    parts::{self, take_input, take_prompt},
    tensors::{self, TEXT, only_element},
};
use crate::{
    app::state::App,
    bodies::Share,
    errors::{Cause, Failure, Result},
    kserve::{
        self, ParameterMap, RunRequest, Settings, WantedOutput,
        proto::{InferParameter, infer_parameter::ParameterChoice},
        wrong,
    },
    run::{Driver, Facts, GraphRun, RequestContext, Tensors},
    servable::{Ready, request_stream},
    tensors::Port,
};

/// A request for a prediction.
pub(crate) struct PredictionRequest {
    pub(crate) name: String,
    /// Version of the graph; empty if the request names none.
    pub(crate) version: String,
    pub(crate) parts: Vec<RequestPart>,
    /// True to return a text in pieces; `None` if the transport does not determine it.
    pub(crate) streams: Option<bool>,
}

/// The answer to a prediction.
pub(crate) struct Prediction {
    pub(crate) media_type: &'static str,
    pub(crate) headers: HeaderMap,
    pub(crate) body: PredictionBody,
}

/// The body of an answer to a prediction.
pub(crate) enum PredictionBody {
    Whole(Bytes),
    /// Pieces of a text, of which the first is available.
    Pieces(Pieces),
}

/// A stream of the pieces of a text.
pub(crate) type Pieces = BoxStream<'static, Result<Bytes>>;

/// The options of a prediction, from all parts except the inputs.
pub(super) struct PredictOptions {
    pub(super) parameters: Map<String, Value>,
    /// Time limit of the answer.
    pub(super) within: Option<Duration>,
    pub(super) streams: bool,
}

impl PredictOptions {
    fn read(parts: &[RequestPart], streams: Option<bool>, usually: bool) -> Result<Self> {
        let mut parameters = parts::parameters(parts)?;
        let asked = parameters.remove("stream").map(|value| {
            let asked = value.as_bool();
            asked.ok_or_else(|| wrong("stream", "it is neither true nor false"))
        });
        let asked = asked.transpose()?;
        let within = parameters.get("timeout").map(|value| {
            let seconds = value.as_f64().filter(|seconds| *seconds > 0.0);
            let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            time.ok_or_else(|| wrong("timeout", "it is a number of seconds above 0"))
        });
        Ok(Self {
            within: within.transpose()?,
            streams: streams.or(asked).unwrap_or(usually),
            parameters,
        })
    }
}

/// Runs a graph with the parts of a request. `share` is the request's share of the budget of
/// bodies.
pub(crate) async fn predict(
    app: &Arc<App>,
    who: &RequestContext,
    request: PredictionRequest,
    share: &Arc<Share>,
) -> Result<Prediction> {
    let PredictionRequest {
        name,
        version,
        mut parts,
        streams,
    } = request;
    let (versioned, _) = kserve::find_version(|name| who.find(name), &name, &version)?;
    let ready = who.available(&versioned, who.deadline(None)).await?;
    let token = &app.options.end_of_stream_token;
    let usually = token.is_some();
    let plan = Arc::clone(&ready.plan);
    let mut prediction = if request_stream(&plan).is_some() {
        let read = move || {
            let prompt = take_prompt(&mut parts)?;
            Ok::<_, Failure>((prompt, PredictOptions::read(&parts, streams, usually)?))
        };
        let (prompt, asked) = share.beside(read, UNREADABLE).await??;
        completion::complete(who, ready, prompt, asked, share).await?
    } else {
        // Refuses a graph that takes something else.
        let ready = kserve::available(who, &name, &version).await?;
        let read = move || {
            let inputs = read_inputs(&plan, &mut parts)?;
            Ok::<_, Failure>((inputs, PredictOptions::read(&parts, streams, usually)?))
        };
        let (inputs, asked) = share.beside(read, UNREADABLE).await??;
        // The output of a graph of tensors that is a text.
        let text = ready.plan.output_with_tag("TEXT").map(str::to_owned);
        let can_stream = ready.plan.side_types(STREAM).is_some();
        match text {
            Some(text) if asked.streams && can_stream => {
                stream_text(who, ready, inputs, &asked, text, share).await?
            }
            text => {
                let text = text.filter(|_| usually || asked.streams);
                let outputs = text.map(|name| WantedOutput { name, classes: 0 });
                let request = RunRequest {
                    graph: name,
                    version,
                    parameters: side_packets(&asked)?,
                    inputs,
                    outputs: outputs.into_iter().collect(),
                };
                let outcome = kserve::run(&app.sequences, who, request).await?;
                share.is_read();
                let (media_type, bytes) = tensors::write(&outcome.tensors)?;
                Prediction {
                    media_type,
                    headers: HeaderMap::new(),
                    body: PredictionBody::Whole(bytes),
                }
            }
        }
    };
    if let Some(token) = token
        && prediction.media_type == TEXT
    {
        prediction.body = ended(prediction.body, token);
    }
    if let Some(most) = app.options.max_response_bytes
        && let PredictionBody::Whole(bytes) = &prediction.body
        && bytes.len() > most
    {
        let why = format!("the answer is longer than {most} bytes (--max_response_bytes)");
        return Err(Failure::new(Cause::NoAnswer, why).with_code("response_too_large"));
    }
    Ok(prediction)
}

const UNREADABLE: &str = "the body could not be read";

/// Side packet that requests the text in pieces.
const STREAM: &str = "stream";

/// Reads the tensors of a graph's inputs.
fn read_inputs(plan: &Plan, parts: &mut Vec<RequestPart>) -> Result<Tensors> {
    let inputs = crate::tensors::inputs(plan);
    let is_only = inputs.len() == 1;
    let read = |input: Port| {
        let part = take_input(parts, &input.name, is_only)?;
        let tensor = tensors::read(&input, &part)?;
        Ok((input.name, tensor))
    };
    inputs.into_iter().map(read).collect()
}

/// Converts the parameters to those of KServe's protocol, which become side packets of the graph.
fn side_packets(asked: &PredictOptions) -> Result<ParameterMap> {
    let mut parameters = ParameterMap::new();
    for (name, value) in &asked.parameters {
        let choice = match value {
            Value::Bool(value) => ParameterChoice::BoolParam(*value),
            Value::String(text) => ParameterChoice::StringParam(text.clone()),
            Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                _ if name == "timeout" => {
                    let micros = asked.within.map(|within| within.as_micros());
                    let micros = micros.and_then(|micros| i64::try_from(micros).ok());
                    ParameterChoice::Int64Param(micros.unwrap_or(i64::MAX))
                }
                (Some(whole), _) => ParameterChoice::Int64Param(whole),
                (None, Some(number)) => ParameterChoice::DoubleParam(number),
                (None, None) => return Err(wrong(name, "it is too large a number")),
            },
            _ => return Err(wrong(name, "it is a number, a text, true or false")),
        };
        let parameter_choice = Some(choice);
        parameters.insert(name.clone(), InferParameter { parameter_choice });
    }
    Ok(parameters)
}

/// Runs a graph of tensors whose text comes in pieces.
async fn stream_text(
    who: &RequestContext,
    ready: Ready,
    inputs: Tensors,
    asked: &PredictOptions,
    text: String,
    share: &Arc<Share>,
) -> Result<Prediction> {
    let mut parameters = side_packets(asked)?;
    let parameter_choice = Some(ParameterChoice::BoolParam(true));
    parameters.insert(STREAM.to_owned(), InferParameter { parameter_choice });
    let settings = Settings::read(&parameters, ready.plan())?;
    who.entry.model(ready.servable.name(), true);
    let settlement = who.settlement();
    let (sides, priority) = (&settings.sides, settings.priority);
    let deadline = who.deadline(settings.timeout);
    let packets = kserve::packets(ready.plan(), inputs, true)?;
    let run = GraphRun::open_tensors(who, ready, sides, priority, deadline, Driver::Task)?;
    let mut feeder = run.feeder();
    feeder.push(packets, feeder.next_time(0), None).await?;
    feeder.close();
    share.is_read();
    let state = (run, settlement);
    let pieces = stream::try_unfold(state, move |(mut run, settlement)| {
        let text = text.clone();
        async move {
            while let Some(output) = run.next().await? {
                let (name, tensor) = run.tensor(output)?;
                if name == text {
                    let piece = only_element(&tensor).map(Bytes::copy_from_slice);
                    return Ok(Some((piece.unwrap_or_default(), (run, settlement))));
                }
            }
            Ok(None)
        }
    });
    let headers = HeaderMap::new();
    begin(pieces.boxed(), headers, who.entry.clone()).await
}

/// Waits for the first piece, so that failures before it have their own status.
pub(super) async fn begin(
    pieces: Pieces,
    headers: HeaderMap,
    entry: Arc<Facts>,
) -> Result<Prediction> {
    let pieces = pieces.inspect(move |piece| match piece {
        Ok(_) => entry.answers(),
        Err(failure) => entry.failed(failure),
    });
    let mut pieces = pieces.boxed();
    // A text may be empty.
    let first = pieces.next().await.transpose()?;
    let pieces = stream::iter(first.map(Ok)).chain(pieces).boxed();
    Ok(Prediction {
        media_type: TEXT,
        headers,
        body: PredictionBody::Pieces(pieces),
    })
}

/// Appends the token that ends texts.
fn ended(body: PredictionBody, token: &str) -> PredictionBody {
    let pieces = match body {
        PredictionBody::Pieces(pieces) => pieces,
        PredictionBody::Whole(bytes) => {
            return PredictionBody::Whole([&bytes, token.as_bytes()].concat().into());
        }
    };
    let state = Some((pieces, Bytes::copy_from_slice(token.as_bytes())));
    // Not behind a failure: a client that waits for the token has no whole answer.
    let pieces = stream::try_unfold(state, async |state| {
        let Some((mut pieces, token)) = state else {
            return Ok(None);
        };
        Ok(Some(match pieces.next().await.transpose()? {
            Some(piece) => (piece, Some((pieces, token))),
            None => (token, None),
        }))
    });
    PredictionBody::Pieces(pieces.boxed())
}
