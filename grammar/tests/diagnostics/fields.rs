//! Fields of a graph: their names, types and values, and options that have the wrong form.

use super::graph;

#[test]
fn an_unknown_field_with_a_near_name() {
    check!(
        r#"node {
  calculator: "A"
  input_steam: "in"
}
"#,
        @r#"
        error[GM0201]: `Node` has no field `input_steam`
         --> graph.pbtxt:3:3
          |
        3 |   input_steam: "in"
          |   ^^^^^^^^^^^ unknown field
          |
        help: did you mean `input_stream`?
          |
        3 |   input_stream: "in"
          |           +
        "#
    );
}

#[test]
fn an_unknown_field_like_no_other() {
    check!(
        r#"node {
  calculator: "A"
  colour: 3
}
"#,
        @r#"
        error[GM0201]: `Node` has no field `colour`
         --> graph.pbtxt:3:3
          |
        3 |   colour: 3
          |   ^^^^^^ unknown field
        "#
    );
}

#[test]
fn a_singular_field_twice() {
    check!(
        r#"num_threads: 4
node { calculator: "A" calculator: "B" }
num_threads: 8
"#,
        @r#"
        error[GM0202]: `calculator` is given twice
         --> graph.pbtxt:2:24
          |
        2 | node { calculator: "A" calculator: "B" }
          |                    --- ^^^^^^^^^^ given again here
          |                    |
          |                    first given here

        error[GM0202]: `num_threads` is given twice
         --> graph.pbtxt:3:1
          |
        1 | num_threads: 4
          |              - first given here
        2 | node { calculator: "A" calculator: "B" }
        3 | num_threads: 8
          | ^^^^^^^^^^^ given again here
        "#
    );
}

#[test]
fn wrong_types_of_values() {
    check!(
        r#"num_threads: "4"
max_queue_size: 1.5
report_deadlock: yes
package: mediapipe
node: "A"
input_stream { name: "in" }
"#,
        @r#"
        error[GM0203]: `num_threads` takes an integer, not a string
         --> graph.pbtxt:1:14
          |
        1 | num_threads: "4"
          |              ^^^ expected an integer
          |
        help: remove the quotes: `4`
          |
        1 - num_threads: "4"
        1 + num_threads: 4
          |

        error[GM0203]: `max_queue_size` takes an integer, not a floating-point number
         --> graph.pbtxt:2:17
          |
        2 | max_queue_size: 1.5
          |                 ^^^ expected an integer

        error[GM0203]: `report_deadlock` takes `true` or `false`, not `yes`
         --> graph.pbtxt:3:18
          |
        3 | report_deadlock: yes
          |                  ^^^ expected `true` or `false`
          |
        help: write `true`
          |
        3 - report_deadlock: yes
        3 + report_deadlock: true
          |

        error[GM0203]: `package` takes a string, not `mediapipe`
         --> graph.pbtxt:4:10
          |
        4 | package: mediapipe
          |          ^^^^^^^^^ expected a string
          |
        help: write it in quotes: `"mediapipe"`
          |
        4 - package: mediapipe
        4 + package: "mediapipe"
          |

        error[GM0203]: `node` takes a message in `{ .. }`, not a string
         --> graph.pbtxt:5:7
          |
        5 | node: "A"
          |       ^^^ expected a message in `{ .. }`

        error[GM0203]: `input_stream` takes a string, not a message
         --> graph.pbtxt:6:14
          |
        6 | input_stream { name: "in" }
          |              ^^^^^^^^^^^^^^ expected a string
        "#
    );
}

#[test]
fn numbers_out_of_range() {
    check!(
        r#"max_queue_size: 3000000000
runtime_info { capture_period_msec: -1 }
profiler_config { trace_log_capacity: 99999999999999999999 }
"#,
        @r#"
        error[GM0204]: the number for `max_queue_size` is out of range
         --> graph.pbtxt:1:17
          |
        1 | max_queue_size: 3000000000
          |                 ^^^^^^^^^^ expected an integer from -2147483648 to 2147483647

        error[GM0204]: the number for `capture_period_msec` is out of range
         --> graph.pbtxt:2:37
          |
        2 | runtime_info { capture_period_msec: -1 }
          |                                     ^^ expected an integer from 0 to 4294967295

        error[GM0204]: the number for `trace_log_capacity` is out of range
         --> graph.pbtxt:3:39
          |
        3 | profiler_config { trace_log_capacity: 99999999999999999999 }
          |                                       ^^^^^^^^^^^^^^^^^^^^ expected an integer from -9223372036854775808 to 9223372036854775807
        "#
    );
}

#[test]
fn a_list_for_a_single_value() {
    check!(
        r#"num_threads: [1, 2]"#,
        @r#"
        error[GM0205]: `num_threads` takes a single value, not a list
         --> graph.pbtxt:1:14
          |
        1 | num_threads: [1, 2]
          |              ^^^^^^ only repeated fields take a list
        "#
    );
}

#[test]
fn a_string_that_is_no_text() {
    check!(
        r#"node { calculator: "caf\xe9" }"#,
        @r#"
        error[GM0208]: the string for `calculator` is not UTF-8
         --> graph.pbtxt:1:20
          |
        1 | node { calculator: "caf\xe9" }
          |                    ^^^^^^^^^ its escapes produce bytes that are not text
        "#
    );
}

#[test]
fn a_node_without_a_calculator() {
    check!(
        r#"node {
  input_stream: "in"
}
"#,
        @r#"
        error[GM0207]: node without a `calculator`
         --> graph.pbtxt:1:1
          |
        1 | node {
          | ^^^^ which calculator does this node run?
          |
          = help: add `calculator: ".."` with the name of a calculator or subgraph
        "#
    );
}

#[test]
fn deprecated_fields_are_warnings() {
    check!(
        r#"node {
  calculator: "A"
  external_input: "x"
  profiler_config { enable_profiler: true }
}
"#,
        @r#"
        warning[GM0209]: `external_input` of `Node` is deprecated
         --> graph.pbtxt:3:3
          |
        3 |   external_input: "x"
          |   ^^^^^^^^^^^^^^
          |
          = help: it has no effect: use `input_side_packet`

        warning[GM0209]: `profiler_config` of `Node` is deprecated
         --> graph.pbtxt:4:3
          |
        4 |   profiler_config { enable_profiler: true }
          |   ^^^^^^^^^^^^^^^
          |
          = help: it has no effect on a node: set `profiler_config` of the graph
        "#
    );
}

#[test]
fn options_in_the_wrong_form() {
    check!(
        r#"node {
  calculator: "A"
  options { [type.googleapis.com/m.AOptions] { x: 1 } }
  node_options { [m.AOptions.ext] { x: 1 } }
  node_options { x: 1 }
  options_value: 1
}
"#,
        @r#"
        error[GM0211]: `options` takes extensions, not messages with a type URL
         --> graph.pbtxt:3:13
          |
        3 |   options { [type.googleapis.com/m.AOptions] { x: 1 } }
          |             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ type URL
          |
          = help: write `[m.AOptions.ext] { .. }`, or move it to `node_options` or `graph_options`

        error[GM0211]: `node_options` takes messages with a type URL, not extensions
         --> graph.pbtxt:4:18
          |
        4 |   node_options { [m.AOptions.ext] { x: 1 } }
          |                  ^^^^^^^^^^^^^^^^ extension
          |
          = help: write `[type.googleapis.com/m.AOptions] { .. }`, or move it to `options`

        error[GM0201]: `node_options` has no field `x`
         --> graph.pbtxt:5:18
          |
        5 |   node_options { x: 1 }
          |                  ^ unknown field
          |
          = help: write option fields in the message of their type: `[type.googleapis.com/mediapipe.X] { .. }`

        error[GM0201]: `Node` has no field `options_value`
         --> graph.pbtxt:6:3
          |
        6 |   options_value: 1
          |   ^^^^^^^^^^^^^ unknown field
          |
        help: did you mean `option_value`?
          |
        6 -   options_value: 1
        6 +   option_value: 1
          |
        "#
    );
}

#[test]
fn options_of_one_type_twice() {
    check!(
        r#"node {
  calculator: "A"
  node_options { [type.googleapis.com/m.AOptions] { x: 1 } }
  node_options { [type.googleapis.com/m.AOptions] { x: 2 } }
}
"#,
        @r#"
        error[GM0212]: options of type `m.AOptions` are given twice
         --> graph.pbtxt:4:18
          |
        3 |   node_options { [type.googleapis.com/m.AOptions] { x: 1 } }
          |                  -------------------------------- first given here
        4 |   node_options { [type.googleapis.com/m.AOptions] { x: 2 } }
          |                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ given again here
          |
          = help: join the two messages, or remove one
        "#
    );
}

#[test]
fn serialized_options() {
    check!(
        r#"node {
  calculator: "A"
  node_options { type_url: "type.googleapis.com/m.AOptions" value: "\020\001" }
}
"#,
        @r#"
        error[GM0213]: `node_options` holds serialized bytes
         --> graph.pbtxt:3:61
          |
        3 |   node_options { type_url: "type.googleapis.com/m.AOptions" value: "\020\001" }
          |                                                             ^^^^^ cannot be read
          |
          = help: write the message out: `[type.googleapis.com/mediapipe.X] { .. }`
        "#
    );
}

#[test]
fn a_file_of_another_kind() {
    check!(
        r#"detections {
  score: 0.5
}
"#,
        @r#"
        error[GM0214]: not a graph: `CalculatorGraphConfig` has no field `detections`
         --> graph.pbtxt:1:1
          |
        1 | detections {
          | ^^^^^^^^^^ unknown field
          |
          = help: none of the fields in this file is a field of a graph: it is another kind of message
        "#
    );
}
