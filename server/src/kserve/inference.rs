//! A run of a graph with tensors: a session whose inputs are fed by name, and whose outputs are
//! taken as they come.
//!
//! Dropping it ends the session, as with every other request.

use std::{
    future::{pending, poll_fn},
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use futures_util::{FutureExt as _, StreamExt as _};
use graphmill_calculators::{payload::Account, tensor::Tensor};
use graphmill_engine::{
    Error, Handle, OutputStream, Packet, Plan, Reason, RunCx, Session, SidePackets, Summary,
    Timestamp, shortened,
};
use tokio::{sync::watch, task::JoinHandle, time::sleep};

use super::{Tensors, wrong};
use crate::{
    errors::{Cause, Failure},
    observe::request_id::Id,
    requests::{Listed, Running},
    servable::{InUse, Ready},
    sessions::{About, Entered, RecordingOptions, Sessions},
    stage::{Stage, cut},
    tensors,
};

/// Poll interval while nodes wait for outside events.
const LOOK: Duration = Duration::from_millis(2);

/// How much of a name an error shows.
const SHOWN_BYTES: usize = 100;

/// A request, as the session's context has it.
pub(crate) struct Run {
    pub(crate) id: Id,
    /// When the session ends at the latest.
    pub(crate) deadline: Option<Instant>,
    /// The name of its key, where there are keys.
    pub(crate) key: Option<Arc<str>>,
    pub(crate) account: Account,
    pub(crate) traceparent: Option<Arc<str>>,
    /// What is to be recorded of it.
    pub(crate) records: Option<RecordingOptions>,
}

/// What a graph gives: the position of the output, and the packet.
type Given = (usize, Packet);

/// What drives a session.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Driver {
    /// Polled by the reader of its packets: a one-shot run.
    Reader,
    /// A task of its own.
    Task,
}

/// A session, by who drives it.
enum Driven {
    Here(Box<Session>),
    Apart(JoinHandle<Result<Summary, Error>>),
    /// It has ended, and how has been asked.
    Asked,
}

impl Driven {
    /// Resolves when the session has ended, if it is driven here; never if it is not.
    async fn drive(&mut self) -> Result<(), Failure> {
        match self {
            Self::Here(session) => {
                let outcome = session.await;
                *self = Self::Asked;
                outcome.map(drop).map_err(Failure::from)
            }
            Self::Apart(_) | Self::Asked => pending().await,
        }
    }

    /// How the session ended. It has closed its outputs, so this is about to be known.
    async fn outcome(&mut self) -> Result<(), Failure> {
        match self {
            Self::Here(_) => self.drive().await,
            Self::Apart(task) => {
                let outcome = task.await;
                *self = Self::Asked;
                let failed = |_| Failure::new(Cause::Panic, "the session failed");
                outcome.map_err(failed)?.map(drop).map_err(Failure::from)
            }
            Self::Asked => Ok(()),
        }
    }
}

/// What the outputs of a session give.
struct Outputs(Vec<Option<OutputStream>>);

impl Outputs {
    /// The next packet of any; none when all have ended.
    async fn next(&mut self) -> Option<Given> {
        poll_fn(|cx| {
            let mut is_over = true;
            for (position, output) in self.0.iter_mut().enumerate() {
                let Some(stream) = output else {
                    continue;
                };
                match stream.poll_next_unpin(cx) {
                    Poll::Ready(Some(packet)) => return Poll::Ready(Some((position, packet))),
                    Poll::Ready(None) => *output = None,
                    Poll::Pending => is_over = false,
                }
            }
            if is_over {
                Poll::Ready(None)
            } else {
                Poll::Pending
            }
        })
        .await
    }
}

/// A run of a graph.
pub(crate) struct Inference {
    plan: Arc<Plan>,
    outputs: Outputs,
    session: Driven,
    stage: watch::Receiver<Stage>,
    /// Cancels the session when the last is dropped.
    handle: Arc<Handle>,
    _listed: Listed,
    _entered: Entered,
    /// Keeps the graph in memory.
    _in_use: InUse,
}

impl Inference {
    /// Opens a session on a graph whose streams carry tensors.
    pub(crate) fn open(
        stage: &watch::Receiver<Stage>,
        (running, sessions): (&Arc<Running>, &Arc<Sessions>),
        ready: Ready,
        sides: &SidePackets,
        driver: Driver,
        asked: Run,
    ) -> Result<Self, Failure> {
        let Ready {
            servable,
            plan,
            in_use,
            ..
        } = ready;
        takes_tensors(&plan, servable.name())?;
        let mut run = RunCx::new(asked.id.text.clone());
        run.deadline = asked.deadline;
        run.tenant.clone_from(&asked.key);
        run.extension = Some(Arc::new(asked.account));
        run.trace.traceparent = asked.traceparent;
        let listed = running.list(&asked.id, asked.key.clone(), run.cancel.clone());
        let (mut session, handle) = Session::new(&plan, run, sides.clone())?;
        let about = About {
            servable: &servable,
            request: &asked.id.text,
            key: asked.key.as_ref(),
            label: "tensors",
            sides,
            records: asked.records,
        };
        let entered = sessions.enter(&mut session, &handle, &about);
        let mut outputs = Vec::new();
        for name in plan.graph_outputs() {
            outputs.push(Some(handle.output(name)?));
        }
        Ok(Self {
            outputs: Outputs(outputs),
            session: match driver {
                Driver::Reader => Driven::Here(Box::new(session)),
                Driver::Task => Driven::Apart(tokio::spawn(session)),
            },
            stage: stage.clone(),
            handle: Arc::new(handle),
            plan,
            _listed: listed,
            _entered: entered,
            _in_use: in_use,
        })
    }

    pub(crate) fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// What feeds the session.
    pub(crate) fn feeder(&self) -> Feeder {
        Feeder {
            last: vec![Timestamp::UNSET; self.plan.graph_inputs().count()],
            plan: Arc::clone(&self.plan),
            handle: Arc::clone(&self.handle),
        }
    }

    /// The next packet of any output; `None` when the session has ended well. May be dropped before
    /// it is ready: no packet is lost.
    pub(crate) async fn next(&mut self) -> Result<Option<Given>, Failure> {
        loop {
            tokio::select! {
                biased;
                () = cut(&mut self.stage) => {
                    return Err(Failure::new(Cause::Draining, "the server is stopping"));
                }
                given = self.outputs.next() => return match given {
                    Some(given) => Ok(Some(given)),
                    None => self.session.outcome().await.map(|()| None),
                },
                // Outputs may still have packets.
                outcome = self.session.drive() => outcome?,
            }
        }
    }

    /// The packet of an output as a tensor, with the output's name.
    pub(crate) fn tensor(&self, (position, packet): Given) -> Result<(String, Tensor), Failure> {
        let name = self.plan.graph_outputs().nth(position).unwrap_or_default();
        let tensor = tensors::to_tensor(packet).map_err(|of| {
            let message = format!("the graph's output `{name}` is `{of}`, which is no tensor");
            Failure::new(Cause::NoAnswer, message)
        })?;
        Ok((name.to_owned(), tensor))
    }

    /// Runs the session on these packets, and no others.
    pub(crate) async fn run(
        &mut self,
        packets: Vec<(String, Packet)>,
        time: Timestamp,
    ) -> Result<Tensors, Failure> {
        let mut feeder = self.feeder();
        let feeding = async move {
            feeder.push(packets, time).await?;
            feeder.close();
            Ok(())
        };
        let ((), found) = tokio::try_join!(feeding, self.rest())?;
        if found.is_empty() {
            let why = "the graph ended without an answer";
            return Err(Failure::new(Cause::NoAnswer, why));
        }
        Ok(found)
    }

    /// The one packet of each output, when the session has ended. Outputs without one are left out.
    pub(crate) async fn rest(&mut self) -> Result<Tensors, Failure> {
        let mut found = self.found();
        while let Some(given) = self.next().await? {
            self.find(&mut found, given)?;
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// The one packet of each output that the graph gives until it has nothing more to do for what
    /// was pushed, or has ended. Outputs without one are left out.
    pub(crate) async fn collect_of(&mut self, feeder: &Feeder) -> Result<Tensors, Failure> {
        let mut found = self.found();
        loop {
            let given = tokio::select! {
                biased;
                given = self.next() => Some(given),
                () = feeder.idle() => self.next().now_or_never(),
            };
            match given {
                Some(Ok(Some(given))) => self.find(&mut found, given)?,
                Some(Err(failure)) => return Err(failure),
                Some(Ok(None)) | None => return Ok(found.into_iter().flatten().collect()),
            }
        }
    }

    /// Whether the session is known to have ended.
    pub(crate) fn has_ended(&self) -> bool {
        match &self.session {
            Driven::Here(_) => false,
            Driven::Apart(task) => task.is_finished(),
            Driven::Asked => true,
        }
    }

    /// By output, what was found of it.
    fn found(&self) -> Vec<Option<(String, Tensor)>> {
        vec![None; self.plan.graph_outputs().count()]
    }

    fn find(&self, found: &mut [Option<(String, Tensor)>], given: Given) -> Result<(), Failure> {
        let position = given.0;
        match found[position].replace(self.tensor(given)?) {
            None => Ok(()),
            Some((name, _)) => {
                let why = format!(
                    "the graph's output `{name}` has more than one packet: ModelStreamInfer takes them all"
                );
                Err(Failure::new(Cause::BadRequest, why))
            }
        }
    }
}

/// Feeds the inputs of a session.
pub(crate) struct Feeder {
    plan: Arc<Plan>,
    handle: Arc<Handle>,
    /// By input: the timestamp of its last packet.
    last: Vec<Timestamp>,
}

impl Feeder {
    /// Refuses a timestamp at which one of the inputs cannot have a packet any more.
    pub(crate) fn check(
        &self,
        packets: &[(String, Packet)],
        time: Timestamp,
    ) -> Result<(), Failure> {
        for (name, _) in packets {
            let last = self.position(name).map(|position| self.last[position]);
            if let Some(last) = last.filter(|last| *last >= time) {
                let why = format!(
                    "the packet of `{name}` at {time} comes after one at {last}: timestamps of a stream grow"
                );
                return Err(Failure::new(Cause::BadRequest, why)
                    .of_field(format!("parameters.{}", super::parameters::TIMESTAMP)));
            }
        }
        Ok(())
    }

    /// The first timestamp from `now` on at which every input can have a packet.
    pub(crate) fn next_time(&self, now: i64) -> Timestamp {
        let last = self.last.iter().max().copied();
        Timestamp::new(now).max(last.unwrap_or(Timestamp::UNSET).next())
    }

    /// Sends packets, waiting while queues are full.
    pub(crate) async fn push(
        &mut self,
        packets: Vec<(String, Packet)>,
        time: Timestamp,
    ) -> Result<(), Failure> {
        for (name, packet) in packets {
            if let Some(position) = self.position(&name) {
                self.last[position] = time;
            }
            self.handle.push(&name, packet.at(time)).await?;
        }
        Ok(())
    }

    /// No more packets come.
    pub(crate) fn close(&self) {
        self.handle.close_all();
    }

    /// Resolves when what was pushed has been worked off as far as it goes, and no node waits for
    /// something outside of the graph, such as a language model.
    pub(crate) async fn idle(&self) {
        loop {
            // How the session ended is told where its outputs end.
            let _ = self.handle.wait_until_idle().await;
            let why = self.handle.why().await;
            if !why.nodes.iter().any(|node| node.reason == Reason::Event) {
                return;
            }
            sleep(LOOK).await;
        }
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.plan.graph_inputs().position(|input| input == name)
    }
}

/// Refuses a graph whose streams do not carry tensors.
pub(crate) fn takes_tensors(plan: &Plan, name: &str) -> Result<(), Failure> {
    if tensors::is_served(plan).unwrap_or(false) {
        return Ok(());
    }
    let why = format!("the graph `{name}` takes HTTP requests and no tensors");
    Err(Failure::new(Cause::BadRequest, why).of_field("model_name"))
}

/// The tensors of a request as packets of a graph's inputs. `whole`: each input has one.
pub(crate) fn packets(
    plan: &Plan,
    tensors: Tensors,
    whole: bool,
) -> Result<Vec<(String, Packet)>, Failure> {
    let mut packets: Vec<(String, Packet)> = Vec::with_capacity(tensors.len());
    for (name, tensor) in tensors {
        let field = format!("inputs.{}", shortened(&name, SHOWN_BYTES));
        if !plan.graph_inputs().any(|input| input == name) {
            let names: Vec<&str> = plan.graph_inputs().collect();
            let why = format!(
                "the graph has no such input; there are `{}`",
                names.join("`, `")
            );
            return Err(wrong(field, why));
        }
        if packets.iter().any(|(other, _)| *other == name) {
            return Err(wrong(field, "the input is given twice"));
        }
        match crate::tensors::to_packet(plan, &name, tensor) {
            Ok(packet) => packets.push((name, packet)),
            Err(why) => return Err(wrong(field, why)),
        }
    }
    let missing = plan
        .graph_inputs()
        .find(|input| !packets.iter().any(|(name, _)| name == input));
    if let (true, Some(missing)) = (whole, missing) {
        return Err(wrong(format!("inputs.{missing}"), "the input is missing"));
    }
    Ok(packets)
}
