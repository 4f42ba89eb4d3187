//! Tests of nodes and graphs: a session run by hand, call by call, with a clock that stands still.
//!
//! ```
//! use graphmill_engine::{Calculator, Contract, Cx, Flow, In, NoOptions, OpenCx, Out, Result, testing::Harness};
//!
//! struct Double;
//! impl Calculator for Double {
//!     const NAME: &'static str = "DoubleCalculator";
//!     type Options = NoOptions;
//!     type Ports = (In<i64>, Out<i64>);
//!     fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
//!         (c.input(""), c.output(""))
//!     }
//!     fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
//!         Ok(Self)
//!     }
//!     fn process(&mut self, (input, output): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
//!         if let Some(value) = cx.take(input) {
//!             cx.emit(output, 2 * value);
//!         }
//!         Ok(Flow::Continue)
//!     }
//! }
//!
//! Harness::for_calculator::<Double>(r#"node { calculator: "DoubleCalculator" input_stream: "in" output_stream: "out" }"#)
//!     .push("in", 1, 21_i64)
//!     .close("in")
//!     .expect("out", [(1, 42_i64)]);
//! ```

mod clock;
mod executor;
mod expectations;
mod graph;
mod harness;

pub use clock::VirtualClock;
pub use executor::ManualExecutor;
pub use graph::check;
pub use harness::Harness;
