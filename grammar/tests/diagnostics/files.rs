//! Several mistakes in one file, and how lines are shown.

use super::graph;

#[test]
fn several_errors_in_one_file() {
    check!(
        r#"input_stream: "in"
num_threads: "four"
node {
  calculater: "A"
  input_stream "IMAGE:in"
  output_stream: "IMAGE:Out"
}
node {
  calculator: "B"
  name: "b
  max_in_flight: 1x
}
"#,
        @r#"
        error[GM0203]: `num_threads` takes an integer, not a string
         --> graph.pbtxt:2:14
          |
        2 | num_threads: "four"
          |              ^^^^^^ expected an integer

        error[GM0201]: `Node` has no field `calculater`
         --> graph.pbtxt:4:3
          |
        4 |   calculater: "A"
          |   ^^^^^^^^^^ unknown field
          |
        help: did you mean `calculator`?
          |
        4 -   calculater: "A"
        4 +   calculator: "A"
          |

        error[GM0105]: `:` is missing after `input_stream`
         --> graph.pbtxt:5:3
          |
        5 |   input_stream "IMAGE:in"
          |   ^^^^^^^^^^^^ ---------- before this value
          |   |
          |   expected `:` after this
          |
        help: write `input_stream: ..`
          |
        5 |   input_stream: "IMAGE:in"
          |               +

        error[GM0221]: `Out` is not a name of a stream or side packet
         --> graph.pbtxt:6:25
          |
        6 |   output_stream: "IMAGE:Out"
          |                         ^^^ names are lower-case letters, digits and `_`, and begin with no digit
          |
        help: write `out`
          |
        6 -   output_stream: "IMAGE:Out"
        6 +   output_stream: "IMAGE:out"
          |

        error[GM0110]: the string does not end on its line
          --> graph.pbtxt:10:9
           |
        10 |   name: "b
           |         ^^ no closing `"`
           |
           = help: a string ends on the line it begins on, with the quote it began with: `"`

        error[GM0112]: `1x` is no number
          --> graph.pbtxt:11:19
           |
        11 |   max_in_flight: 1x
           |                   ^ a space is missing between `1` and `x`
        "#
    );
}

#[test]
fn a_long_line_is_not_shown_whole() {
    check!(
        &format!("input_stream: \"{}\" colour: 3", "a".repeat(1000)),
        @r#"
        error[GM0201]: `CalculatorGraphConfig` has no field `colour`
          |
        1 | aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" colour: 3
          |                                                             ^^^^^^ unknown field
          |
          = note: at graph.pbtxt:1:1018; only a part of the line is shown
        "#
    );
}

#[test]
fn windows_line_ends_a_mark_and_tabs_keep_the_columns() {
    check!(
        "\u{FEFF}node {\r\n\tcalculator: \"A\"\r\n\t\tcolour: 3\r\n}\r\n",
        @r#"
        error[GM0201]: `Node` has no field `colour`
         --> graph.pbtxt:3:3
          |
        3 |         colour: 3
          |         ^^^^^^ unknown field
        "#
    );
}
