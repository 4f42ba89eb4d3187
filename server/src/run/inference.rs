//! A run of a graph with tensors: a session whose inputs are fed by name, and whose outputs are
//! taken as they come.
//!
//! Dropping it ends the session, as with every other request.

use std::{sync::Arc, time::Instant};

use futures_util::FutureExt as _;
use graphmill_calculators::tensor::Tensor;
use graphmill_engine::{Packet, Plan, SidePackets, Summary, Timestamp};

use super::{Driver, Feeder, OutputPacket, RequestContext, Run, RunOptions};
use crate::{
    errors::{Cause, Failure},
    servable::Ready,
    tensors,
};

/// Tensors by the names of their streams.
pub(crate) type Tensors = Vec<(String, Tensor)>;

/// A run of a graph.
pub(crate) struct Inference(Run);

/// Refuses a graph whose streams do not carry tensors.
pub(crate) fn takes_tensors(plan: &Plan, name: &str) -> Result<(), Failure> {
    if tensors::is_served(plan).unwrap_or(false) {
        return Ok(());
    }
    let why = format!("the graph `{name}` takes HTTP requests and no tensors");
    Err(Failure::new(Cause::BadRequest, why).of_field("model_name"))
}

impl Inference {
    /// Opens a session on a graph whose streams carry tensors.
    pub(crate) fn open(
        who: &RequestContext,
        ready: Ready,
        sides: &SidePackets,
        batch_priority: u32,
        deadline: Option<Instant>,
        driver: Driver,
    ) -> Result<Self, Failure> {
        let plan = Arc::clone(&ready.plan);
        takes_tensors(&plan, ready.servable.name())?;
        let options = RunOptions {
            label: "tensors",
            sides,
            batch_priority,
            deadline,
            driver,
            trace: None,
        };
        Run::open(who, ready, plan.graph_outputs(), options).map(Self)
    }

    pub(crate) fn plan(&self) -> &Arc<Plan> {
        self.0.plan()
    }

    /// A feeder of the session's inputs.
    pub(crate) fn feeder(&self) -> Feeder {
        Feeder::new(self.0.plan(), self.0.handle())
    }

    /// The next packet of any output; `None` when the session has ended well. May be dropped before
    /// it is ready: no packet is lost.
    pub(crate) async fn next(&mut self) -> Result<Option<OutputPacket>, Failure> {
        self.0.next().await
    }

    /// The packet of an output as a tensor, with the output's name.
    pub(crate) fn tensor(
        &self,
        (position, packet): OutputPacket,
    ) -> Result<(String, Tensor), Failure> {
        let mut names = self.plan().graph_outputs();
        let name = names.nth(position).unwrap_or_default();
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
            return Err(Failure::no_answer(self.0.summary()));
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
        self.0.summary()
    }

    /// Returns true if the session is known to have ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.has_ended()
    }

    /// By output, what was found of it.
    fn found(&self) -> Vec<Option<(String, Tensor)>> {
        vec![None; self.plan().graph_outputs().count()]
    }

    fn find(
        &self,
        found: &mut [Option<(String, Tensor)>],
        given: OutputPacket,
    ) -> Result<(), Failure> {
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
