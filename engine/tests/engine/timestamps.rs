//! The values of timestamps and their order.

use graphmill_engine::{
    Calculator, Contract, Cx, Flow, In, Offset, OpenCx, Out, Registry, Result, Timestamp,
    testing::Harness,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::engine::nodes::run;

const ALL: [Timestamp; 9] = [
    Timestamp::UNSET,
    Timestamp::UNSTARTED,
    Timestamp::PRE_STREAM,
    Timestamp::MIN,
    Timestamp::ZERO,
    Timestamp::MAX,
    Timestamp::POST_STREAM,
    Timestamp::ONE_OVER_POST_STREAM,
    Timestamp::DONE,
];

#[test]
fn the_special_values_are_in_order() {
    assert!(ALL.is_sorted_by(|a, b| a < b));
    let range: Vec<bool> = ALL.iter().map(|time| time.is_range()).collect();
    assert_eq!(
        range,
        [false, false, false, true, true, true, false, false, false]
    );
    let allowed: Vec<bool> = ALL.iter().map(|time| time.is_allowed_in_stream()).collect();
    assert_eq!(
        allowed,
        [false, false, true, true, true, true, true, false, false]
    );
}

#[test]
fn next_and_prev_skip_what_a_stream_cannot_hold() {
    use Timestamp as T;
    let next: Vec<Timestamp> = ALL.iter().map(|time| time.next()).collect();
    let over = T::ONE_OVER_POST_STREAM;
    assert_eq!(
        next,
        [
            T::MIN,
            T::MIN,
            over,
            T::MIN + 1,
            T::new(1),
            over,
            over,
            over,
            over
        ]
    );
    let prev: Vec<Timestamp> = ALL.iter().map(|time| time.prev()).collect();
    let before = T::UNSTARTED;
    assert_eq!(
        prev,
        [
            before,
            before,
            before,
            before,
            T::new(-1),
            T::MAX + -1,
            before,
            T::MAX,
            T::MAX
        ]
    );
}

#[test]
fn arithmetic_stays_in_range() {
    assert_eq!(Timestamp::MAX + 5, Timestamp::MAX);
    assert_eq!(Timestamp::MIN + -5, Timestamp::MIN);
    assert_eq!(Timestamp::new(i64::MAX), Timestamp::MAX);
    assert_eq!(Timestamp::POST_STREAM + 1, Timestamp::POST_STREAM);
    assert_eq!(Timestamp::new(7) - Timestamp::new(3), 4);
    assert_eq!(Timestamp::DONE.to_string(), "Done");
    assert_eq!(Timestamp::new(-3).to_string(), "-3");
}

fn pass() -> Harness {
    run(r#"node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }"#)
}

#[test]
fn timestamps_of_a_stream_ascend() {
    let mut harness = pass();
    harness.push("in", 5, "a").push("in", 3, "b");
    let error = harness.error();
    assert_eq!(error.kind, graphmill_engine::Kind::InvalidArgument);
    assert!(
        error
            .message
            .contains("must ascend: expected 6 or later, found 3"),
        "{error}"
    );
    assert_eq!(harness.packets("out").len(), 1);
}

#[test]
fn a_packet_needs_a_timestamp_that_a_stream_can_hold() {
    let mut harness = pass();
    for time in [
        Timestamp::UNSET,
        Timestamp::UNSTARTED,
        Timestamp::ONE_OVER_POST_STREAM,
        Timestamp::DONE,
    ] {
        let packet = graphmill_engine::Packet::new(time, "x");
        let refused = harness
            .handle()
            .try_push("in", packet)
            .expect_err("refused");
        assert!(refused.message.contains(&time.to_string()), "{refused}");
    }
    harness.push("in", 5, "a").expect("out", [(5, "a")]);
}

#[test]
fn a_packet_before_or_after_the_stream_is_alone() {
    let mut harness = pass();
    harness
        .push("in", Timestamp::PRE_STREAM, "header")
        .expect("out", [(Timestamp::PRE_STREAM, "header")]);
    harness.push("in", 1, "a");
    assert!(harness.error().message.contains("OneOverPostStream"));

    let mut harness = pass();
    harness
        .push("in", Timestamp::POST_STREAM, "summary")
        .expect("out", [(Timestamp::POST_STREAM, "summary")]);
    harness.finish();

    let mut harness = pass();
    harness
        .push("in", 1, "a")
        .push("in", Timestamp::POST_STREAM, "summary");
    assert!(harness.error().message.contains("the only packet"));
}

#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct ShiftOptions {
    /// The timestamp offset; without one, outputs are not tied to inputs.
    offset: Option<i64>,
}

/// Emits nothing but the timestamps of its calls, on an output of their own; without an input, it
/// is a source.
struct Shift(i64);

impl Calculator for Shift {
    const NAME: &'static str = "ShiftCalculator";
    type Options = ShiftOptions;
    type Ports = (In<()>, Out<()>, Out<String>);

    fn contract(c: &mut Contract, options: &ShiftOptions) -> Self::Ports {
        let ports = (c.optional(""), c.output(""), c.output("CALLS"));
        c.offset(options.offset.map_or(Offset::Unset, Offset::By));
        c.output_offset(ports.2, Offset::Unset);
        ports
    }

    fn open(_: &ShiftOptions, (_, _, calls): Self::Ports, cx: &mut OpenCx<'_>) -> Result<Self> {
        let time = cx.out().time().to_string();
        cx.emit_at(calls, 0, format!("open {time}"));
        Ok(Self(0))
    }

    fn process(&mut self, (input, _, calls): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        self.0 += 1;
        let time = cx.time();
        cx.emit_at(calls, self.0, format!("process {time}"));
        Ok(if input.is_connected() {
            Flow::Continue
        } else {
            Flow::Stop
        })
    }

    fn close(&mut self, (_, _, calls): Self::Ports, cx: &mut Cx<'_>) -> Result<()> {
        let time = cx.time();
        cx.emit(calls, format!("close {time}"));
        Ok(())
    }
}

fn shift(offset: &str) -> Harness {
    let text = format!(
        r#"node {{ calculator: "ShiftCalculator" input_stream: "in" output_stream: "out" output_stream: "CALLS:calls"
             node_options {{ [type.x/ShiftCalculatorOptions] {{ {offset} }} }} }}"#
    );
    let registry = Registry::new().with::<Shift>();
    Harness::new(&text, crate::engine::nodes::environment_with(registry))
}

/// Up to where the output is settled after an input at each of these timestamps, from a stream that
/// has nothing else.
#[track_caller]
fn settled(offset: &str, times: &[Timestamp]) -> Vec<Option<Timestamp>> {
    let after = |&time: &Timestamp| {
        let mut h = shift(offset);
        h.push("in", time, ());
        h.bounds("out").last().copied()
    };
    times.iter().map(after).collect()
}

#[test]
fn bounds_follow_the_offset_at_both_ends_of_the_time_line_too() {
    use Timestamp as T;
    let times = [T::new(5), T::MAX, T::POST_STREAM];
    let at = |time: i64| Some(T::new(time));
    assert_eq!(
        settled("", &times),
        [None, None, None],
        "without an offset nothing moves"
    );
    assert_eq!(
        settled("offset: 0", &times),
        [at(5), Some(T::POST_STREAM), Some(T::MAX)]
    );
    assert_eq!(
        settled("offset: 2", &times),
        [at(7), Some(T::POST_STREAM), Some(T::MAX)]
    );
    assert_eq!(
        settled("offset: -3", &times),
        [at(2), Some(T::MAX + -3), Some(T::MAX)]
    );
    // Before the first ordinary timestamp there is nothing to be settled.
    assert_eq!(settled("offset: 0", &[T::PRE_STREAM]), [None]);
}

#[test]
fn calls_know_their_time() {
    let calls = |h: &mut Harness| -> Vec<String> {
        let packets = h.packets("calls");
        packets
            .into_iter()
            .filter_map(graphmill_engine::Packet::into_value)
            .collect()
    };
    let mut h = shift("offset: 0");
    h.push("in", 5, ()).push("in", 8, ());
    h.finish();
    assert_eq!(
        calls(&mut h),
        ["open Unstarted", "process 5", "process 8", "close Done"]
    );
    let text = r#"node { calculator: "ShiftCalculator" output_stream: "out" output_stream: "CALLS:calls" }"#;
    let mut source = Harness::for_calculator::<Shift>(text);
    source.start();
    assert_eq!(
        calls(&mut source),
        ["open Unstarted", "process 0", "close Done"],
        "a source is called at 0"
    );
}
