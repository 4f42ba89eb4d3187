//! What is inside of the options of a node.

use graphmill_grammar::{SourceMap, from_options, parse_graph};
use serde::Deserialize;

use super::common;

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
        error[GM0203]: enum values are written without quotes
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
