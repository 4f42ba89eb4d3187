//! The tensors of requests as packets.

use graphmill_engine::{Packet, Plan, shortened};

use super::wrong;
use crate::{errors::Failure, run::Tensors, tensors};

/// How much of a name an error shows.
const SHOWN_BYTES: usize = 100;

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
            let names = plan.graph_inputs().collect::<Vec<_>>().join("`, `");
            let why = format!("the graph has no such input; there are `{names}`");
            return Err(wrong(field, why));
        }
        if packets.iter().any(|(other, _)| *other == name) {
            return Err(wrong(field, "the input is given twice"));
        }
        let packet = tensors::to_packet(plan, &name, tensor);
        packets.push((name, packet.map_err(|why| wrong(field, why))?));
    }
    let is_missing = |input: &&str| !packets.iter().any(|(name, _)| name == input);
    if whole && let Some(missing) = plan.graph_inputs().find(is_missing) {
        let failure = wrong(format!("inputs.{missing}"), "the input is missing");
        return Err(failure.with_code("missing_required_parameter"));
    }
    Ok(packets)
}
