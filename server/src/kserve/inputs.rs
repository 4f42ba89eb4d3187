//! What goes into a run: the tensors of requests as packets, and who feeds them.

use std::sync::Arc;

use graphmill_engine::{Handle, Packet, Plan, Timestamp, shortened};

use super::{Tensors, parameters::TIMESTAMP, wrong};
use crate::{
    errors::{Cause, Failure},
    tensors,
};

/// How much of a name an error shows.
const SHOWN_BYTES: usize = 100;

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

    /// No more packets come.
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
    given: Tensors,
    whole: bool,
) -> Result<Vec<(String, Packet)>, Failure> {
    let mut packets: Vec<(String, Packet)> = Vec::with_capacity(given.len());
    for (name, tensor) in given {
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
        match tensors::to_packet(plan, &name, tensor) {
            Ok(packet) => packets.push((name, packet)),
            Err(why) => return Err(wrong(field, why)),
        }
    }
    let missing = plan
        .graph_inputs()
        .find(|input| !packets.iter().any(|(name, _)| name == input));
    if let (true, Some(missing)) = (whole, missing) {
        return Err(wrong(format!("inputs.{missing}"), "the input is missing")
            .with_code("missing_required_parameter"));
    }
    Ok(packets)
}
