//! Strings, numbers, names, comments, and nesting without end.

use super::graph;

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
          |            ^^ `\m` is not an escape sequence
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
        error[GM0113]: `[m..ext]` is not the name of an extension or message type
         --> graph.pbtxt:3:13
          |
        3 |   options { [m..ext] { } }
          |             ^^^^^^^^ expected words of letters, digits and `_` with `.` between
          |
          = help: write `[package.Type.ext]` or `[type.googleapis.com/package.Type]`

        error[GM0113]: `[type.googleapis.com/]` is not the name of an extension or message type
         --> graph.pbtxt:4:18
          |
        4 |   node_options { [type.googleapis.com/] { } }
          |                  ^^^^^^^^^^^^^^^^^^^^^^ expected a message type's full name after the last `/`
          |
          = help: write `[package.Type.ext]` or `[type.googleapis.com/package.Type]`

        error[GM0113]: `[type.googleapis.com/m.A B]` is not the name of an extension or message type
         --> graph.pbtxt:5:42
          |
        5 |   node_options { [type.googleapis.com/m.A B] { } }
          |                                          ^ a space may stand only beside `.` and `/`
          |
          = help: write `[package.Type.ext]` or `[type.googleapis.com/package.Type]`

        error[GM0113]: `[type.googleapis.com/ /m.A]` is not the name of an extension or message type
         --> graph.pbtxt:6:18
          |
        6 |   node_options { [type.googleapis.com/ /m.A] { } }
          |                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^ a part of the URL prefix is empty or begins with `*`
          |
          = help: write `[package.Type.ext]` or `[type.googleapis.com/package.Type]`

        error[GM0113]: `[type.googleapis.com/ *c/m.A]` is not the name of an extension or message type
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
        error[GM0114]: this is not a comment in a graph file
         --> graph.pbtxt:1:1
          |
        1 | // the input
          | ^^^^^^^^^^^^ comments begin with `#`

        error[GM0114]: this is not a comment in a graph file
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
        help: write strings in quotes
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
        error[GM0101]: `my.PassThroughCalculator` is not a word
         --> graph.pbtxt:2:15
          |
        2 |   calculator: my.PassThroughCalculator
          |               ^^^^^^^^^^^^^^^^^^^^^^^^ words are letters, digits and `_`
          |
        help: write strings in quotes
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
          = note: at graph.pbtxt:1:706; only a part of the line is shown
        "#
    );
}
