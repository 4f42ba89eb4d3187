//! From text to a graph.

use std::fmt::Write;

use graphmill_bench::{
    report::{Goal, Report},
    samples::Samples,
};
use graphmill_grammar::{SourceMap, fmt, parse_graph};

const SAMPLES: usize = 30;
const NODES: usize = 1000;

pub(crate) fn measure(report: &Report) {
    let text = text();
    let speed = |what: &str, goal: Goal, run: &mut dyn FnMut()| {
        let samples = Samples::time(SAMPLES, text.len(), run);
        report.number(what, 1e3 / samples.fastest(), "MB/s", goal);
    };
    speed("parse of 1000 nodes", Goal::AtLeast(8.0), &mut || {
        let parsed = parse_graph(&mut SourceMap::new(), "bench.pbtxt", text.as_str());
        assert!(parsed.into_result().is_ok(), "the text is a graph");
    });
    speed("format of 1000 nodes", Goal::None, &mut || {
        let formatted = fmt::format(&mut SourceMap::new(), "bench.pbtxt", text.as_str());
        assert_eq!(formatted.as_ref(), Ok(&text), "the text is formatted");
    });
}

/// A chain of nodes with options, as a program would write it.
fn text() -> String {
    let mut text = "input_stream: \"s0\"\n".to_owned();
    for i in 0..NODES {
        write!(
            text,
            r#"
node {{
  calculator: "PassThroughCalculator"
  input_stream: "s{i}"
  output_stream: "s{}"
  options {{
    [bench.PassThroughCalculatorOptions.ext] {{
      name: "node {i}"
      share: 0.5
    }}
  }}
}}
"#,
            i + 1
        )
        .expect("a string takes all");
    }
    text
}
