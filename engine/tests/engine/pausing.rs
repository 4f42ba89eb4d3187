//! Inputs that a node pauses: packets stand in their queues until it goes on.

use std::sync::Arc;

use graphmill_engine::{
    Calculator, Contract, Cx, Environment, Flow, Hold, In, Kind, Offset, OpenCx, Out, Packet,
    Payload, Policy, Registry, Result, testing::Harness,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::engine::nodes;

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct OneByOneOptions {
    /// Whether something from outside is to come while it pauses.
    holds: bool,
}

/// Passes the first packet of `IN` on, and one more for each packet of `GO`.
struct OneByOne {
    holds: bool,
    hold: Option<Hold>,
}

impl Calculator for OneByOne {
    const NAME: &'static str = "OneByOneCalculator";
    type Options = OneByOneOptions;
    type Ports = (In<dyn Payload>, In<()>, Out<dyn Payload>);

    fn contract(c: &mut Contract, _: &OneByOneOptions) -> Self::Ports {
        c.policy(Policy::Immediate);
        c.offset(Offset::Unset);
        let input = c.any("IN");
        (input, c.input("GO"), c.same_as("OUT", input))
    }

    fn open(options: &OneByOneOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self {
            holds: options.holds,
            hold: None,
        })
    }

    fn process(&mut self, (input, go, out): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if cx.get(go).is_some() {
            cx.out().resume(input);
            self.hold = None;
        }
        if let Some(packet) = cx.take_packet(input) {
            cx.out().emit_packet(out, packet);
            cx.out().pause(input);
            self.hold = self.holds.then(|| cx.hold());
        }
        Ok(Flow::Continue)
    }
}

/// A graph of one such node, behind a node that fills its queue of two packets.
fn one_by_one(options: &str) -> Harness {
    let text = format!(
        r#"
        max_queue_size: 2
        input_stream: "in" input_stream: "go" output_stream: "out"
        node {{ name: "fill" calculator: "PassThroughCalculator" input_stream: "in" output_stream: "values" }}
        node {{ name: "valve" calculator: "OneByOneCalculator" input_stream: "IN:values" input_stream: "GO:go" output_stream: "OUT:out"
               node_options {{ [type.googleapis.com/OneByOneCalculatorOptions] {{ {options} }} }} }}"#
    );
    let registry = Registry::new().with::<OneByOne>();
    let environment: Environment = nodes::environment_with(registry);
    Harness::new(&text, environment)
}

#[test]
fn packets_stand_in_the_queue_until_it_goes_on() {
    let mut h = one_by_one("");
    for time in 0..4 {
        h.push("in", time, time * 10);
    }
    h.expect("out", [(0, 0_i64)]);
    for time in 1..4 {
        h.push("go", time, ());
        h.expect("out", [(time, time * 10)]);
    }
    // Nothing stands there: what comes is taken at once.
    h.push("go", 4, ()).expect_nothing("out");
    h.push("in", 4, 40_i64).expect("out", [(4, 40_i64)]);
    h.finish();
}

#[test]
fn whoever_makes_the_packets_waits_when_the_queue_is_full() {
    let mut h = one_by_one("holds: true");
    let mut pushed = 0;
    while pushed < 100
        && h.handle()
            .try_push("in", Packet::new(pushed, pushed))
            .is_ok()
    {
        h.settle();
        pushed += 1;
    }
    // One is taken; two are in each of the two queues.
    assert_eq!(pushed, 1 + 2 * 2);
    h.push("go", 0, ()).expect("out", [(0, 0_i64), (1, 1)]);
    h.push("in", pushed, pushed);
    for time in 1..pushed {
        h.push("go", time, ());
    }
    h.expect("out", (2..=pushed).map(|time| (time, time)));
    h.push("go", pushed, ());
    h.finish();
}

#[test]
fn a_queue_that_nothing_from_outside_opens_again_grows_instead() {
    let mut h = one_by_one("");
    for time in 0..50_i64 {
        h.push("in", time, time);
    }
    for time in 0..50_i64 {
        h.push("go", time, ());
    }
    h.expect("out", (0..50_i64).map(|time| (time, time)));
    h.finish();
}

#[test]
fn a_look_says_what_it_waits_for_and_not_what_stands_there() {
    let mut h = one_by_one("");
    for time in [0_i64, 1, 5] {
        h.push("in", time, time);
    }
    h.bound("go", 100);
    let why = h.why().to_string();
    assert!(
        why.contains("`valve` waits for graph input `go`, known before 100; it is not closed; 2 packets wait with it, the first at 1"),
        "{why}"
    );
}

#[test]
fn a_look_says_that_the_node_itself_has_paused() {
    let mut h = one_by_one("");
    h.push("in", 0, 0_i64).push("in", 1, 1_i64).close("go");
    let why = h.why().to_string();
    assert!(
        why.contains("`valve` has paused stream `values`, and takes its packets once it is called for something else"),
        "{why}"
    );
}

#[test]
fn closing_waits_for_what_stands_in_the_queue() {
    for options in ["", "holds: true"] {
        let mut h = one_by_one(options);
        h.push("in", 0, 0_i64).push("in", 1, 1_i64).close("in");
        h.expect("out", [(0, 0_i64)]);
        assert!(!h.ended());
        h.push("go", 0, ()).expect("out", [(1, 1_i64)]);
        h.push("go", 1, ());
        h.finish();
    }
}

#[test]
fn packets_that_nothing_can_let_in_are_an_error() {
    let mut h = one_by_one("");
    for time in 0..3_i64 {
        h.push("in", time, time);
    }
    let error = h.close_all().error();
    assert_eq!(error.kind, Kind::FailedPrecondition);
    assert_eq!(
        error.to_string(),
        "node `valve`: deadlock: the node has paused stream `values`, on which 2 packets wait, the first at 1, and nothing \
         can come after which it would take them"
    );
    // Where nothing stands in the queue there is nothing to lose.
    let mut h = one_by_one("");
    h.push("in", 0, 0_i64).close_all();
    h.expect("out", [(0, 0_i64)]);
    h.finish();
}

#[test]
fn a_session_that_ends_while_it_pauses_frees_its_packets() {
    for cancelled in [true, false] {
        for options in ["", "holds: true"] {
            let alive = Arc::new(());
            let mut h = one_by_one(options);
            for time in 0..3 {
                h.push("in", time, Arc::clone(&alive));
            }
            h.packets("out");
            h.packets("values");
            h.packets("in");
            assert_eq!(Arc::strong_count(&alive), 1 + 2, "two stand in the queue");
            if cancelled {
                h.handle().cancel();
                assert_eq!(h.settle().error().kind, Kind::Cancelled);
            } else {
                h.drop_session();
            }
            assert_eq!(Arc::strong_count(&alive), 1);
        }
    }
}
