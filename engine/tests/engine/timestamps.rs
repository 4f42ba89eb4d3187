//! The values of timestamps and their order.

use graphmill_engine::{Timestamp, testing::Harness};

use crate::nodes::run;

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
            .contains("the next packet may be at 6 or later, but came at 3"),
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
    assert!(harness.error().message.contains("the only one"));
}
