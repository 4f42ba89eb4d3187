//! Whole switches, expanded and run.

use graphmill_engine::{
    Environment, Registry, Timestamp,
    testing::{Harness, check},
};

/// A switch between passing on and dropping.
fn switch(ports: &str, options: &str) -> String {
    format!(
        r#"node {{ calculator: "SwitchContainer" input_stream: "in" output_stream: "out" {ports}
             options {{ [mediapipe.SwitchContainerOptions.ext] {{ {options}
               contained_node {{ calculator: "PassThroughCalculator" }}
               contained_node {{ calculator: "GateCalculator" }} }} }} }}"#
    )
}

fn problems(graph: &str) -> String {
    check(graph, &Environment::new(Registry::global()))
}

#[test]
fn without_a_choice_the_first_node_works() {
    let mut h = Harness::global(&switch("", ""));
    h.push("in", 1, 1_i64).expect("out", [(1, 1_i64)]).finish();
}

#[test]
fn side_packets_and_options_choose_once_for_all() {
    for (ports, options, passes) in [
        ("", "select: 1", false),
        ("", "enable: true", false),
        ("", "enable: false", true),
        (r#"input_side_packet: "SELECT:zero""#, "select: 1", true),
        (r#"input_side_packet: "SELECT:one""#, "", false),
        (r#"input_side_packet: "ENABLE:no""#, "enable: true", true),
        (r#"input_side_packet: "ENABLE:yes""#, "", false),
    ] {
        let mut h = Harness::global(&switch(ports, options));
        if let Some((_, name)) = ports.trim_end_matches('"').rsplit_once(':') {
            h = match name {
                "zero" => h.side(name, 0_i64),
                "one" => h.side(name, 1_i64),
                _ => h.side(name, name == "yes"),
            };
        }
        h.push("in", 1, 1_i64);
        assert_eq!(h.packets("out").len() == 1, passes, "{ports} {options}");
        h.finish();
    }
}

#[test]
fn a_number_without_a_channel_is_an_error() {
    let mut h = Harness::global(&switch(r#"input_stream: "SELECT:which""#, ""));
    let error = h.push("which", 1, 7_i64).push("in", 1, 1_i64).error();
    assert!(error.message.contains("`SELECT` is 7"), "{error}");
}

#[test]
fn a_choice_on_a_stream_holds_for_what_comes_after() {
    let mut h = Harness::global(&switch(r#"input_stream: "SELECT:which""#, ""));
    h.bound("which", 2)
        .push("in", 1, 1_i64)
        .expect("out", [(1, 1_i64)]);
    h.push("which", 2, 1_i64)
        .push("in", 3, 3_i64)
        .bound("which", 4)
        .expect_nothing("out");
    h.push("which", 4, 0_i64)
        .push("in", 5, 5_i64)
        .push("in", 6, 6_i64);
    h.bound("which", 7);
    h.expect("out", [(5, 5_i64), (6, 6)]).finish();
}

#[test]
fn a_packet_waits_for_its_choice() {
    let mut h = Harness::global(&switch(r#"input_stream: "ENABLE:gated""#, ""));
    h.push("in", 1, 1_i64).expect_nothing("out");
    h.bound("gated", 2).expect("out", [(1, 1_i64)]);
    h.finish();
}

#[test]
fn channels_have_all_ports_of_the_container() {
    let graph = r#"
        node { calculator: "SwitchContainer" input_stream: "A:a" input_stream: "B:0:b" input_stream: "B:1:b"
          output_stream: "A:x" output_stream: "B:0:y" output_stream: "B:1:z" input_stream: "SELECT:which"
          options { [mediapipe.SwitchContainerOptions.ext] { tick_input_stream: "A"
            contained_node { calculator: "PassThroughCalculator" }
            contained_node { calculator: "BypassCalculator"
              options { [mediapipe.BypassCalculatorOptions.ext] { pass_input_stream: "B:1" pass_output_stream: "B:1" } } } } } }"#;
    assert_eq!(problems(graph), "");
    let mut h = Harness::global(graph);
    h.push("which", 0, 1_i64)
        .push("a", 1, "a")
        .push("b", 2, "b")
        .push("a", 5, "a5");
    h.bound("which", 6);
    h.expect_nothing("x")
        .expect_nothing("y")
        .expect("z", [(2, "b")]);
    h.finish();
}

#[test]
fn side_packets_go_through_the_chosen_node() {
    let graph = |select: i32| {
        format!(
            r#"node {{ calculator: "SwitchContainer" input_side_packet: "text" output_side_packet: "number"
                 options {{ [mediapipe.SwitchContainerOptions.ext] {{ select: {select}
                   contained_node {{ calculator: "StringToIntCalculator" }}
                   contained_node {{ calculator: "StringToIntCalculator" }} }} }} }}
               node {{ calculator: "SidePacketToStreamCalculator" input_side_packet: "number" output_stream: "AT_ZERO:out" }}"#
        )
    };
    let mut h = Harness::global(&graph(1)).side("text", "42".to_owned());
    h.start().expect("out", [(0, 42_i64)]);
}

#[test]
fn a_switch_may_contain_a_switch() {
    let inner = r#"contained_node { calculator: "SwitchContainer"
        options { [mediapipe.SwitchContainerOptions.ext] { contained_node { calculator: "PassThroughCalculator" } } } }"#;
    let mut h = Harness::global(&format!(
        r#"node {{ calculator: "SwitchContainer" input_stream: "in" output_stream: "out"
             options {{ [mediapipe.SwitchContainerOptions.ext] {{ {inner} }} }} }}"#
    ));
    h.push("in", 1, "x").expect("out", [(1, "x")]).finish();
}

#[test]
fn bounds_pass_through_the_chosen_node() {
    let mut h = Harness::global(&switch("", ""));
    h.bound("in", 5);
    assert_eq!(h.bounds("out"), [Timestamp::new(4)]);
    h.finish();
}

#[test]
fn mistakes_are_found_where_they_are_written() {
    let contradiction = switch(
        r#"input_stream: "SELECT:a" input_stream: "ENABLE:b""#,
        "select: 1 enable: true",
    );
    let empty = r#"node { calculator: "SwitchContainer" input_stream: "in" output_stream: "out" }"#;
    let inside = r#"node { calculator: "SwitchContainer" input_stream: "in" output_stream: "out"
      options { [mediapipe.SwitchContainerOptions.ext] {
        contained_node { calculator: "PasThroughCalculator" }
        contained_node { calculator: "GateCalculator" options { [mediapipe.GateCalculatorOptions.ext] { alow: true } } }
        contained_node { calculator: "PassThroughCalculator" input_stream: "in" } } } }"#;
    let ports = r#"node { calculator: "SwitchContainer" input_stream: "VIDEO:in" output_stream: "out"
      options { [mediapipe.SwitchContainerOptions.ext] { tick_input_stream: "AUDIO"
        contained_node { calculator: "MergeCalculator" } } } }"#;
    insta::assert_snapshot!(problems(&contradiction));
    insta::assert_snapshot!(problems(empty));
    insta::assert_snapshot!(problems(inside));
    insta::assert_snapshot!(problems(ports));
}
