//! The dataflow graph engine: packets, timestamps, contracts, plans and sessions.
//!
//! A graph file is compiled once into a [`Plan`]. Each request runs in its own cheap [`Session`] of
//! that plan. State that outlives a request is a [`Resource`]. The engine knows no HTTP, no JSON,
//! no tokens and no models.

pub mod builder;
pub mod calculator;
pub mod codec;
pub mod codes;
mod compile;
pub mod context;
pub mod contract;
pub mod emits;
pub mod error;
pub mod events;
pub mod executor;
mod executors;
pub mod file_source;
pub mod file_stamps;
pub mod input;
mod lanes;
mod lock;
pub mod packet;
pub mod plan;
pub mod policy;
pub mod port;
pub mod registry;
pub mod resource;
pub mod run;
pub mod session;
mod tags;
pub mod testing;
pub mod timestamp;

pub use builder::{BuildError, GraphBuilder, NodeBuilder, SideWire, Wire};
pub use calculator::{AsyncCalculator, Calculator, Flow, NoOptions};
pub use context::{Cx, OpenCx};
pub use contract::{Arity, Contract, Offset, Run};
pub use emits::Emits;
pub use error::{Error, Kind, Result, shortened};
pub use events::{EventSender, Hold, SessionEnded, Wake};
pub use executor::{Executor, ThreadPool};
pub use executors::Executors;
pub use file_source::{FileSource, Files, TrackedFiles, read_at_most, read_regular, read_text};
pub use file_stamps::FileStamps;
pub use input::{InputQueue, InputSet};
pub use lanes::Lane;
pub use packet::{Packet, Payload, TypeInfo};
pub use plan::{Edge, Explain, NodeTotals, Plan, Totals};
pub use policy::{FixedSize, InputPolicy, Policy, Readiness, Waiting};
pub use port::{Events, Group, In, Ins, Out, OutSide, OutSides, Outs, Res, Side, Sides};
pub use registry::{Registry, container::Container, environment::Environment, subgraph::Subgraph};
pub use resource::{INVALID_RESOURCE, Resource, ResourceCache};
pub use run::{CancelToken, Clock, Priority, RequestId, RunCx, SystemClock, TraceContext};
pub use session::{
    Activity, EdgeSnapshot, Handle, Happening, NodeSnapshot, NodeSummary, OutputStream, Reason,
    Session, SessionObserver, SidePackets, Snapshot, Summary, Timeline, TimelineEvent, Wait, Why,
    block_on, block_on_for,
};
pub use timestamp::Timestamp;
