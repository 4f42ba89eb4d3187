//! Braces, brackets, colons, separators and lists.

use super::graph;

#[test]
fn an_assignment_sign_for_a_colon() {
    check!(
        r#"node {
  calculator = "PassThroughCalculator"
  input_stream: "in"
}
"#,
        @r#"
        error[GM0101]: expected `:` or `{` after `calculator`, found `=`
         --> graph.pbtxt:2:14
          |
        2 |   calculator = "PassThroughCalculator"
          |              ^ expected `:` or `{`
          |
        help: write `calculator: ..`
          |
        2 -   calculator = "PassThroughCalculator"
        2 +   calculator: "PassThroughCalculator"
          |
        "#
    );
}

#[test]
fn an_unclosed_brace_shows_where_the_indentation_says_so() {
    check!(
        r#"node {
  calculator: "A"
  options {
    [m.A.ext] { x: 1 }
}
node {
  calculator: "B"
}
"#,
        @r#"
        error[GM0102]: unclosed `{`
         --> graph.pbtxt:3:11
          |
        1 | node {
          |      - the `}` below is indented like this
        2 |   calculator: "A"
        3 |   options {
          |           ^ opened here
        4 |     [m.A.ext] { x: 1 }
        5 | }
          | - `}` is missing before this line
        "#
    );
}

#[test]
fn an_unclosed_brace_before_the_next_node() {
    check!(
        r#"node {
  calculator: "A"

node {
  calculator: "B"
}
"#,
        @r#"
        error[GM0102]: unclosed `{`
         --> graph.pbtxt:1:6
          |
        1 | node {
          |      ^ opened here
        ...
        4 | node {
          |      - by its indentation, this stands outside already
          |
          = help: add `}` before it
        "#
    );
}

#[test]
fn an_unclosed_brace_at_the_end() {
    check!(
        r#"node { calculator: "A""#,
        @r#"
        error[GM0102]: unclosed `{`
         --> graph.pbtxt:1:6
          |
        1 | node { calculator: "A"
          |      ^ opened here    - the file ends without `}`
        "#
    );
}

#[test]
fn an_unmatched_brace() {
    check!(
        r#"node {
  calculator: "A"
}
}
"#,
        @r#"
        error[GM0103]: unmatched `}`
         --> graph.pbtxt:4:1
          |
        4 | }
          | ^ closes nothing
          |
          = help: remove it, or add the missing `{` before it
        "#
    );
}

#[test]
fn a_list_closed_by_a_brace() {
    check!(
        r#"input_stream: ["a", "b"}"#,
        @r#"
        error[GM0102]: unclosed `[`
         --> graph.pbtxt:1:15
          |
        1 | input_stream: ["a", "b"}
          |               ^        - expected `]`, found `}`
          |               |
          |               opened here
          |
        help: write `]`
          |
        1 - input_stream: ["a", "b"}
        1 + input_stream: ["a", "b"]
          |
        "#
    );
}

#[test]
fn a_missing_bracket_inside_a_message() {
    check!(
        r#"node {
  input_stream: ["a", "b"
  calculator: "A"
}
"#,
        @r#"
        error[GM0102]: unclosed `[`
         --> graph.pbtxt:2:17
          |
        1 | node {
          |      - this is what `}` closes
        2 |   input_stream: ["a", "b"
          |                 ^ opened here
        3 |   calculator: "A"
        4 | }
          | - `]` is missing before this `}`
        "#
    );
}

#[test]
fn a_missing_colon() {
    check!(
        r#"node {
  calculator: "A"
  output_stream "out"
}
"#,
        @r#"
        error[GM0105]: `:` is missing after `output_stream`
         --> graph.pbtxt:3:3
          |
        3 |   output_stream "out"
          |   ^^^^^^^^^^^^^ ----- before this value
          |   |
          |   expected `:` after this
          |
        help: write `output_stream: ..`
          |
        3 |   output_stream: "out"
          |                +
        "#
    );
}

#[test]
fn a_field_without_a_value() {
    check!(
        r#"node {
  calculator: "A"
  name:
}
"#,
        @r#"
        error[GM0106]: `name` has no value
         --> graph.pbtxt:3:3
          |
        3 |   name:
          |   ^^^^^ expected a value after this
        "#
    );
}

#[test]
fn a_message_without_a_name() {
    check!(
        r#"{
  calculator: "A"
}
"#,
        @r#"
        error[GM0107]: message without a field name
         --> graph.pbtxt:1:1
          |
        1 | {
          | ^ expected a field's name before this
          |
          = help: write `name { .. }` with the name of the field
        "#
    );
}

#[test]
fn two_separators() {
    check!(
        r#"input_stream: "a",, output_stream: "b""#,
        @r#"
        error[GM0108]: `,` separates nothing
         --> graph.pbtxt:1:19
          |
        1 | input_stream: "a",, output_stream: "b"
          |                   ^ no field before it
          |
        help: remove it
          |
        1 - input_stream: "a",, output_stream: "b"
        1 + input_stream: "a", output_stream: "b"
          |
        "#
    );
}

#[test]
fn malformed_lists() {
    check!(
        r#"input_stream: ["a",]
output_stream: ["a" "b", , "c"]
input_side_packet: ["a", ["b"]]
num_threads: [1 2]
"#,
        @r#"
        error[GM0109]: `,` after the last value of a list
         --> graph.pbtxt:1:19
          |
        1 | input_stream: ["a",]
          |                   ^ expected a value after this

        error[GM0109]: `,` without a value before it
         --> graph.pbtxt:2:26
          |
        2 | output_stream: ["a" "b", , "c"]
          |                          ^ expected a value

        error[GM0109]: list within a list
         --> graph.pbtxt:3:26
          |
        3 | input_side_packet: ["a", ["b"]]
          |                          ^^^^^ a list holds no lists

        error[GM0205]: `num_threads` takes a single value, not a list
         --> graph.pbtxt:4:14
          |
        4 | num_threads: [1 2]
          |              ^^^^^ only repeated fields take a list

        error[GM0109]: `,` is missing between two values of a list
         --> graph.pbtxt:4:17
          |
        4 | num_threads: [1 2]
          |                 ^ expected `,` before this
        "#
    );
}
