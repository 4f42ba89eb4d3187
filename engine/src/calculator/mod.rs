//! Calculators: what a node does, as its author writes it.
//!
//! A calculator is made afresh for every session, so its fields are the state of one request. It is
//! never called by two threads at once, and after it failed only to be closed.

pub(crate) mod erased;

use std::future::Future;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::{
    context::{Cx, OpenCx},
    contract::Contract,
    emits::Emits,
    error::Result,
    input::InputSet,
};

/// What a node wants after a call.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Go on.
    Continue,
    /// The inputs no longer matter: the node is closed and with it its output streams, and so are
    /// the graph's sources.
    Stop,
}

/// The default of all calculators' `DOC`.
const NO_DOC: &str = "";

/// A node that computes.
///
/// ```
/// use graphmill_engine::{Calculator, Contract, Cx, Flow, In, NoOptions, OpenCx, Out, Result, register};
///
/// /// Adds what it gets to what it got before.
/// struct RunningSum(i64);
///
/// impl Calculator for RunningSum {
///     const NAME: &'static str = "RunningSumCalculator";
///     type Options = NoOptions;
///     type Ports = (In<i64>, Out<i64>);
///
///     fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
///         (c.input("IN"), c.output("OUT"))
///     }
///
///     fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
///         Ok(Self(0))
///     }
///
///     fn process(&mut self, (input, output): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
///         if let Some(value) = cx.take(input) {
///             self.0 += value;
///             cx.emit(output, self.0);
///         }
///         Ok(Flow::Continue)
///     }
/// }
/// register!(RunningSum);
/// ```
pub trait Calculator: Sized + Send + 'static {
    /// The name in graph files; ends in `Calculator`.
    const NAME: &'static str;
    /// One or a few sentences for `graphmill describe`.
    const DOC: &'static str = NO_DOC;
    /// The message types that may carry the options, such as `mediapipe.LLMCalculatorOptions`;
    /// `<NAME>Options` always may.
    const OPTION_NAMES: &'static [&'static str] = &[];
    /// What the graph file can set.
    type Options: DeserializeOwned + JsonSchema + Default + Send + Sync + 'static;
    /// The handles of the ports. Cloned for each call, so a table of them stands behind an `Arc`.
    type Ports: Clone + Send + Sync + 'static;

    /// Declares the node's ports and behavior. Called when a plan is compiled, with the node's
    /// actual ports and options.
    fn contract(c: &mut Contract, options: &Self::Options) -> Self::Ports;

    /// Makes the calculator for one session.
    fn open(options: &Self::Options, io: Self::Ports, cx: &mut OpenCx<'_>) -> Result<Self>;

    /// Handles one input set, one event, or, in a source, makes the next output.
    fn process(&mut self, io: Self::Ports, cx: &mut Cx<'_>) -> Result<Flow>;

    /// Returns true for an input set that takes less than 100 microseconds: a node of an executor
    /// ([`Run::Offload`](crate::Run::Offload)) then handles it in the session's own task, as the
    /// way there and back would cost more. Not asked of nodes that handle several sets at a time.
    fn is_light(&self, _io: Self::Ports, _set: &InputSet) -> bool {
        false
    }

    /// Called once after the last `process`; may still emit. Also called when the session fails or
    /// is cancelled while the node is open, as [`Cx::status`] tells; not after a panic of the node,
    /// and not when the session is dropped.
    fn close(&mut self, _io: Self::Ports, _cx: &mut Cx<'_>) -> Result<()> {
        Ok(())
    }

    /// Describes the node's wait for something outside of its graph, in words that can follow
    /// "waits for", such as "tokens of engine `x`: slot 3". `None` if only its inputs can bring it
    /// on.
    ///
    /// Asked only when somebody looks at the session, and only of a node that a
    /// [`Hold`](crate::Hold) or an [`EventSender`](crate::EventSender) keeps open, between two of
    /// its calls. Must not block.
    fn waits_for(&self) -> Option<String> {
        Some(ANY_EVENT.to_owned())
    }
}

/// Wait of a node that is kept open and says no more about it.
pub(crate) const ANY_EVENT: &str = "an event, or the release of its holds";

/// A node that waits: its calls are futures, polled by the session, which runs other nodes
/// meanwhile.
///
/// The inputs of a call are owned, and what it emits leaves the node when the future is ready.
/// [`Emits::waits_for`] tells those who look at the session what a pending call waits for. The next
/// call starts after that, so calls of one node never overlap, unless its contract says that
/// they may ([`Contract::parallel`]).
pub trait AsyncCalculator: Sized + Send + 'static {
    /// The name in graph files; ends in `Calculator`.
    const NAME: &'static str;
    /// One or a few sentences for `graphmill describe`.
    const DOC: &'static str = NO_DOC;
    /// The message types that may carry the options; `<NAME>Options` always may.
    const OPTION_NAMES: &'static [&'static str] = &[];
    /// What the graph file can set.
    type Options: DeserializeOwned + JsonSchema + Default + Send + Sync + 'static;
    /// The handles of the ports. Cloned for each call, so a table of them stands behind an `Arc`.
    type Ports: Clone + Send + Sync + 'static;

    /// Declares the node's ports and behavior.
    fn contract(c: &mut Contract, options: &Self::Options) -> Self::Ports;

    /// Makes the calculator for one session.
    fn open(options: &Self::Options, io: Self::Ports, cx: &mut OpenCx<'_>) -> Result<Self>;

    /// Handles one input set or one event.
    fn process(
        &mut self,
        io: Self::Ports,
        set: InputSet,
        out: &mut Emits,
    ) -> impl Future<Output = Result<Flow>> + Send;

    /// Called once after the last `process`; may still emit. Also called when the session fails or
    /// is cancelled while the node is open, as [`Cx::status`] tells; not after a panic of the node,
    /// and not when the session is dropped.
    fn close(&mut self, _io: Self::Ports, _cx: &mut Cx<'_>) -> Result<()> {
        Ok(())
    }
}

/// The options of a calculator that has none.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, serde::Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NoOptions {}
