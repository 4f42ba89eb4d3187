//! From a graph to a plan.

use graphmill_bench::{
    graphs::chain,
    report::{Goal, Report},
    samples::Samples,
};
use graphmill_engine::{Environment, Plan, Registry};
use graphmill_grammar::{SourceMap, parse_graph};

const SAMPLES: usize = 30;
const NODES: usize = 1000;

pub(crate) fn measure(report: &Report) {
    let text = chain("PassThroughCalculator", NODES, "");
    let mut sources = SourceMap::new();
    let parsed = parse_graph(&mut sources, "bench.pbtxt", text.as_str());
    let graph = parsed.graph.expect("the text is a graph");
    let environment = Environment::new(Registry::global());
    let samples = Samples::time(SAMPLES, 1, || {
        let (plan, _) = Plan::compile(&graph, &mut sources, &environment);
        assert!(plan.is_some(), "the graph compiles");
    });
    let what = "plan of 1000 nodes";
    report.samples(what, &samples, ("ms", 1e6), Goal::AtMost(20.0));
    let samples = Samples::time(SAMPLES, 1, || {
        let parsed = parse_graph(&mut SourceMap::new(), "bench.pbtxt", text.as_str());
        let graph = parsed.graph.expect("the text is a graph");
        let (plan, _) = Plan::compile(&graph, &mut SourceMap::new(), &environment);
        assert!(plan.is_some(), "the graph compiles");
    });
    let what = "plan of 1000 nodes, with parsing";
    report.samples(what, &samples, ("ms", 1e6), Goal::None);
}
