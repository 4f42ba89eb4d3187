//! Graphs whose streams carry what tensors can be: which tensors a graph takes and gives, and how
//! one becomes a packet and back.

mod declared;
mod ports;

pub(crate) use declared::Declared;
use declared::Described;
pub(crate) use ports::{Port, inputs, is_served, outputs, to_packet, to_tensor};
