//! What people see when a graph file is wrong: one test a kind of mistake, and some files with several. Long, because each
//! test holds the whole text that a person sees, and one page of all of them is what shows whether they speak alike.
#![allow(
    clippy::needless_raw_string_hashes,
    reason = "all texts are written alike"
)]

use graphmill_grammar::{SourceMap, from_options, parse_graph};
use serde::Deserialize;

mod common;

/// Diagnostics of a graph file.
fn graph(text: &str) -> String {
    let (sources, parsed) = common::parsed(text);
    common::shown(&sources, &parsed.diagnostics)
}

macro_rules! check {
    ($text:expr, @$shown:literal) => {
        insta::assert_snapshot!(graph($text), @$shown)
    };
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(dead_code, reason = "only what is wrong with them matters")]
struct Options {
    models_path: String,
    cache_size: u32,
    temperature: f32,
    dynamic_split_fuse: bool,
    stop: Vec<String>,
    device: Device,
    draft: Option<Draft>,
}

#[derive(Debug, Default, Deserialize)]
#[allow(dead_code, reason = "only what is wrong with them matters")]
struct Draft {
    models_path: String,
    #[serde(default)]
    tokens: Option<std::num::NonZeroU8>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum Device {
    #[default]
    Cpu,
    CudaGpu,
}

/// Diagnostics of the body of a node's options.
fn options(body: &str) -> String {
    let text = format!(
        "node {{\n  calculator: \"LLMCalculator\"\n  node_options {{\n    [type.googleapis.com/mediapipe.LLMCalculatorOptions] {{\n{body}\n    }}\n  }}\n}}\n"
    );
    let mut sources = SourceMap::new();
    let parsed = parse_graph(&mut sources, "graph.pbtxt", text);
    let (graph, _) = parsed
        .into_result()
        .expect("the graph around the options is sound");
    let options = graph.node[0]
        .all_options()
        .next()
        .expect("the node has options");
    let diagnostics =
        from_options::<Options>(options).expect_err("something is wrong with the options");
    common::shown(&sources, &diagnostics)
}

macro_rules! check_options {
    ($body:expr, @$shown:literal) => {
        insta::assert_snapshot!(options($body), @$shown)
    };
}

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

#[test]
fn a_string_without_an_end() {
    check!(
        r#"node {
  calculator: "A
  input_stream: "in"
}
"#,
        @r#"
        error[GM0110]: the string does not end on its line
         --> graph.pbtxt:2:15
          |
        2 |   calculator: "A
          |               ^^ no closing `"`
          |
          = help: a string ends on the line it begins on, with the quote it began with: `"`
        "#
    );
}

#[test]
fn a_string_that_swallows_a_brace() {
    check!(
        r#"node { calculator: "A }
node { calculator: "B" }
"#,
        @r#"
        error[GM0110]: the string does not end on its line
         --> graph.pbtxt:1:20
          |
        1 | node { calculator: "A }
          |                    ^^^^ no closing `"`
          |
          = help: a string ends on the line it begins on, with the quote it began with: `"`
        "#
    );
}

#[test]
fn unknown_escapes() {
    check!(
        r#"node {
  calculator: "A"
  name: "C:\models\x"
}
"#,
        @r#"
        error[GM0111]: invalid escape sequence in a string
         --> graph.pbtxt:3:12
          |
        3 |   name: "C:\models\x"
          |            ^^ `\m` is no escape sequence
          |
        help: write a backslash itself as `\\`
          |
        3 |   name: "C:\\models\x"
          |            +

        error[GM0111]: invalid escape sequence in a string
         --> graph.pbtxt:3:19
          |
        3 |   name: "C:\models\x"
          |                   ^^ `\x` must be followed by hexadecimal digits
          |
        help: write a backslash itself as `\\`
          |
        3 |   name: "C:\models\\x"
          |                   +
        "#
    );
}

#[test]
fn malformed_numbers() {
    check!(
        r#"num_threads: 08
max_queue_size: 10k
runtime_info { capture_period_msec: 0x }
node { calculator: "A" options { [m.A.ext] { x: 1.5.2 y: 1e } } }
"#,
        @r#"
        error[GM0112]: `08` is no number
         --> graph.pbtxt:1:15
          |
        1 | num_threads: 08
          |               ^ a number with a leading zero is octal: its digits are 0 to 7

        error[GM0112]: `10k` is no number
         --> graph.pbtxt:2:19
          |
        2 | max_queue_size: 10k
          |                   ^ a space is missing between `10` and `k`

        error[GM0112]: `0x` is no number
         --> graph.pbtxt:3:37
          |
        3 | runtime_info { capture_period_msec: 0x }
          |                                     ^^ `0x` must be followed by hexadecimal digits

        error[GM0112]: `1.5.2` is no number
         --> graph.pbtxt:4:52
          |
        4 | node { calculator: "A" options { [m.A.ext] { x: 1.5.2 y: 1e } } }
          |                                                    ^ a number has one decimal point, before the exponent

        error[GM0112]: `1e` is no number
         --> graph.pbtxt:4:59
          |
        4 | node { calculator: "A" options { [m.A.ext] { x: 1.5.2 y: 1e } } }
          |                                                           ^ `e` must be followed by an exponent
        "#
    );
}

#[test]
fn malformed_names_in_brackets() {
    check!(
        r#"node {
  calculator: "A"
  options { [m..ext] { } }
  node_options { [type.googleapis.com/] { } }
  node_options { [type.googleapis.com/m.A B] { } }
  node_options { [type.googleapis.com/ /m.A] { } }
  node_options { [type.googleapis.com/ *c/m.A] { } }
}
"#,
        @r#"
        error[GM0113]: `[m..ext]` is no name of an extension or message type
         --> graph.pbtxt:3:13
          |
        3 |   options { [m..ext] { } }
          |             ^^^^^^^^ expected words of letters, digits and `_` with `.` between
          |
          = help: write `[package.Type.ext]` or `[type.googleapis.com/package.Type]`

        error[GM0113]: `[type.googleapis.com/]` is no name of an extension or message type
         --> graph.pbtxt:4:18
          |
        4 |   node_options { [type.googleapis.com/] { } }
          |                  ^^^^^^^^^^^^^^^^^^^^^^ expected a message type's full name after the last `/`
          |
          = help: write `[package.Type.ext]` or `[type.googleapis.com/package.Type]`

        error[GM0113]: `[type.googleapis.com/m.A B]` is no name of an extension or message type
         --> graph.pbtxt:5:42
          |
        5 |   node_options { [type.googleapis.com/m.A B] { } }
          |                                          ^ a space may stand only beside `.` and `/`
          |
          = help: write `[package.Type.ext]` or `[type.googleapis.com/package.Type]`

        error[GM0113]: `[type.googleapis.com/ /m.A]` is no name of an extension or message type
         --> graph.pbtxt:6:18
          |
        6 |   node_options { [type.googleapis.com/ /m.A] { } }
          |                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^ a part of the URL prefix is empty or begins with `*`
          |
          = help: write `[package.Type.ext]` or `[type.googleapis.com/package.Type]`

        error[GM0113]: `[type.googleapis.com/ *c/m.A]` is no name of an extension or message type
         --> graph.pbtxt:7:18
          |
        7 |   node_options { [type.googleapis.com/ *c/m.A] { } }
          |                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ a part of the URL prefix is empty or begins with `*`
          |
          = help: write `[package.Type.ext]` or `[type.googleapis.com/package.Type]`
        "#
    );
}

#[test]
fn comments_of_other_languages() {
    check!(
        r#"// the input
input_stream: "in" /* of
 the { graph */
"#,
        @r#"
        error[GM0114]: this is no comment in a graph file
         --> graph.pbtxt:1:1
          |
        1 | // the input
          | ^^^^^^^^^^^^ comments begin with `#`

        error[GM0114]: this is no comment in a graph file
         --> graph.pbtxt:2:20
          |
        2 |   input_stream: "in" /* of
          |  ____________________^
        3 | |  the { graph */
          | |_______________^ comments begin with `#`
        "#
    );
}

#[test]
fn curly_quotes() {
    check!(
        r#"node {
  calculator: “PassThroughCalculator”
}
"#,
        @r#"
        error[GM0101]: expected a value for `calculator`, found `“PassThroughCalculator`
         --> graph.pbtxt:2:15
          |
        2 |   calculator: “PassThroughCalculator”
          |               ^^^^^^^^^^^^^^^^^^^^^^ expected a value
          |
          = help: write strings in straight quotes: `".."`
        "#
    );
}

#[test]
fn a_path_without_quotes() {
    check!(
        r#"node {
  calculator: "A"
  options { [m.A.ext] { models_path: ./models/llama.gguf } }
}
"#,
        @r#"
        error[GM0101]: expected a value for `models_path`, found `./models/llama.gguf`
         --> graph.pbtxt:3:38
          |
        3 |   options { [m.A.ext] { models_path: ./models/llama.gguf } }
          |                                      ^^^^^^^^^^^^^^^^^^^ expected a value
          |
        help: strings stand in quotes
          |
        3 -   options { [m.A.ext] { models_path: ./models/llama.gguf } }
        3 +   options { [m.A.ext] { models_path: "./models/llama.gguf" } }
          |
        "#
    );
}

#[test]
fn a_word_with_dots_without_quotes() {
    check!(
        r#"node {
  calculator: my.PassThroughCalculator
}
"#,
        @r#"
        error[GM0101]: `my.PassThroughCalculator` is no word
         --> graph.pbtxt:2:15
          |
        2 |   calculator: my.PassThroughCalculator
          |               ^^^^^^^^^^^^^^^^^^^^^^^^ words are letters, digits and `_`
          |
        help: strings stand in quotes
          |
        2 -   calculator: my.PassThroughCalculator
        2 +   calculator: "my.PassThroughCalculator"
          |
        "#
    );
}

#[test]
fn nesting_without_end() {
    check!(
        &"node { ".repeat(150),
        @r#"
        error[GM0104]: messages are nested more than 100 deep
          |
        1 | ode { node { node { node { node { node { node { node { node { node { node { node { node { node { node { node { node { no
          |                                                             ^ one too many
          |
          = note: at graph.pbtxt:1:706, of which line only a part is shown
        "#
    );
}

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
          |                    ^^^^^^^^^ its escapes produce bytes that are no text
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
          = help: option fields stand in the message of their type: `[type.googleapis.com/mediapipe.X] { .. }`

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
fn serialised_options() {
    check!(
        r#"node {
  calculator: "A"
  node_options { type_url: "type.googleapis.com/m.AOptions" value: "\020\001" }
}
"#,
        @r#"
        error[GM0213]: `node_options` holds serialised bytes
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

#[test]
fn malformed_ports() {
    check!(
        r#"input_stream: "A::in"
input_stream: "VIDEO:0:frame:x"
output_stream: ""
output_stream: ":0:out"
"#,
        @r#"
        error[GM0220]: `A::in` is not a port
         --> graph.pbtxt:1:16
          |
        1 | input_stream: "A::in"
          |                ^^^^^ no index between the colons
          |
          = help: write `name`, `TAG:name` or `TAG:index:name`

        error[GM0220]: `VIDEO:0:frame:x` is not a port
         --> graph.pbtxt:2:16
          |
        2 | input_stream: "VIDEO:0:frame:x"
          |                ^^^^^^^^^^^^^^^ more than two colons
          |
          = help: write `name`, `TAG:name` or `TAG:index:name`

        error[GM0220]: `` is not a port
         --> graph.pbtxt:3:16
          |
        3 | output_stream: ""
          |                ^^ the string is empty
          |
          = help: write `name`, `TAG:name` or `TAG:index:name`

        error[GM0220]: `:0:out` is not a port
         --> graph.pbtxt:4:17
          |
        4 | output_stream: ":0:out"
          |                 ^^^^^^ no tag before the first colon
          |
          = help: write `name`, `TAG:name` or `TAG:index:name`
        "#
    );
}

#[test]
fn malformed_names_tags_and_indexes() {
    check!(
        r#"node {
  calculator: "A"
  input_stream: "IMAGE:inputImage"
  input_stream: "video:frames"
  input_stream: "A:01:a"
  output_stream: "1st"
}
"#,
        @r#"
        error[GM0221]: `inputImage` is not a name of a stream or side packet
         --> graph.pbtxt:3:24
          |
        3 |   input_stream: "IMAGE:inputImage"
          |                        ^^^^^^^^^^ names are lower-case letters, digits and `_`, and begin with no digit
          |
        help: write `input_image`
          |
        3 -   input_stream: "IMAGE:inputImage"
        3 +   input_stream: "IMAGE:input_image"
          |

        error[GM0222]: `video` is not a tag
         --> graph.pbtxt:4:18
          |
        4 |   input_stream: "video:frames"
          |                  ^^^^^ tags are capital letters, digits and `_`, and begin with no digit
          |
        help: write `VIDEO`
          |
        4 -   input_stream: "video:frames"
        4 +   input_stream: "VIDEO:frames"
          |

        error[GM0223]: `01` is not an index
         --> graph.pbtxt:5:20
          |
        5 |   input_stream: "A:01:a"
          |                    ^^ expected a number from 0 to 10000 without leading zeros

        error[GM0221]: `1st` is not a name of a stream or side packet
         --> graph.pbtxt:6:19
          |
        6 |   output_stream: "1st"
          |                   ^^^ names are lower-case letters, digits and `_`, and begin with no digit
        "#
    );
}

#[test]
fn a_place_inside_joined_and_escaped_strings() {
    check!(
        r#"input_stream: "IMA\x47E:" 'in' "put Image""#,
        @r#"
        error[GM0221]: `input Image` is not a name of a stream or side packet
         --> graph.pbtxt:1:28
          |
        1 | input_stream: "IMA\x47E:" 'in' "put Image"
          |                            ^^^^^^^^^^^^^^ names are lower-case letters, digits and `_`, and begin with no digit
          |
          = help: write `input_image`
        "#
    );
}

#[test]
fn a_port_twice() {
    check!(
        r#"node {
  calculator: "A"
  input_stream: "DATA:a"
  input_stream: "DATA:b"
}
"#,
        @r#"
        error[GM0224]: index 0 of tag `DATA` is given twice
         --> graph.pbtxt:4:18
          |
        3 |   input_stream: "DATA:a"
          |                  ------ first given here
        4 |   input_stream: "DATA:b"
          |                  ^^^^^^ given again here
          |
        help: give it the next free index: `DATA:1:b`
          |
        4 |   input_stream: "DATA:1:b"
          |                       ++
        "#
    );
}

#[test]
fn a_gap_in_the_indexes() {
    check!(
        r#"node {
  calculator: "A"
  input_stream: "DATA:0:a"
  input_stream: "DATA:2:b"
}
"#,
        @r#"
        error[GM0225]: tag `DATA` has index 2 but no index 1
         --> graph.pbtxt:4:18
          |
        4 |   input_stream: "DATA:2:b"
          |                  ^^^^^^^^ index 1 is missing
          |
          = help: the indexes of a tag begin at 0 and leave none out: is this `DATA:1:b`?
        "#
    );
}

#[test]
fn a_stream_name_where_a_port_is_referred_to() {
    check!(
        r#"node {
  calculator: "A"
  input_stream: "LOOP:loop"
  input_stream_info { tag_index: "LOOP:loop" back_edge: true }
}
"#,
        @r#"
        error[GM0226]: `LOOP:loop` is not a reference to a port
         --> graph.pbtxt:4:40
          |
        4 |   input_stream_info { tag_index: "LOOP:loop" back_edge: true }
          |                                        ^^^^ expected an index here, not a name
          |
          = help: write the port's tag, `TAG`, its tag and index, `TAG:1`, or `:1` where it has no tag
        "#
    );
}

#[test]
fn an_option_value_without_a_source() {
    check!(
        r#"node {
  calculator: "A"
  option_value: "threshold"
}
"#,
        @r#"
        error[GM0210]: `option_value` is not of the form `field:source`
         --> graph.pbtxt:3:17
          |
        3 |   option_value: "threshold"
          |                 ^^^^^^^^^^^ expected `node_field:graph_field`
          |
          = help: write the node's option field, a colon, and the graph's option field: `"threshold:options/threshold"`
        "#
    );
}

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
          = note: at graph.pbtxt:1:1018, of which line only a part is shown
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

#[test]
fn misspelt_options_are_all_named() {
    check_options!(
        r#"      model_path: "./"
      cache_sise: 10
      colour: 1"#,
        @r#"
        error[GM0201]: `LLMCalculatorOptions` has no field `model_path`
         --> graph.pbtxt:5:7
          |
        5 |       model_path: "./"
          |       ^^^^^^^^^^ unknown field
          |
        help: did you mean `models_path`?
          |
        5 |       models_path: "./"
          |            +

        error[GM0201]: `LLMCalculatorOptions` has no field `cache_sise`
         --> graph.pbtxt:6:7
          |
        6 |       cache_sise: 10
          |       ^^^^^^^^^^ unknown field
          |
        help: did you mean `cache_size`?
          |
        6 -       cache_sise: 10
        6 +       cache_size: 10
          |

        error[GM0201]: `LLMCalculatorOptions` has no field `colour`
         --> graph.pbtxt:7:7
          |
        7 |       colour: 1
          |       ^^^^^^ unknown field
        "#
    );
}

#[test]
fn every_wrong_value_of_options_is_reported() {
    check_options!(
        r#"      models_path: 5
      cache_size: -1
      temperature: "hot"
      dynamic_split_fuse: maybe
      stop: ["a", 3, "b", 4]"#,
        @r#"
        error[GM0203]: `models_path` takes a string, not an integer
         --> graph.pbtxt:5:20
          |
        5 |       models_path: 5
          |                    ^ expected a string

        error[GM0204]: the number for `cache_size` is out of range
         --> graph.pbtxt:6:19
          |
        6 |       cache_size: -1
          |                   ^^ expected an integer from 0 to 4294967295

        error[GM0203]: `temperature` takes a number, not a string
         --> graph.pbtxt:7:20
          |
        7 |       temperature: "hot"
          |                    ^^^^^ expected a number

        error[GM0203]: `dynamic_split_fuse` takes `true` or `false`, not `maybe`
         --> graph.pbtxt:8:27
          |
        8 |       dynamic_split_fuse: maybe
          |                           ^^^^^ expected `true` or `false`

        error[GM0203]: `stop` takes a string, not an integer
         --> graph.pbtxt:9:19
          |
        9 |       stop: ["a", 3, "b", 4]
          |                   ^ expected a string

        error[GM0203]: `stop` takes a string, not an integer
         --> graph.pbtxt:9:27
          |
        9 |       stop: ["a", 3, "b", 4]
          |                           ^ expected a string
        "#
    );
}

#[test]
fn words_of_an_enum() {
    check_options!(
        r#"      device: CUDAGPU"#,
        @r#"
        error[GM0206]: `device` has no value `CUDAGPU`
         --> graph.pbtxt:5:15
          |
        5 |       device: CUDAGPU
          |               ^^^^^^^ expected `CPU` or `CUDA_GPU`
          |
        help: did you mean `CUDA_GPU`?
          |
        5 |       device: CUDA_GPU
          |                   +
        "#
    );
}

#[test]
fn a_quoted_word_of_an_enum() {
    check_options!(
        r#"      device: "CPU""#,
        @r#"
        error[GM0203]: words of an enum stand without quotes
         --> graph.pbtxt:5:15
          |
        5 |       device: "CPU"
          |               ^^^^^ expected `CPU` or `CUDA_GPU`
          |
        help: remove the quotes: `CPU`
          |
        5 -       device: "CPU"
        5 +       device: CPU
          |
        "#
    );
}

#[test]
fn an_option_twice_and_a_list_for_one() {
    check_options!(
        r#"      cache_size: 1
      cache_size: 2
      models_path: ["a"]"#,
        @r#"
        error[GM0202]: `cache_size` is given twice
         --> graph.pbtxt:6:7
          |
        5 |       cache_size: 1
          |       ---------- first given here
        6 |       cache_size: 2
          |       ^^^^^^^^^^ given again here

        error[GM0205]: `models_path` takes a single value, not a list
         --> graph.pbtxt:7:20
          |
        7 |       models_path: ["a"]
          |                    ^^^^^ only repeated fields take a list
        "#
    );
}

#[test]
fn a_required_option_that_is_missing() {
    check_options!(
        r#"      draft {
        tokens: 300
      }"#,
        @r#"
        error[GM0207]: `draft` needs a `models_path`
         --> graph.pbtxt:5:7
          |
        5 |       draft {
          |       ^^^^^ `models_path` is missing

        error[GM0204]: the number for `tokens` is out of range
         --> graph.pbtxt:6:17
          |
        6 |         tokens: 300
          |                 ^^^ expected an integer from 0 to 255
        "#
    );
}

#[test]
fn nested_options() {
    check_options!(
        r#"      draft {
        tokens: 0
        path: "x"
      }"#,
        @r#"
        error[GM0210]: invalid value for `tokens`
         --> graph.pbtxt:6:17
          |
        6 |         tokens: 0
          |                 ^ expected a nonzero u8

        error[GM0201]: `draft` has no field `path`
         --> graph.pbtxt:7:9
          |
        7 |         path: "x"
          |         ^^^^ unknown field
          |
        help: did you mean `models_path`?
          |
        7 |         models_path: "x"
          |         +++++++
        "#
    );
}

#[test]
fn an_option_that_is_no_message() {
    check_options!(
        r#"      draft: "./draft"
      stop: "a" stop { }"#,
        @r#"
        error[GM0203]: `draft` takes a message in `{ .. }`, not a string
         --> graph.pbtxt:5:14
          |
        5 |       draft: "./draft"
          |              ^^^^^^^^^ expected a message in `{ .. }`

        error[GM0203]: `stop` takes a string, not a message
         --> graph.pbtxt:6:22
          |
        6 |       stop: "a" stop { }
          |                      ^^^ expected a string
        "#
    );
}
