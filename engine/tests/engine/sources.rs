//! Source nodes: called while nothing else is to be done.

use crate::engine::nodes::run;

#[test]
fn a_source_runs_until_it_stops() {
    let mut h = run(r#"node { calculator: "CountCalculator" output_stream: "n" }"#);
    h.start().expect("n", [(0, 0_i64), (1, 1), (2, 2)]);
    assert!(h.ended());
}

#[test]
fn what_is_on_its_way_goes_first() {
    let mut h = run(r#"
        node { calculator: "CountCalculator" output_stream: "n" }
        node { calculator: "ProbeCalculator" input_stream: "n" output_stream: "CALLS:calls" }"#);
    h.start();
    assert_eq!(h.finish_calls(), ["0: ?", "1: ?", "2: ?", "close"]);
}

#[test]
fn sources_take_turns_by_their_time_lines() {
    let mut h = run(r#"
        node { calculator: "CountCalculator" output_stream: "a" node_options { [type.x/CountCalculatorOptions] { to: 2 } } }
        node { calculator: "CountCalculator" output_stream: "b" node_options { [type.x/CountCalculatorOptions] { to: 4 } } }
        node { calculator: "ProbeCalculator" input_stream: "a" input_stream: "b" output_stream: "CALLS:calls" }"#);
    h.start();
    assert_eq!(
        h.finish_calls(),
        ["0: ? ?", "1: ? ?", "2: - ?", "3: - ?", "close"]
    );
}

#[test]
fn a_higher_layer_starts_when_the_lower_is_done() {
    let mut h = run(r#"
        node { calculator: "CountCalculator" output_stream: "late" source_layer: 1 }
        node { calculator: "CountCalculator" output_stream: "early" }
        node { calculator: "ProbeCalculator" input_stream: "late" input_stream: "early" output_stream: "CALLS:calls"
               input_stream_handler { input_stream_handler: "ImmediateInputStreamHandler" } }"#);
    h.start();
    let calls = h.finish_calls();
    let early: Vec<&str> = calls
        .iter()
        .map(|call| call.split_once(": ").map_or("", |(_, inputs)| inputs))
        .collect();
    assert_eq!(early, ["- ?", "- ?", "- ?", "- -", "? -", "? -", "? -", ""]);
}

trait FinishCalls {
    fn finish_calls(&mut self) -> Vec<String>;
}

impl FinishCalls for graphmill_engine::testing::Harness {
    #[track_caller]
    fn finish_calls(&mut self) -> Vec<String> {
        assert!(self.ended(), "{}", self.why());
        crate::engine::nodes::calls(self)
    }
}
