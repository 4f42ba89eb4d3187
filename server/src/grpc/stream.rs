//! `ModelStreamInfer`: one run of a graph for as long as the stream is open. Each message brings
//! packets of some inputs; each packet of an output is a message of the answer. What is wrong with
//! one message is told, and the stream goes on.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use futures_util::{
    Stream, StreamExt as _, TryStreamExt as _,
    stream::{self, BoxStream},
};
use graphmill_engine::{Packet, Timestamp};
use tonic::Status;

use super::{
    convert,
    message::Call,
    proto::{
        InferParameter, ModelInferRequest, ModelInferResponse, ModelStreamInferResponse,
        infer_parameter::ParameterChoice,
    },
    sequence_stream,
};
use crate::{
    bodies::{Share, UntilRead},
    errors::{Cause, Failure},
    keys::Settlement,
    kserve::{self, Label, SequenceControl, Sequences, Settings},
    run::{Driver, Entry, Feeder, Inference},
};

/// Says the timestamp of a packet that a graph gives.
const TIMESTAMP: &str = "OVMS_MP_TIMESTAMP";

/// Says that a request has all of its answers.
const FINAL: &str = "triton_final_response";

/// Messages of the answer to a stream, with the status that ends it.
pub(super) type Answers = BoxStream<'static, Result<ModelStreamInferResponse, Status>>;

/// Reads the first message of a stream and begins to answer.
pub(super) async fn answer(
    sequences: &Arc<Sequences>,
    call: Arc<Call>,
) -> Result<Answers, Failure> {
    let who = &call.who;
    if let Some(exchange) = &who.entry.0.exchange {
        exchange.is_open_ended();
    }
    let (mut first, share) = call.next().await?.ok_or_else(|| {
        let why = "the stream ended before its first message, which names the graph";
        Failure::new(Cause::BadRequest, why)
    })?;
    if SequenceControl::read(&convert::parameters(first.parameters.clone())?)?.is_some() {
        return Ok(sequence_stream::answer(sequences, call, (first, share)));
    }
    let ready = kserve::available(who, &first.model_name, &first.model_version).await?;
    let label = Label::of(&ready.servable);
    let parameters = convert::parameters(std::mem::take(&mut first.parameters))?;
    let settings = Settings::read(parameters, ready.plan())?;
    let inference = kserve::open(who, ready, &settings, Driver::Task)?;
    let unanswered = Arc::<Mutex<Unanswered>>::default();
    let feeding = Feeding {
        unanswered: Arc::clone(&unanswered),
        feeder: inference.feeder(),
        inference: Arc::clone(inference.plan()),
        call: Arc::clone(&call),
        graph: Label {
            name: first.model_name.clone(),
            version: label.version.clone(),
        },
        next: Some((first, share, Some(settings))),
    };
    let run = Run {
        graph: label,
        idle: inference.feeder(),
        inference,
        said: stream::unfold(feeding, Feeding::next).boxed(),
        fed: true,
        ending: None,
        unanswered,
        entry: who.entry.clone(),
        _settlement: who.settlement(),
    };
    let answers = stream::try_unfold(run, |mut run| async move {
        Ok(run.next().await?.map(|answer| (answer, run)))
    });
    Ok(ended(answers, who.entry.clone()))
}

/// Ends a stream with the status of its failure, which is logged.
pub(super) fn ended(
    answers: impl Stream<Item = Result<ModelStreamInferResponse, Failure>> + Send + 'static,
    entry: Entry,
) -> Answers {
    let told = answers.map_err(move |failure| {
        entry.failed(&failure);
        failure.into()
    });
    told.boxed()
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
    call: Arc<Call>,
    graph: Label,
    unanswered: Arc<Mutex<Unanswered>>,
    /// The first message, whose parameters have been read.
    next: Option<(ModelInferRequest, Arc<Share>, Option<Settings>)>,
}

impl Feeding {
    /// Feeds until there is something to say; none when the client has sent all.
    async fn next(mut self) -> Option<(Said, Self)> {
        loop {
            let (mut message, share, settings) = match self.next.take() {
                Some(first) => first,
                None => match self.call.next().await {
                    Ok(Some((message, share))) => (message, share, None),
                    Ok(None) => {
                        self.feeder.close();
                        return None;
                    }
                    Err(failure) => return Some((Said::Broken(failure), self)),
                },
            };
            let id = std::mem::take(&mut message.id);
            let (packets, time, says_final) = match self.read(message, settings) {
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
    fn read(&self, message: ModelInferRequest, settings: Option<Settings>) -> Result<Fed, Failure> {
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
        let settings = if let Some(settings) = settings {
            settings
        } else {
            let parameters = convert::parameters(message.parameters)?;
            if SequenceControl::read(&parameters)?.is_some() {
                let field = "parameters.sequence_id".to_owned();
                let why = "the stream is one run of a graph, as its first message had no sequence";
                return Err(kserve::wrong(field, why));
            }
            Settings::of_next(&parameters)?
        };
        let tensors = convert::tensors(message.inputs, message.raw_input_contents)?;
        let packets = kserve::packets(&self.inference, tensors, false)?;
        let time = settings.time;
        let time = time.unwrap_or_else(|| self.feeder.next_time(microseconds()));
        self.feeder.check(&packets, time)?;
        Ok((packets, time, settings.says_final))
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
    idle: Feeder,
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

impl Run {
    /// The next message of the answer; `None` at its end.
    async fn next(&mut self) -> Result<Option<ModelStreamInferResponse>, Failure> {
        loop {
            let ending = self.ending.as_ref().map(|(_, came)| *came);
            let settled = async {
                if ending == Some(true) {
                    self.idle.idle().await;
                }
            };
            tokio::select! {
                biased;
                output = self.inference.next() => {
                    let ending = self.ending.take();
                    let Some(output) = output? else {
                        // The session has ended: so have the answers.
                        return Ok(ending.map(|(id, _)| self.has_all(id)));
                    };
                    self.ending = ending.map(|(id, _)| (id, true));
                    return self.given(output).map(Some);
                }
                () = settled, if ending.is_some() => match self.ending.take() {
                    Some((id, false)) => return Ok(Some(self.has_all(id))),
                    ending => self.ending = ending.map(|(id, _)| (id, false)),
                },
                said = self.said.next(), if ending.is_none() && self.fed => match said {
                    None => self.fed = false,
                    Some(Said::Broken(failure)) => return Err(failure),
                    Some(Said::Fed(id)) => self.ending = Some((id, true)),
                    Some(Said::Wrong(failure, id)) => {
                        return Ok(Some(wrong(failure, &self.graph, id)));
                    }
                },
            }
        }
    }

    fn given(&self, output: (usize, Packet)) -> Result<ModelStreamInferResponse, Failure> {
        let time = output.1.time;
        let tensor = self.inference.tensor(output)?;
        let id = lock(&self.unanswered).id();
        let mut answer = convert::answer(&self.graph, id, vec![tensor]);
        set(
            &mut answer,
            TIMESTAMP,
            ParameterChoice::Int64Param(time.value()),
        );
        self.entry.answers();
        Ok(given(answer))
    }

    /// Says that the request of this id has all of its answers.
    fn has_all(&self, id: String) -> ModelStreamInferResponse {
        lock(&self.unanswered).count = 0;
        let mut answer = convert::answer(&self.graph, id, Vec::new());
        is_final(&mut answer);
        self.entry.answers();
        given(answer)
    }
}

fn lock(unanswered: &Mutex<Unanswered>) -> MutexGuard<'_, Unanswered> {
    // Nothing under the lock panics.
    unanswered.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A message with an answer.
pub(super) fn given(answer: ModelInferResponse) -> ModelStreamInferResponse {
    ModelStreamInferResponse {
        error_message: String::new(),
        infer_response: Some(answer),
    }
}

/// A message that tells what is wrong with one of this id.
pub(super) fn wrong(failure: Failure, graph: &Label, id: String) -> ModelStreamInferResponse {
    ModelStreamInferResponse {
        error_message: failure.message,
        infer_response: Some(ModelInferResponse {
            model_name: graph.name.clone(),
            model_version: graph.version.clone(),
            id,
            ..ModelInferResponse::default()
        }),
    }
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
