//! Nodes that know nothing of what flows through them.

mod begin_loop;
mod flow_limiter;
mod gate;
mod merge;
mod packet_presence;
mod pass_through;
mod previous_loopback;
mod side_packet_to_stream;
mod string_to_number;

pub use begin_loop::{BeginLoop, BeginLoopInt, Element};
pub use flow_limiter::{FlowLimiter, FlowLimiterOptions};
pub use gate::{Gate, GateOptions, GateState};
pub use merge::Merge;
pub use packet_presence::PacketPresence;
pub use pass_through::PassThrough;
pub use previous_loopback::PreviousLoopback;
pub use side_packet_to_stream::SidePacketToStream;
pub use string_to_number::StringToInt;
