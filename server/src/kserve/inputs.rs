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
