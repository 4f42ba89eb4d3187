//! `ModelStreamInfer`: one run of a graph while the stream is open. Each message brings packets of
//! some inputs, and each output packet becomes a message of the answer. An error in one message is
//! reported, and the stream continues. A graph that generates text gets one message at a time, as
//! it answers in order anyway, so that each answer belongs to a known message.
//!
//! If the messages are requests of sequences, each is a request of its own and is answered by one
//! message, in order. The sequences remain when the stream ends.

use std::sync::Arc;

use chrono::Utc;
use futures_util::{
    Stream, StreamExt as _, TryStreamExt as _,
    stream::{self, BoxStream},
};
use graphmill_calculators::llm::LanguageModel;
use graphmill_engine::{Packet, Timestamp};
use parking_lot::Mutex;
use tonic::Status;

use super::{message::GrpcCall, service::infer, tensors};
use crate::{
    bodies::{Share, UntilRead},
    errors::{Cause, Failure},
    keys::Settlement,
    kserve::{
        self, Label, SequenceControl, Sequences, Settings, WantedOutput,
        proto::{
            InferParameter, ModelInferRequest, ModelInferResponse, ModelStreamInferResponse,
            infer_parameter::ParameterChoice,
        },
    },
    run::{Driver, Facts, Feeder, GraphRun, OutputPacket, RequestContext, TIMESTAMP},
};

/// Parameter that is true in the last message for a request.
const FINAL: &str = "triton_final_response";

/// Messages of the answer to a stream, and the status that ends it.
pub(super) type Answers = BoxStream<'static, Result<ModelStreamInferResponse, Status>>;

/// Reads the first message of a stream and starts to answer.
pub(super) async fn answer(
    sequences: &Arc<Sequences>,
    call: Arc<GrpcCall>,
) -> Result<Answers, Failure> {
    let who = &call.who;
    if let Some(exchange) = &who.entry.exchange {
        exchange.remove_body_limit();
    }
    let (first, share) = call.next::<ModelInferRequest>().await?.ok_or_else(|| {
        let why = "the stream ended before its first message, which names the graph";
        Failure::new(Cause::BadRequest, why)
    })?;
    if SequenceControl::read(&first.parameters)?.is_some() {
        return Ok(answer_sequences(sequences, call, (first, share)));
    }
    let ready = kserve::available(who, &first.model_name, &first.model_version).await?;
    let label = Label::from(&*ready.servable);
    let settings = Settings::read(&first.parameters, ready.plan())?;
    who.entry.model(ready.servable.name(), true);
    let (sides, priority) = (&settings.sides, settings.priority);
    let deadline = who.deadline(who.time_for(&ready.servable, settings.timeout));
    let run = GraphRun::open_tensors(who, ready, sides, priority, deadline, Driver::Task)?;
    let unanswered = Arc::<Mutex<OpenMessages>>::default();
    let feeding = Feeding {
        unanswered: Arc::clone(&unanswered),
        one_by_one: !run.plan.resources::<LanguageModel>().is_empty(),
        feeder: run.feeder(),
        call: Arc::clone(&call),
        graph: Label {
            name: first.model_name.clone(),
            version: label.version.clone(),
        },
        next: Some((first, share, Some(settings))),
    };
    let stream = OpenStream {
        graph: label,
        idle: run.feeder(),
        run,
        said: stream::try_unfold(feeding, Feeding::next).boxed(),
        fed: true,
        ending: None,
        unanswered,
        entry: who.entry.clone(),
        _settlement: who.settlement(),
    };
    let answers = stream::try_unfold(stream, |mut stream| async move {
        Ok(stream.next().await?.map(|answer| (answer, stream)))
    });
    Ok(ended(answers, who.entry.clone()))
}

/// Answers a stream of sequence requests that begins with this message.
fn answer_sequences(
    sequences: &Arc<Sequences>,
    call: Arc<GrpcCall>,
    first: (ModelInferRequest, Arc<Share>),
) -> Answers {
    let (entry, settlement) = (call.who.entry.clone(), call.who.settlement());
    let state = (Some(first), settlement, Arc::clone(sequences), call);
    let answers = stream::try_unfold(state, |(first, settlement, sequences, call)| async move {
        let read = match first {
            Some(first) => Some(first),
            None => call.who.guard(None).wait(call.next()).await?,
        };
        let Some((message, share)) = read else {
            return Ok(None);
        };
        let graph = Label {
            name: message.model_name.clone(),
            version: message.model_version.clone(),
        };
        let id = message.id.clone();
        let answer = infer_part(&sequences, &call.who, message).await;
        share.is_read();
        let answer = answer.map_or_else(|failure| wrong(failure, &graph, id), given);
        Ok(Some((answer, (None, settlement, sequences, call))))
    });
    ended(answers, entry)
}

async fn infer_part(
    sequences: &Arc<Sequences>,
    who: &RequestContext,
    message: ModelInferRequest,
) -> Result<ModelInferResponse, Failure> {
    if SequenceControl::read(&message.parameters)?.is_none() {
        let why = "the stream is for sequences, because its first message had a `sequence_id`";
        return Err(kserve::wrong("parameters.sequence_id", why));
    }
    let mut answer = infer(sequences, who, message).await?;
    is_final(&mut answer, true);
    Ok(answer)
}

/// Ends a stream with the status of its failure, and logs the failure.
fn ended(
    answers: impl Stream<Item = Result<ModelStreamInferResponse, Failure>> + Send + 'static,
    entry: Arc<Facts>,
) -> Answers {
    let answers = answers.inspect_err(move |failure| entry.failed(failure));
    answers.map_err(Status::from).boxed()
}

/// The report of the reading side.
enum Report {
    /// A message that is wrong, with its id.
    Wrong(Failure, String),
    /// A request that was fed. No other is fed before its last answer.
    Fed(Ending),
}

/// A request that must be answered before another is fed.
struct Ending {
    id: String,
    /// True if the client wants a message after the last answer.
    is_told: bool,
    /// True if a packet may have arrived since the last check.
    came: bool,
}

/// The messages that the graph may still be working on.
#[derive(Default)]
struct OpenMessages {
    count: u64,
    /// Id of the last message.
    id: String,
}

impl OpenMessages {
    /// Returns the id of the only message; empty if there are several, as any of them could be
    /// meant.
    fn id(&self) -> String {
        if self.count == 1 {
            self.id.clone()
        } else {
            String::new()
        }
    }
}

/// The reading side: reads messages and feeds the session.
struct Feeding {
    feeder: Feeder,
    call: Arc<GrpcCall>,
    graph: Label,
    unanswered: Arc<Mutex<OpenMessages>>,
    /// True if a message must be answered before the next one is read.
    one_by_one: bool,
    /// First message, whose parameters were already read.
    next: Option<(ModelInferRequest, Arc<Share>, Option<Settings>)>,
}

impl Feeding {
    /// Feeds messages until there is something to report; `None` after the last message.
    ///
    /// # Errors
    /// If the stream cannot be read any more.
    async fn next(mut self) -> Result<Option<(Report, Self)>, Failure> {
        loop {
            let (mut message, share, settings) = if let Some(first) = self.next.take() {
                first
            } else {
                let Some((message, share)) = self.call.next().await? else {
                    self.feeder.close();
                    return Ok(None);
                };
                (message, share, None)
            };
            let id = std::mem::take(&mut message.id);
            let (packets, time, is_told) = match self.read(message, settings) {
                Ok(read) => read,
                Err(failure) => return Ok(Some((Report::Wrong(failure, id), self))),
            };
            {
                let mut unanswered = self.unanswered.lock();
                unanswered.count += 1;
                unanswered.id.clone_from(&id);
            }
            let until_read = Arc::new(UntilRead(share));
            // Fails if the session has ended, which the end of its outputs reports.
            let pushed = self.feeder.push(packets, time, Some(&until_read)).await;
            if pushed.is_err() {
                return Ok(None);
            }
            if is_told || self.one_by_one {
                let came = true;
                return Ok(Some((Report::Fed(Ending { id, is_told, came }), self)));
            }
        }
    }

    /// Returns the packets of a message, and their timestamp.
    fn read(&self, message: ModelInferRequest, settings: Option<Settings>) -> Result<Fed, Failure> {
        let Label { name, version } = &self.graph;
        if message.model_name != *name {
            let why = format!("the stream is for the graph `{name}`");
            return Err(kserve::wrong("model_name", why));
        }
        kserve::check_version(&message.model_version, version, "stream")?;
        self.check_outputs(&tensors::read_wanted(message.outputs)?)?;
        let settings = if let Some(settings) = settings {
            settings
        } else {
            if SequenceControl::read(&message.parameters)?.is_some() {
                let why = "the stream is a single run of a graph, because its first message had no `sequence_id`";
                return Err(kserve::wrong("parameters.sequence_id", why));
            }
            Settings::read_next(&message.parameters)?
        };
        let tensors = tensors::read(message.inputs, message.raw_input_contents)?;
        let packets = kserve::packets(&self.feeder.plan, tensors, false)?;
        let time = settings.time;
        let time = time.unwrap_or_else(|| self.feeder.next_time(Utc::now().timestamp_micros()));
        self.feeder.check(&packets, time)?;
        Ok((packets, time, settings.says_final))
    }

    /// Checks the outputs that a message names, as Triton's clients do: they must be all outputs.
    fn check_outputs(&self, asked: &[WantedOutput]) -> Result<(), Failure> {
        if let Some(output) = asked.iter().find(|output| output.classes > 0) {
            let why = "a stream returns output packets unchanged, without classes";
            return Err(kserve::wrong(format!("outputs.{}", output.name), why));
        }
        let plan = &self.feeder.plan;
        let outputs = || {
            plan.graph_outputs()
                .map(|stream| crate::tensors::output_name(plan, stream))
        };
        let is_asked = |output: &str| asked.iter().any(|it| it.name == output);
        if asked.is_empty() || (outputs().count() == asked.len() && outputs().all(is_asked)) {
            return Ok(());
        }
        let why = "a stream returns the packets of all outputs: name all outputs or none";
        Err(kserve::wrong("outputs", why))
    }
}

/// The packets of a message by input, their timestamp, and true if the client wants a message after
/// the last answer.
type Fed = (Vec<(String, Packet)>, Timestamp, bool);

/// A run whose output packets are sent as they arrive.
struct OpenStream {
    graph: Label,
    run: GraphRun,
    idle: Feeder,
    said: BoxStream<'static, Result<Report, Failure>>,
    /// True while more messages may arrive.
    fed: bool,
    /// Request that must be answered before another message is read.
    ending: Option<Ending>,
    unanswered: Arc<Mutex<OpenMessages>>,
    entry: Arc<Facts>,
    _settlement: Option<Settlement>,
}

impl OpenStream {
    /// Returns the next message of the answer; `None` at its end.
    async fn next(&mut self) -> Result<Option<ModelStreamInferResponse>, Failure> {
        loop {
            let came = self.ending.as_ref().map(|ending| ending.came);
            let settled = async {
                if came == Some(true) {
                    self.idle.idle().await;
                }
            };
            tokio::select! {
                biased;
                output = self.run.next() => {
                    let Some(output) = output? else {
                        // The session has ended, and with it the answers to the request.
                        let ending = self.ending.take().filter(|ending| ending.is_told);
                        return Ok(ending.map(|ending| self.has_all(ending.id)));
                    };
                    if let Some(ending) = &mut self.ending {
                        ending.came = true;
                    }
                    return self.given(output).map(Some);
                }
                () = settled, if came.is_some() => match self.ending.take() {
                    Some(ending) if ending.came => {
                        self.ending = Some(Ending { came: false, ..ending });
                    }
                    Some(ending) if ending.is_told => return Ok(Some(self.has_all(ending.id))),
                    _ => self.unanswered.lock().count = 0,
                },
                said = self.said.next(), if came.is_none() && self.fed => match said.transpose()? {
                    None => self.fed = false,
                    Some(Report::Fed(ending)) => self.ending = Some(ending),
                    Some(Report::Wrong(failure, id)) => {
                        return Ok(Some(wrong(failure, &self.graph, id)));
                    }
                },
            }
        }
    }

    fn given(&self, output: OutputPacket) -> Result<ModelStreamInferResponse, Failure> {
        let time = ParameterChoice::Int64Param(output.1.time.value());
        let tensor = self.run.tensor(output)?;
        let id = self.unanswered.lock().id();
        let mut answer = tensors::answer(&self.graph, id, vec![tensor]);
        set(&mut answer, TIMESTAMP, time);
        is_final(&mut answer, false);
        self.entry.answers();
        Ok(given(answer))
    }

    /// Returns the message that follows the last answer to a request.
    fn has_all(&self, id: String) -> ModelStreamInferResponse {
        self.unanswered.lock().count = 0;
        let mut answer = tensors::answer(&self.graph, id, Vec::new());
        is_final(&mut answer, true);
        self.entry.answers();
        given(answer)
    }
}

/// Creates a message with an answer.
fn given(answer: ModelInferResponse) -> ModelStreamInferResponse {
    ModelStreamInferResponse {
        error_message: String::new(),
        infer_response: Some(answer),
    }
}

/// Creates a message with the error of a request.
fn wrong(failure: Failure, graph: &Label, id: String) -> ModelStreamInferResponse {
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

/// Sets the parameter that is true after the last answer to a request.
fn is_final(answer: &mut ModelInferResponse, has_all: bool) {
    set(answer, FINAL, ParameterChoice::BoolParam(has_all));
}

fn set(answer: &mut ModelInferResponse, name: &str, choice: ParameterChoice) {
    let parameter = InferParameter {
        parameter_choice: Some(choice),
    };
    answer.parameters.insert(name.to_owned(), parameter);
}
