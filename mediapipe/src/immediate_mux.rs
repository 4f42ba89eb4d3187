//! `ImmediateMuxCalculator`: merges streams in the order in which packets come.

use graphmill_engine::{
    Calculator, Contract, Cx, Flow, Ins, Offset, OpenCx, Out, Payload, Result, Timestamp, register,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// Options of an `ImmediateMuxCalculator` node.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ImmediateMuxOptions {
    /// Moves the bounds of the outputs with those of the inputs. Default: false.
    pub process_timestamp_bounds: bool,
}

/// Passes on each packet of any input whose timestamp is after that of the packet passed on before.
/// Packets with an earlier timestamp are dropped. Of two with the same timestamp, the one of the
/// later input is dropped. A second output gets `true` for each packet that came, dropped or not.
/// It can feed a flow limiter's `FINISHED`, for example.
///
/// With `ImmediateInputStreamHandler` no packet waits, and which ones are dropped depends on how
/// fast the inputs are. With the default policy no packet comes too late. If every packet counts,
/// use a `MuxCalculator`.
///
/// ```pbtxt
/// input_stream: "fast"
/// input_stream: "thorough"
/// output_stream: "newest"
/// output_stream: "finished"
/// node {
///   calculator: "ImmediateMuxCalculator"
///   input_stream: "fast"
///   input_stream: "thorough"
///   output_stream: "newest"
///   output_stream: "finished"
///   input_stream_handler { input_stream_handler: "ImmediateInputStreamHandler" }
/// }
/// ```
pub struct ImmediateMux {
    follow_bounds: bool,
    /// The smallest timestamp that can still be passed on.
    bound: Timestamp,
    /// The smallest timestamp that the second output can still have.
    finished_bound: Timestamp,
}

impl Calculator for ImmediateMux {
    const NAME: &'static str = "ImmediateMuxCalculator";
    const DOC: &'static str =
        "Passes packets of all inputs on as they come and drops those that come too late.";
    type Options = ImmediateMuxOptions;
    type Ports = (Ins<dyn Payload>, Out<dyn Payload>, Out<bool>);

    fn contract(c: &mut Contract, options: &ImmediateMuxOptions) -> Self::Ports {
        if options.process_timestamp_bounds {
            c.process_timestamp_bounds();
            c.offset(Offset::Unset);
        }
        let inputs = c.inputs_alike("");
        let output = match inputs.get(0) {
            Some(first) => c.same_as("", first),
            None => c.output(""),
        };
        (inputs, output, c.optional_output(":1"))
    }

    fn open(options: &ImmediateMuxOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self {
            follow_bounds: options.process_timestamp_bounds,
            bound: Timestamp::PRE_STREAM,
            finished_bound: Timestamp::PRE_STREAM,
        })
    }

    fn process(
        &mut self,
        (inputs, output, finished): Self::Ports,
        cx: &mut Cx<'_>,
    ) -> Result<Flow> {
        let now = cx.time();
        let mut any = false;
        for input in inputs.iter() {
            let Some(packet) = cx.take_packet(input) else {
                continue;
            };
            any = true;
            if packet.time >= self.bound {
                self.bound = packet.time.next();
                cx.out().emit_packet(output, packet);
            } else {
                tracing::debug!(node = %cx.node_name(), time = %packet.time, "dropped a packet that came too late");
            }
            let time = now.max(self.finished_bound);
            cx.emit_at(finished, time, true);
            self.finished_bound = time.next();
        }
        if self.follow_bounds && !any && now >= self.bound {
            self.bound = now.next();
            self.finished_bound = self.finished_bound.max(self.bound);
            if self.bound == Timestamp::ONE_OVER_POST_STREAM {
                cx.out().close(output);
                cx.out().close(finished);
            } else {
                cx.out().bound_at_least(output, self.bound);
                cx.out().bound_at_least(finished, self.bound);
            }
        }
        Ok(Flow::Continue)
    }
}
register!(ImmediateMux);

#[cfg(test)]
mod tests {
    use graphmill_engine::{Timestamp, testing::Harness};

    use super::ImmediateMux;

    fn mux(more: &str) -> Harness {
        Harness::for_calculator::<ImmediateMux>(&format!(
            r#"node {{ calculator: "ImmediateMuxCalculator" input_stream: "a" input_stream: "b"
                 output_stream: "out" output_stream: "finished" {more} }}"#
        ))
    }

    const IMMEDIATE: &str =
        r#"input_stream_handler { input_stream_handler: "ImmediateInputStreamHandler" }"#;

    #[test]
    fn what_comes_too_late_is_dropped() {
        let mut h = mux(IMMEDIATE);
        h.push("a", 10, "a10")
            .push("b", 5, "b5")
            .push("b", 10, "b10")
            .push("b", 11, "b11");
        h.expect("out", [(10, "a10"), (11, "b11")]);
        h.expect("finished", [10, 11, 12, 13].map(|time| (time, true)));
        h.finish();
    }

    #[test]
    fn with_the_default_policy_nothing_comes_too_late() {
        let mut h = mux("");
        h.push("a", 10, "a10")
            .push("b", 5, "b5")
            .push("b", 10, "b10");
        h.expect("out", [(5, "b5"), (10, "a10")]);
        h.finish();
    }

    #[test]
    fn bounds_are_followed_if_asked_for() {
        let options = "options { [mediapipe.ImmediateMuxCalculatorOptions.ext] { process_timestamp_bounds: true } }";
        let mut h = mux(&format!("{IMMEDIATE} {options}"));
        h.bound("a", 8).push("b", 5, "b5").push("b", 8, "b8");
        h.expect("out", [(8, "b8")]);
        assert_eq!(h.bounds("out"), [Timestamp::new(7)]);
        h.finish();
    }
}
