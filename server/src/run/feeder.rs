//! Feeds the inputs of a session, by name.

use std::sync::Arc;

use graphmill_engine::{Handle, Packet, Plan, Timestamp};

use crate::errors::{Cause, Failure};

/// Says the timestamp of a request's packets; the name is that of OpenVINO Model Server.
pub(crate) const TIMESTAMP: &str = "OVMS_MP_TIMESTAMP";

/// Feeds the inputs of a session.
pub(crate) struct Feeder {
    plan: Arc<Plan>,
    handle: Arc<Handle>,
    /// By input: the timestamp of its last packet.
    last: Vec<Timestamp>,
}

impl Feeder {
    pub(super) fn new(plan: &Arc<Plan>, handle: &Arc<Handle>) -> Self {
        Self {
            last: vec![Timestamp::UNSET; plan.graph_inputs().count()],
            plan: Arc::clone(plan),
            handle: Arc::clone(handle),
        }
    }

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
                    .of_field(format!("parameters.{TIMESTAMP}")));
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

    /// Drops `kept` once the graph has taken the packets of these inputs up to `time`.
    pub(crate) fn keep_until_taken<T: Send + Sync + 'static>(
        &self,
        inputs: &[String],
        time: Timestamp,
        kept: &Arc<T>,
    ) -> Result<(), Failure> {
        for input in inputs {
            self.handle
                .keep_until_taken(input, time, Arc::clone(kept))?;
        }
        Ok(())
    }

    /// Closes all inputs.
    pub(crate) fn close(&self) {
        self.handle.close_all();
    }

    /// Resolves when what was pushed has been worked off as far as it goes, and no node waits for
    /// something outside of the graph, such as a language model.
    pub(crate) async fn idle(&self) {
        // How the session ended is told where its outputs end.
        let _ = self.handle.wait_until_settled().await;
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.plan.graph_inputs().position(|input| input == name)
    }
}
