//! `CallbackCalculator`: a function of the program that runs the graph.

use std::{fmt, sync::Arc};

use graphmill_engine::{
    Calculator, Contract, Cx, Error, Flow, Ins, OpenCx, Outs, Packet, Payload, Result, Side,
    Timestamp, register,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// A function as a value, given to a [`CallbackNode`] as the side packet `CALLBACK`. Nodes that
/// share it call it one after the other, and sessions on several threads call it at the same time,
/// so a function that changes state synchronizes it. An error ends the session.
///
/// ```
/// use std::sync::mpsc;
/// use graphmill_mediapipe::Callback;
///
/// let (sender, receiver) = mpsc::channel();
/// let callback = Callback::new(move |call| {
///     if let Some(text) = call.get::<String>(0) {
///         sender.send((call.time(), text.clone())).ok();
///     }
///     Ok(())
/// });
/// # drop((callback, receiver));
/// ```
#[derive(Clone)]
pub struct Callback(Arc<CallbackFunction>);

type CallbackFunction = dyn Fn(&mut Call<'_, '_>) -> Result<()> + Send + Sync;

impl Callback {
    /// Creates a callback that calls `function`.
    pub fn new(function: impl Fn(&mut Call<'_, '_>) -> Result<()> + Send + Sync + 'static) -> Self {
        Self(Arc::new(function))
    }
}

impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Callback")
    }
}

/// The inputs and outputs of one call of a [`Callback`]. Each input has a packet or none. Both are
/// counted from 0.
pub struct Call<'a, 'cx> {
    inputs: Ins<dyn Payload>,
    outputs: Outs<dyn Payload>,
    cx: &'a mut Cx<'cx>,
}

impl Call<'_, '_> {
    /// Returns the timestamp of the call.
    pub fn time(&self) -> Timestamp {
        self.cx.time()
    }

    /// Returns the packet on an input, if there is one in this call.
    pub fn packet(&self, input: usize) -> Option<&Packet> {
        self.cx.packet(self.inputs.get(input)?)
    }

    /// Returns the value on an input, if there is one in this call and it is a `T`.
    pub fn get<T: Payload>(&self, input: usize) -> Option<&T> {
        self.packet(input)?.get()
    }

    /// Iterates over all inputs: for each its packet, or `None`.
    pub fn packets(&self) -> impl Iterator<Item = Option<&Packet>> {
        self.inputs.iter().map(|input| self.cx.packet(input))
    }

    /// Emits a value at the call's timestamp. Fails if the graph does not connect this output.
    pub fn emit<T: Payload>(&mut self, output: usize, value: T) -> Result<()> {
        let time = self.time();
        self.emit_packet(output, Packet::new(time, value))
    }

    /// Emits a packet with its own timestamp. Fails if the graph does not connect this output.
    pub fn emit_packet(&mut self, output: usize, packet: Packet) -> Result<()> {
        let port = self.outputs.get(output).ok_or_else(|| {
            let connected = self.outputs.len();
            Error::precondition(format!(
                "the callback writes output {output}, but the graph connects {connected}"
            ))
        })?;
        self.cx.out().emit_packet(port, packet);
        Ok(())
    }
}

/// Options of a `CallbackCalculator` node.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CallbackOptions {
    /// Also calls the function, without packets, at each timestamp that is settled without one.
    pub observe_timestamp_bounds: bool,
}

/// Calls a function that the program gives as the side packet `CALLBACK`, a [`Callback`]. It is
/// called once for each timestamp, with the packets of all inputs there, and can emit on the
/// outputs. It should take less than 100 microseconds, unless the node is on an executor.
///
/// ```pbtxt
/// input_stream: "question"
/// input_stream: "hint"
/// input_side_packet: "ask"
/// output_stream: "answer"
/// node {
///   calculator: "CallbackCalculator"
///   input_stream: "question"
///   input_stream: "hint"
///   input_side_packet: "CALLBACK:ask"
///   output_stream: "answer"
/// }
/// ```
pub struct CallbackNode {
    callback: Callback,
}

impl Calculator for CallbackNode {
    const NAME: &'static str = "CallbackCalculator";
    const DOC: &'static str = "Calls a function of the program that runs the graph.";
    type Options = CallbackOptions;
    type Ports = (Ins<dyn Payload>, Outs<dyn Payload>, Side<Callback>);

    fn contract(c: &mut Contract, options: &CallbackOptions) -> Self::Ports {
        if options.observe_timestamp_bounds {
            c.process_timestamp_bounds();
        }
        let inputs = c.inputs("");
        let outputs = c.optional_outputs("");
        (inputs, outputs, c.side("CALLBACK"))
    }

    fn open(_: &CallbackOptions, (.., side): Self::Ports, cx: &mut OpenCx<'_>) -> Result<Self> {
        let callback = cx.side(side).cloned();
        Ok(Self {
            callback: callback.ok_or_else(|| Error::precondition("`CALLBACK` is not given"))?,
        })
    }

    fn process(&mut self, (inputs, outputs, _): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        (self.callback.0)(&mut Call {
            inputs,
            outputs,
            cx,
        })?;
        Ok(Flow::Continue)
    }
}
register!(CallbackNode);

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use graphmill_engine::{Error, Timestamp, testing::Harness};

    use super::{Callback, CallbackNode};

    fn harness(more: &str, callback: Callback) -> Harness {
        let graph = format!(
            r#"node {{ calculator: "CallbackCalculator" input_stream: "a" input_stream: "b"
                 input_side_packet: "CALLBACK:function" {more} }}"#
        );
        Harness::for_calculator::<CallbackNode>(&graph).side("function", callback)
    }

    type Seen = Arc<Mutex<Vec<(Timestamp, Option<i64>, Option<i64>)>>>;

    fn recorder() -> (Seen, Callback) {
        let seen = Seen::default();
        let log = Arc::clone(&seen);
        let callback = Callback::new(move |call| {
            let entry = (call.time(), call.get(0).copied(), call.get(1).copied());
            log.lock().expect("free").push(entry);
            Ok(())
        });
        (seen, callback)
    }

    #[test]
    fn one_call_has_the_packets_of_all_inputs() {
        let (seen, callback) = recorder();
        let mut h = harness("", callback);
        h.push("a", 1, 10_i64)
            .push("b", 1, 11_i64)
            .push("b", 2, 21_i64);
        h.finish();
        let expected = [(1.into(), Some(10), Some(11)), (2.into(), None, Some(21))];
        assert_eq!(*seen.lock().expect("free"), expected);
    }

    #[test]
    fn bounds_make_calls_if_asked_for() {
        let (seen, callback) = recorder();
        let options = "options { [graphmill.CallbackCalculatorOptions.ext] { observe_timestamp_bounds: true } }";
        let mut h = harness(options, callback);
        h.push("a", 1, 10_i64).bound("b", 5).bound("a", 5);
        h.finish();
        let expected = [(1.into(), Some(10), None), (4.into(), None, None)];
        assert_eq!(*seen.lock().expect("free"), expected);
    }

    #[test]
    fn it_can_emit() {
        let double = Callback::new(|call| match call.get::<i64>(0).copied() {
            Some(value) => call.emit(0, value * 2),
            None => Ok(()),
        });
        let mut h = harness(r#"output_stream: "out""#, double.clone());
        h.push("a", 1, 10_i64).push("b", 2, ()).close("a");
        h.expect("out", [(1, 20_i64)]).finish();
        let error = harness("", double)
            .push("a", 1, 1_i64)
            .bound("b", 2)
            .error();
        assert!(error.message.contains("writes output 0"));
    }

    #[test]
    fn its_error_ends_the_session() {
        let fail = Callback::new(|_| Err(Error::invalid("no more")));
        let error = harness("", fail).push("a", 1, 1_i64).bound("b", 2).error();
        assert_eq!(error.to_string(), "node `CallbackCalculator`: no more");
    }
}
