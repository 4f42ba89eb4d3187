//! `ModelStreamInfer`: one run of a graph for as long as the stream is open. Each message brings
//! packets of some inputs; each packet of an output is a message of the answer. What is wrong with
//! one message is told, and the stream goes on.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use axum::{
    extract::{Request, State},
    response::Response,
};
use bytes::Bytes;
use futures_util::{
    FutureExt as _, StreamExt as _,
    stream::{self, BoxStream},
};
use graphmill_engine::{Packet, Timestamp};
use hyper::body::Frame;

use super::{
    convert,
    message::{self, Messages},
    proto::{
        InferParameter, ModelInferRequest, ModelInferResponse, ModelStreamInferResponse,
        infer_parameter::ParameterChoice,
    },
    sequence_stream, status,
};
use crate::{
    app::state::App,
    bodies::{Share, UntilRead},
    errors::{Cause, Failure},
    keys::Settlement,
    kserve::{self, Label, SequenceControl, Settings},
    listen::Exchange,
    run::{Driver, Entry, Feeder, Inference, RequestContext},
};

/// Says the timestamp of a packet that a graph gives.
const TIMESTAMP: &str = "OVMS_MP_TIMESTAMP";

/// Says that a request has all of its answers.
const FINAL: &str = "triton_final_response";

pub(super) async fn model_stream_infer(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    if let Some(exchange) = parts.extensions.get::<Arc<Exchange>>() {
        exchange.is_open_ended();
    }
    let who = RequestContext::read(&app.runner, &parts.extensions, &parts.headers)?;
    let mut messages = Messages::new(&parts.headers, body, app.bodies.share(&parts.extensions))?;
    let first = who
        .guard(None)
        .wait(messages.next::<ModelInferRequest>())
        .await?;
    let (mut first, share) = first.ok_or_else(|| {
        let why = "the stream ended before its first message, which names the graph";
        Failure::new(Cause::BadRequest, why)
    })?;
    if SequenceControl::read(&convert::parameters(first.parameters.clone())?)?.is_some() {
        let first = (first, share);
        return Ok(sequence_stream::answer(
            &app.sequences,
            who,
            first,
            messages,
        ));
    }
    let ready = kserve::available(&who, &first.model_name, &first.model_version).await?;
    let label = Label::of(&ready.servable);
    let parameters = convert::parameters(std::mem::take(&mut first.parameters))?;
    let settings = Settings::read(parameters, ready.plan())?;
    let begun = Begun {
        time: settings.time,
        says_final: settings.says_final,
    };
    let inference = kserve::open(&who, ready, &settings, Driver::Task)?;
    let unanswered = Arc::<Mutex<Unanswered>>::default();
    let feeding = Feeding {
        unanswered: Arc::clone(&unanswered),
        feeder: inference.feeder(),
        inference: Arc::clone(inference.plan()),
        messages,
        graph: Label {
            name: first.model_name.clone(),
            version: label.version.clone(),
        },
        next: Some((first, share, Some(begun))),
    };
    let running = Run {
        graph: label,
        idle: Arc::new(inference.feeder()),
        inference,
        said: stream::unfold(feeding, Feeding::next).boxed(),
        fed: true,
        ending: None,
        unanswered,
        entry: who.entry.clone(),
        _settlement: who.settlement(),
    };
    Ok(message::response(stream::unfold(
        Some(running),
        |running| async move { Some(running?.next().await) },
    )))
}

/// What the parameters of a message say of its packets.
struct Begun {
    time: Option<Timestamp>,
    says_final: bool,
}

/// What the side that reads has to say.
enum Said {
    /// What is wrong with a message; its id.
    Wrong(Failure, String),
    /// A request was fed that wants to know when it has all of its answers; its id.
    Fed(String),
    /// The stream cannot be read any more.
    Broken(Failure),
}

/// The messages that the graph may still be at work for.
#[derive(Default)]
struct Unanswered {
    count: u64,
    /// The id of the last one.
    id: String,
}

impl Unanswered {
    /// The id of the only one; empty if there are several, of which any may be meant.
    fn id(&self) -> String {
        if self.count == 1 {
            self.id.clone()
        } else {
            String::new()
        }
    }
}

/// Reads messages and feeds the session.
struct Feeding {
    feeder: Feeder,
    inference: Arc<graphmill_engine::Plan>,
    messages: Messages,
    graph: Label,
    unanswered: Arc<Mutex<Unanswered>>,
    /// The first message, whose parameters have been read.
    next: Option<(ModelInferRequest, Arc<Share>, Option<Begun>)>,
}

impl Feeding {
    /// Feeds until there is something to say; none when the client has sent all.
    async fn next(mut self) -> Option<(Said, Self)> {
        loop {
            let (mut message, share, begun) = match self.next.take() {
                Some(first) => first,
                None => match self.messages.next().await {
                    Ok(Some((message, share))) => (message, share, None),
                    Ok(None) => {
                        self.feeder.close();
                        return None;
                    }
                    Err(failure) => return Some((Said::Broken(failure), self)),
                },
            };
            let id = std::mem::take(&mut message.id);
            let (packets, time, says_final) = match self.read(message, begun) {
                Ok(read) => read,
                Err(failure) => return Some((Said::Wrong(failure, id), self)),
            };
            {
                let mut unanswered = lock(&self.unanswered);
                unanswered.count += 1;
                unanswered.id.clone_from(&id);
            }
            let inputs: Vec<String> = packets.iter().map(|(name, _)| name.clone()).collect();
            let until_read = Arc::new(UntilRead(share));
            // Fail when the session has ended, which is told where its outputs end.
            self.feeder.push(packets, time).await.ok()?;
            let kept = self.feeder.keep_until_taken(&inputs, time, &until_read);
            kept.ok()?;
            if says_final {
                return Some((Said::Fed(id), self));
            }
        }
    }

    /// The packets of a message, and their timestamp.
    fn read(&self, message: ModelInferRequest, begun: Option<Begun>) -> Result<Fed, Failure> {
        let Label { name, version } = &self.graph;
        if message.model_name != *name {
            let why = format!("the stream is one of the graph `{name}`");
            return Err(kserve::wrong("model_name".to_owned(), why));
        }
        if !["", "0", version].contains(&message.model_version.as_str()) {
            let why = format!("the stream is one of the version {version}");
            return Err(kserve::wrong("model_version".to_owned(), why));
        }
        self.check_outputs(&convert::wanted(message.outputs)?)?;
        let begun = if let Some(begun) = begun {
            begun
        } else {
            let parameters = convert::parameters(message.parameters)?;
            if SequenceControl::read(&parameters)?.is_some() {
                let field = "parameters.sequence_id".to_owned();
                let why = "the stream is one run of a graph, as its first message had no sequence";
                return Err(kserve::wrong(field, why));
            }
            let settings = Settings::of_next(&parameters)?;
            Begun {
                time: settings.time,
                says_final: settings.says_final,
            }
        };
        let tensors = convert::tensors(message.inputs, message.raw_input_contents)?;
        let packets = kserve::packets(&self.inference, tensors, false)?;
        let time = match begun.time {
            Some(time) => time,
            None => self.feeder.next_time(microseconds()),
        };
        self.feeder.check(&packets, time)?;
        Ok((packets, time, begun.says_final))
    }

    /// Clients may name the outputs, as Triton's do: all of them.
    fn check_outputs(&self, asked: &[String]) -> Result<(), Failure> {
        let outputs = || self.inference.graph_outputs();
        let is_asked = |output: &str| asked.iter().any(|it| it == output);
        if asked.is_empty() || (outputs().count() == asked.len() && outputs().all(is_asked)) {
            return Ok(());
        }
        let why = "a stream has the packets of all outputs: name all or none";
        Err(kserve::wrong("outputs".to_owned(), why))
    }
}

/// Packets by input, their timestamp, and whether the client wants to know when all is answered.
type Fed = (Vec<(String, Packet)>, Timestamp, bool);

/// Microseconds since 1970.
fn microseconds() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_micros() as i64)
}

/// A run whose packets are written as they come.
struct Run {
    graph: Label,
    inference: Inference,
    idle: Arc<Feeder>,
    said: BoxStream<'static, Said>,
    /// Whether there may be more to read.
    fed: bool,
    /// The request that is told when it has all of its answers, and whether a packet came since it
    /// was last looked.
    ending: Option<(String, bool)>,
    unanswered: Arc<Mutex<Unanswered>>,
    entry: Entry,
    _settlement: Option<Settlement>,
}

/// What one step of an answer makes, and what goes on with it.
type Written = (message::Part, Option<Run>);

impl Run {
    /// Writes the next message, or the end.
    async fn next(mut self) -> Written {
        loop {
            if let Some((id, came)) = self.ending.take() {
                match self.inference.next().now_or_never() {
                    // The session has ended: so have the answers.
                    Some(Ok(None)) => return self.has_all(id),
                    Some(given) => {
                        self.ending = Some((id, true));
                        return self.given(given);
                    }
                    None if came => {
                        let idle = Arc::clone(&self.idle);
                        tokio::select! {
                            biased;
                            given = self.inference.next() => {
                                if matches!(given, Ok(None)) {
                                    return self.has_all(id);
                                }
                                self.ending = Some((id, true));
                                return self.given(given);
                            }
                            () = idle.idle() => self.ending = Some((id, false)),
                        }
                        continue;
                    }
                    None => return self.has_all(id),
                }
            }
            tokio::select! {
                biased;
                given = self.inference.next() => return self.given(given),
                said = self.said.next(), if self.fed => match said {
                    None => self.fed = false,
                    Some(Said::Broken(failure)) => return self.end(Some(&failure)),
                    Some(Said::Fed(id)) => self.ending = Some((id, true)),
                    Some(Said::Wrong(failure, id)) => {
                        let frame = wrong(failure, &self.graph, id);
                        return (Ok(frame), Some(self));
                    }
                },
            }
        }
    }

    fn given(self, given: Result<Option<(usize, Packet)>, Failure>) -> Written {
        let given = match given {
            Ok(Some(given)) => given,
            Ok(None) => return self.end(None),
            Err(failure) => return self.end(Some(&failure)),
        };
        let time = given.1.time;
        let tensor = match self.inference.tensor(given) {
            Ok(tensor) => tensor,
            Err(failure) => return self.end(Some(&failure)),
        };
        let id = lock(&self.unanswered).id();
        let mut answer = convert::answer(&self.graph, id, vec![tensor]);
        let time = ParameterChoice::Int64Param(time.value());
        set(&mut answer, TIMESTAMP, time);
        self.write(answer)
    }

    /// Says that the request of this id has all of its answers.
    fn has_all(self, id: String) -> Written {
        lock(&self.unanswered).count = 0;
        let mut answer = convert::answer(&self.graph, id, Vec::new());
        is_final(&mut answer);
        self.write(answer)
    }

    fn write(self, answer: ModelInferResponse) -> Written {
        self.entry.answers();
        (Ok(given(answer)), Some(self))
    }

    fn end(self, failure: Option<&Failure>) -> Written {
        if let Some(failure) = failure {
            self.entry.failed(failure);
        }
        (Ok(Frame::trailers(status::trailers(failure))), None)
    }
}

fn lock(unanswered: &Mutex<Unanswered>) -> MutexGuard<'_, Unanswered> {
    // Nothing under the lock panics.
    unanswered.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A message with an answer.
pub(super) fn given(answer: ModelInferResponse) -> Frame<Bytes> {
    Frame::data(message::encode(&ModelStreamInferResponse {
        error_message: String::new(),
        infer_response: Some(answer),
    }))
}

/// A message that tells what is wrong with one of this id.
pub(super) fn wrong(failure: Failure, graph: &Label, id: String) -> Frame<Bytes> {
    Frame::data(message::encode(&ModelStreamInferResponse {
        error_message: failure.message,
        infer_response: Some(ModelInferResponse {
            model_name: graph.name.clone(),
            model_version: graph.version.clone(),
            id,
            ..ModelInferResponse::default()
        }),
    }))
}

/// Says in an answer that its request has all of them.
pub(super) fn is_final(answer: &mut ModelInferResponse) {
    set(answer, FINAL, ParameterChoice::BoolParam(true));
}

fn set(answer: &mut ModelInferResponse, name: &str, choice: ParameterChoice) {
    let parameter = InferParameter {
        parameter_choice: Some(choice),
    };
    let parameters: &mut HashMap<_, _> = &mut answer.parameters;
    parameters.insert(name.to_owned(), parameter);
}
