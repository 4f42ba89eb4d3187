//! A run of a graph with tensors: a session whose inputs are fed by name, and whose outputs are
//! taken as they come.
//!
//! Dropping it ends the session, as with every other request.

use std::sync::Arc;

use futures_util::FutureExt as _;
use graphmill_calculators::tensor::Tensor;
use graphmill_engine::{Handle, Packet, Plan, SidePackets, Summary, Timestamp};
use tokio::sync::watch;

use super::{
    Tensors,
    inputs::{Feeder, takes_tensors},
};
use crate::{
    errors::{Cause, Failure},
    run::{Driven, Driver, Given, Listing, Opened, Outputs, RequestInfo, Running, open},
    servable::Ready,
    sessions::Sessions,
    stage::{Stage, cut},
    tensors,
};

/// A run of a graph.
pub(crate) struct Inference {
    plan: Arc<Plan>,
    outputs: Outputs,
    session: Driven,
    stage: watch::Receiver<Stage>,
    /// Cancels the session when the last is dropped.
    handle: Arc<Handle>,
    _listing: Listing,
}

impl Inference {
    /// Opens a session on a graph whose streams carry tensors.
    pub(crate) fn open(
        stage: &watch::Receiver<Stage>,
        lists: (&Arc<Running>, &Arc<Sessions>),
        ready: Ready,
        sides: &SidePackets,
        driver: Driver,
        request: RequestInfo,
    ) -> Result<Self, Failure> {
        takes_tensors(&ready.plan, ready.servable.name())?;
        let Opened {
            plan,
            session,
            handle,
            listing,
        } = open(lists, ready, sides, "tensors", request)?;
        let mut outputs = Vec::new();
        for name in plan.graph_outputs() {
            outputs.push(Some(handle.output(name)?));
        }
        Ok(Self {
            outputs: Outputs::new(outputs),
            session: Driven::new(session, driver),
            stage: stage.clone(),
            handle: Arc::new(handle),
            plan,
            _listing: listing,
        })
    }

    pub(crate) fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// What feeds the session.
    pub(crate) fn feeder(&self) -> Feeder {
        Feeder::new(&self.plan, &self.handle)
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
            return Err(Failure::no_answer(self.session.summary()));
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

    /// Returns the summary of the session, if it is known to have ended well.
    pub(crate) fn summary(&self) -> Option<&Summary> {
        self.session.summary()
    }

    /// Whether the session is known to have ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.session.has_ended()
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
