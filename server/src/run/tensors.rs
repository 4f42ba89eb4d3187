//! Runs of graphs with tensors: inputs are fed by name, and output packets are collected.

use std::{future::pending, sync::Arc, time::Instant};

use futures_util::FutureExt as _;
use graphmill_calculators::tensor::Tensor;
use graphmill_engine::{Handle, Packet, Plan, SidePackets, Timestamp};

use super::{
    Driver, GraphRun, RequestContext,
    session::{OutputPacket, RunOptions},
};
use crate::{
    bodies::UntilRead,
    errors::{Cause, Failure},
    servable::Ready,
    tensors,
};

/// Tensors with the names of their streams.
pub(crate) type Tensors = Vec<(String, Tensor)>;

impl GraphRun {
    /// Opens a session on a graph whose streams carry tensors.
    pub(crate) fn open_tensors(
        who: &RequestContext,
        ready: Ready,
        sides: &SidePackets,
        batch_priority: u32,
        deadline: Option<Instant>,
        driver: Driver,
    ) -> Result<Self, Failure> {
        let plan = Arc::clone(&ready.plan);
        let options = RunOptions {
            label: "tensors",
            sides,
            batch_priority,
            deadline,
            driver,
            trace: None,
        };
        Self::open(who, ready, plan.graph_outputs(), options)
    }

    /// Creates a feeder for the session's inputs.
    pub(crate) fn feeder(&self) -> Feeder {
        Feeder {
            last: vec![Timestamp::UNSET; self.plan.graph_inputs().count()],
            plan: Arc::clone(&self.plan),
            handle: Arc::clone(&self.handle),
        }
    }

    /// Converts an output packet to a tensor, with the output's name.
    pub(crate) fn tensor(
        &self,
        (position, packet): OutputPacket,
    ) -> Result<(String, Tensor), Failure> {
        let name = self.plan.graph_outputs().nth(position);
        let name = tensors::output_name(&self.plan, name.unwrap_or_default());
        let tensor = tensors::to_tensor(packet).map_err(|of| {
            let message = format!("the graph's output `{name}` is `{of}`, which is not a tensor");
            Failure::new(Cause::NoAnswer, message)
        })?;
        Ok((name.to_owned(), tensor))
    }

    /// Collects the one packet of each output until the session has ended; with `until_idle`, until
    /// the graph has processed the pushed packets. Outputs without a packet are left out.
    pub(crate) async fn collect(
        &mut self,
        until_idle: Option<&Feeder>,
    ) -> Result<Tensors, Failure> {
        let mut found: Vec<Option<_>> = vec![None; self.plan.graph_outputs().count()];
        loop {
            let idle = async {
                match until_idle {
                    Some(feeder) => feeder.idle().await,
                    None => pending().await,
                }
            };
            let given = tokio::select! {
                biased;
                given = self.next() => given,
                () = idle => self.next().now_or_never().unwrap_or(Ok(None)),
            };
            let Some(given) = given? else {
                return Ok(found.into_iter().flatten().collect());
            };
            let position = given.0;
            if let Some((name, _)) = found[position].replace(self.tensor(given)?) {
                let instead = match until_idle {
                    None => "use ModelStreamInfer for several packets",
                    Some(_) => "use a stream without `sequence_id` for several packets",
                };
                let why =
                    format!("the graph's output `{name}` has more than one packet: {instead}");
                return Err(Failure::new(Cause::BadRequest, why));
            }
        }
    }
}

/// Parameter with the timestamp of a request's packets, named as in OpenVINO Model Server.
pub(crate) const TIMESTAMP: &str = "OVMS_MP_TIMESTAMP";

/// Feeder of a session's inputs.
pub(crate) struct Feeder {
    pub(crate) plan: Arc<Plan>,
    handle: Arc<Handle>,
    /// Timestamp of the last packet of each input.
    last: Vec<Timestamp>,
}

impl Feeder {
    /// Refuses a timestamp that is too low for one of the inputs.
    pub(crate) fn check(
        &self,
        packets: &[(String, Packet)],
        time: Timestamp,
    ) -> Result<(), Failure> {
        for (name, _) in packets {
            let last = self.position(name).map(|position| self.last[position]);
            if let Some(last) = last.filter(|last| *last >= time) {
                let why = format!(
                    "the packet of `{name}` at {time} comes after one at {last}: timestamps of a stream must increase"
                );
                return Err(Failure::new(Cause::BadRequest, why)
                    .with_field(format!("parameters.{TIMESTAMP}")));
            }
        }
        Ok(())
    }

    /// Returns the first timestamp, `now` or later, that is high enough for every input.
    pub(crate) fn next_time(&self, now: i64) -> Timestamp {
        let last = self.last.iter().max().copied();
        Timestamp::new(now).max(last.unwrap_or(Timestamp::UNSET).next())
    }

    /// Sends packets, and waits while queues are full. The guard is kept until the graph has taken
    /// the packets.
    pub(crate) async fn push(
        &mut self,
        packets: Vec<(String, Packet)>,
        time: Timestamp,
        until_taken: Option<&Arc<UntilRead>>,
    ) -> Result<(), Failure> {
        for (name, packet) in packets {
            if let Some(position) = self.position(&name) {
                self.last[position] = time;
            }
            self.handle.push(&name, packet.at(time)).await?;
            if let Some(kept) = until_taken {
                self.handle
                    .keep_until_taken(&name, time, Arc::clone(kept))?;
            }
        }
        Ok(())
    }

    /// Closes all inputs of the session.
    pub(crate) fn close(&self) {
        self.handle.close_all();
    }

    /// Resolves when the pushed packets have been processed as far as possible, and no node waits
    /// for something outside of the graph, such as a language model.
    pub(crate) async fn idle(&self) {
        // The end of its outputs reports how the session ended.
        let _ = self.handle.wait_until_settled().await;
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.plan.graph_inputs().position(|input| input == name)
    }
}
