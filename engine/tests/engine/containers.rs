//! Nodes that stand for a graph made from their own options.

use graphmill_engine::{
    Container, Contract, Environment,
    testing::{Harness, check},
};
use graphmill_grammar::{Diagnostic, GraphConfig, Node, OptionsMessage, PortSpec, Spanned};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::engine::nodes;

/// A chain of the same calculator.
struct Chain;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct ChainOptions {
    calculator: String,
    links: u32,
}

impl Container for Chain {
    const NAME: &'static str = "ChainContainer";
    const DOC: &'static str = "A chain of the same calculator.";
    type Options = ChainOptions;

    fn contract(c: &mut Contract) {
        let input = c.any("");
        c.same_as("", input);
    }

    fn graph(
        node: &Node,
        options: &ChainOptions,
        _: Option<&OptionsMessage>,
    ) -> (Option<GraphConfig>, Vec<Diagnostic>) {
        let stream = |link: u32| PortSpec::parse(&format!("link_{link}")).expect("a name");
        let at = |port: &PortSpec, link: u32| PortSpec {
            name: stream(link).name,
            ..port.clone()
        };
        let mut graph = GraphConfig::default();
        let ends = node.input_stream.iter().map(|port| at(port, 0));
        graph.input_stream = ends.collect();
        let ends = node
            .output_stream
            .iter()
            .map(|port| at(port, options.links));
        graph.output_stream = ends.collect();
        for link in 0..options.links {
            graph.node.push(Node {
                calculator: Some(Spanned::new(options.calculator.clone(), node.place())),
                input_stream: vec![stream(link)],
                output_stream: vec![stream(link + 1)],
                ..Node::default()
            });
        }
        (Some(graph), Vec::new())
    }
}

fn environment() -> Environment {
    let registry = nodes::environment().registry().clone();
    Environment::new(registry.with_container::<Chain>())
}

fn chain(options: &str) -> String {
    format!(
        r#"node {{ calculator: "ChainContainer" input_stream: "in" output_stream: "out"
             options {{ [graphmill.ChainContainerOptions.ext] {{ {options} }} }} }}"#
    )
}

#[test]
fn a_container_is_replaced_by_what_it_makes() {
    let mut h = Harness::new(
        &chain(r#"calculator: "PassThroughCalculator" links: 3"#),
        environment(),
    );
    h.push("in", 1, 10_i64)
        .expect("chaincontainer__link_2", [(1, 10_i64)])
        .expect("out", [(1, 10_i64)]);
    h.finish();
}

#[test]
fn what_is_wrong_inside_points_at_the_container() {
    let problems = check(
        &chain(r#"calculator: "PasThroughCalculator" links: 1"#),
        &environment(),
    );
    insta::assert_snapshot!(problems);
}

#[test]
fn a_container_reads_its_options_like_a_calculator() {
    let problems = check(&chain("lnks: 1"), &environment());
    insta::assert_snapshot!(problems);
}
