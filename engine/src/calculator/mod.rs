//! Calculators: the code of nodes, as their authors write it.
//!
//! Each session makes its own calculators, so their fields hold the state of one request. Two
//! threads never call a calculator at the same time. After a failure only `close` is called.

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

/// The way in which a node goes on after a call.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The node is called again for further inputs.
    Continue,
    /// The node needs no more input. It is closed with its output streams, and so are the graph's
    /// sources.
    Stop,
}

/// Default of `DOC` of all calculators.
const NO_DOC: &str = "";

/// A node whose calls compute and return.
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
    /// Name of the calculator in graph files. It ends in `Calculator`.
    const NAME: &'static str;
    /// Description for `graphmill describe`: one or a few sentences.
    const DOC: &'static str = NO_DOC;
    /// Message types that may carry the options, such as `mediapipe.LLMCalculatorOptions`.
    /// `<NAME>Options` is always accepted.
    const OPTION_NAMES: &'static [&'static str] = &[];
    /// Options of a node in a graph file.
    type Options: DeserializeOwned + JsonSchema + Default + Send + Sync + 'static;
    /// Handles of the ports. Each call gets a clone; wrap a large table of handles in an `Arc`.
    type Ports: Clone + Send + Sync + 'static;

    /// Declares the node's ports and behavior. Called at compile time, with the ports and options
    /// of the actual node.
    fn contract(c: &mut Contract, options: &Self::Options) -> Self::Ports;

    /// Makes the calculator of one session.
    fn open(options: &Self::Options, io: Self::Ports, cx: &mut OpenCx<'_>) -> Result<Self>;

    /// Handles one input set or one event; in a source, makes the next output.
    fn process(&mut self, io: Self::Ports, cx: &mut Cx<'_>) -> Result<Flow>;

    /// Returns `true` for an input set that takes less than 100 microseconds. A node of an executor
    /// ([`Run::Offload`](crate::Run::Offload)) then handles it in the session's own task, because a
    /// switch to the executor and back would cost more. Never called for nodes that handle several
    /// sets at a time.
    fn is_light(&self, _io: Self::Ports, _set: &InputSet) -> bool {
        false
    }

    /// Finishes the node: called once after the last `process`, and may still emit. Also called
    /// while the node is open and the session fails or is cancelled ([`Cx::status`] has the
    /// reason). Not called after a panic of the node or when the session is dropped.
    fn close(&mut self, _io: Self::Ports, _cx: &mut Cx<'_>) -> Result<()> {
        Ok(())
    }

    /// Describes an event outside the graph that the node waits for, in words that can follow
    /// "waits for", such as "tokens of engine `x`: slot 3". Returns `None` if only its inputs can
    /// make it continue.
    ///
    /// Called between two calls of the node, only while somebody looks at the session, and only if
    /// a [`Hold`](crate::Hold) or an [`EventSender`](crate::EventSender) keeps the node open. Must
    /// not block.
    fn waits_for(&self) -> Option<String> {
        Some(ANY_EVENT.to_owned())
    }
}

/// Description of the wait of a node that is kept open and does not describe it.
pub(crate) const ANY_EVENT: &str = "an event, or the release of its holds";

/// A node whose calls wait: they are futures, which the session polls while it runs other nodes.
///
/// A call owns its inputs, and its output leaves the node when the future is ready.
/// [`Emits::waits_for`] describes a pending call to observers of the session. The next call starts
/// after the previous one has ended, unless the contract allows overlapping calls
/// ([`Contract::parallel`]).
pub trait AsyncCalculator: Sized + Send + 'static {
    /// Name of the calculator in graph files. It ends in `Calculator`.
    const NAME: &'static str;
    /// Description for `graphmill describe`: one or a few sentences.
    const DOC: &'static str = NO_DOC;
    /// Message types that may carry the options. `<NAME>Options` is always accepted.
    const OPTION_NAMES: &'static [&'static str] = &[];
    /// Options of a node in a graph file.
    type Options: DeserializeOwned + JsonSchema + Default + Send + Sync + 'static;
    /// Handles of the ports. Each call gets a clone; wrap a large table of handles in an `Arc`.
    type Ports: Clone + Send + Sync + 'static;

    /// Declares the node's ports and behavior. Called at compile time.
    fn contract(c: &mut Contract, options: &Self::Options) -> Self::Ports;

    /// Makes the calculator of one session.
    fn open(options: &Self::Options, io: Self::Ports, cx: &mut OpenCx<'_>) -> Result<Self>;

    /// Handles one input set or one event.
    fn process(
        &mut self,
        io: Self::Ports,
        set: InputSet,
        out: &mut Emits,
    ) -> impl Future<Output = Result<Flow>> + Send;

    /// Finishes the node: called once after the last `process`, and may still emit. Also called
    /// while the node is open and the session fails or is cancelled ([`Cx::status`] has the
    /// reason). Not called after a panic of the node or when the session is dropped.
    fn close(&mut self, _io: Self::Ports, _cx: &mut Cx<'_>) -> Result<()> {
        Ok(())
    }
}

/// Options of a calculator that has none.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, serde::Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NoOptions {}
