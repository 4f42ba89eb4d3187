use super::PacketResamplerOptions;
use graphmill_engine::{
    Environment, Kind, Registry, Timestamp,
    testing::{Harness, check},
};

fn graph(options: &str) -> String {
    format!(
        r#"node {{ calculator: "PacketResamplerCalculator" input_stream: "DATA:in" output_stream: "DATA:out"
           options {{ [mediapipe.PacketResamplerCalculatorOptions.ext] {{ {options} }} }} }}"#
    )
}

/// The timestamps that come out, with those the packets came in at.
fn resampled(options: &str, times: &[i64]) -> Vec<(i64, i64)> {
    let mut harness = Harness::global(&graph(options));
    for time in times {
        harness.push("in", *time, *time);
    }
    harness.finish();
    let packets = harness.packets("out");
    packets
        .iter()
        .map(|packet| (packet.time.value(), *packet.get().expect("an integer")))
        .collect()
}

#[test]
fn each_timestamp_of_the_grid_gets_the_nearest_packet() {
    // A grid of 100000; of 460000 and 540000, equally near to 500000, the later one.
    let times = [
        0, 90_000, 130_000, 210_000, 260_000, 350_001, 460_000, 540_000,
    ];
    assert_eq!(
        resampled("frame_rate: 10", &times),
        [
            (0, 0),
            (100_000, 90_000),
            (200_000, 210_000),
            (300_000, 260_000),
            (400_000, 350_001),
            (500_000, 540_000),
        ]
    );
}

#[test]
fn gaps_repeat_the_packet_before_them() {
    assert_eq!(
        resampled("frame_rate: 10", &[5, 300_005]),
        [(5, 5), (100_005, 5), (200_005, 5), (300_005, 300_005)]
    );
}

#[test]
fn the_last_packet_is_flushed_or_not() {
    let times = [0, 100_000, 160_000];
    let kept = [(0, 0), (100_000, 100_000)];
    let flushed = resampled("frame_rate: 10", &times);
    assert_eq!(flushed, [kept[0], kept[1], (200_000, 160_000)]);
    let not = "frame_rate: 10 flush_last_packet: false";
    assert_eq!(resampled(not, &times), kept);
}

#[test]
fn the_grid_can_be_aligned() {
    assert_eq!(
        resampled(
            "frame_rate: 10 base_timestamp: 1000007",
            &[320_000, 400_000]
        ),
        [(300_007, 320_000), (400_007, 400_000)]
    );
}

#[test]
fn limits_cut_the_output_and_can_be_rounded() {
    let times: Vec<i64> = (0..6).map(|number| number * 100_000).collect();
    let out = |more: &str| {
        let options = format!("frame_rate: 10 start_time: 140000 end_time: 380000 {more}");
        let packets = resampled(&options, &times);
        packets.iter().map(|(time, _)| *time).collect::<Vec<_>>()
    };
    assert_eq!(out(""), [200_000, 300_000]);
    assert_eq!(
        out("round_limits: true"),
        [100_000, 200_000, 300_000, 400_000]
    );
}

#[test]
fn what_comes_next_is_known() {
    let mut harness = Harness::global(&graph("frame_rate: 10"));
    harness.push("in", 0, 0_i64);
    assert_eq!(harness.bounds("out"), [Timestamp::new(99_999)]);
}

#[test]
fn a_gap_without_end_is_refused() {
    let mut harness = Harness::global(&graph("frame_rate: 1000000"));
    harness.push("in", 0, 0_i64).push("in", i64::MAX / 2, 1_i64);
    assert_eq!(harness.error().kind, Kind::ResourceExhausted);
}

#[test]
fn options_can_come_as_a_side_packet() {
    let graph = r#"node { calculator: "PacketResamplerCalculator" input_stream: "in" output_stream: "out"
        input_side_packet: "OPTIONS:given" }"#;
    let given = |options: PacketResamplerOptions| Harness::global(graph).side("given", options);
    let ten = PacketResamplerOptions {
        frame_rate: 10.0,
        ..PacketResamplerOptions::default()
    };
    let mut harness = given(ten);
    harness.push("in", 0, 0_i64).push("in", 200_000, 1_i64);
    harness.finish();
    let times: Vec<i64> = harness
        .packets("out")
        .iter()
        .map(|packet| packet.time.value())
        .collect();
    assert_eq!(times, [0, 100_000, 200_000]);
    let error = given(PacketResamplerOptions::default()).error();
    assert!(
        error.to_string().contains("`frame_rate` has to be above 0"),
        "{error}"
    );
}

#[test]
fn options_that_make_no_sense_are_refused() {
    for (options, message) in [
        ("", "`frame_rate` has to be above 0"),
        ("frame_rate: 2000000", "at most 1000000"),
        ("frame_rate: 10 jitter: 0.5", "`jitter` is not supported"),
    ] {
        let found = check(&graph(options), &Environment::new(Registry::global()));
        assert!(found.contains(message), "{options}:\n{found}");
    }
}
