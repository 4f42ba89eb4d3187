//! Nodes on executors.

use std::{
    sync::{Arc, Barrier},
    time::Duration,
};

use graphmill_engine::{
    Calculator, Contract, Cx, Environment, Flow, In, NoOptions, OpenCx, Out, Registry, Result,
    testing::{Harness, check},
};

use crate::nodes::{environment, run};

#[test]
fn a_calculator_may_ask_for_an_executor() {
    let mut h =
        run(r#"node { calculator: "HeavyCalculator" input_stream: "in" output_stream: "out" }"#);
    h.push("in", 1, "a").push("in", 2, "b");
    let here = std::thread::current().name().unwrap_or("").to_owned();
    h.expect("out", [(1, here.clone()), (2, here)]);
    h.finish();
}

#[test]
fn the_graph_may_name_a_pool() {
    let mut h = run(r#"
        executor { name: "pool" type: "ThreadPoolExecutor"
                   options { [mediapipe.ThreadPoolExecutorOptions.ext] { num_threads: 1 } } }
        input_stream: "in"
        node { calculator: "HeavyCalculator" input_stream: "in" output_stream: "out" executor: "pool" }"#);
    h.push("in", 1, "a").block_until(|h| h.count("out") == 1);
    h.expect("out", [(1, "pool-0".to_owned())]);
    h.close("in").block_until(Harness::ended);
    h.finish();
}

/// Gets through only together with another.
struct Meet;

impl Calculator for Meet {
    const NAME: &'static str = "MeetCalculator";
    type Options = NoOptions;
    type Ports = (In<Arc<Barrier>>, Out<()>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        (c.input(""), c.output(""))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, (barrier, output): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(barrier) = cx.take(barrier) {
            barrier.wait();
        }
        cx.emit(output, ());
        Ok(Flow::Continue)
    }
}

#[test]
fn nodes_of_one_session_overlap() {
    let text = r#"
        executor { name: "pool" options { [mediapipe.ThreadPoolExecutorOptions.ext] { num_threads: 2 } } }
        input_stream: "in"
        node { calculator: "MeetCalculator" input_stream: "in" output_stream: "a" executor: "pool" }
        node { calculator: "MeetCalculator" input_stream: "in" output_stream: "b" executor: "pool" }"#;
    let mut h = Harness::new(text, Environment::new(Registry::new().with::<Meet>()));
    h.push("in", 0, Arc::new(Barrier::new(2)));
    h.block_until(|h| h.count("a") == 1 && h.count("b") == 1);
    h.close("in").block_until(Harness::ended);
}

#[test]
fn a_light_node_goes_on_while_a_heavy_one_works() {
    let mut h = run(r#"
        executor { name: "pool" }
        input_stream: "in" input_stream: "gate"
        node { calculator: "HeavyCalculator" input_stream: "gate" output_stream: "slow" executor: "pool" }
        node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "fast" }"#);
    h.push("gate", 0, "x")
        .push("in", 0, "y")
        .expect("fast", [(0, "y")]);
    h.block_until(|h| h.count("slow") == 1);
    h.close_all().block_until(Harness::ended);
}

#[test]
fn time_on_an_executor_is_the_nodes_own() {
    let mut h =
        run(r#"node { calculator: "HeavyCalculator" input_stream: "in" output_stream: "out" }"#);
    h.push("in", 1, "a");
    let summary = h.finish();
    let node = summary.nodes().next().expect("one node");
    assert_eq!((node.name, node.runs), ("HeavyCalculator", 2));
    assert!(node.time > Duration::ZERO && node.time < Duration::from_secs(1));
}

#[test]
fn mistakes_about_executors_are_found() {
    let node = r#"input_stream: "a" output_stream: "b" node { calculator: "HeavyCalculator" input_stream: "a" output_stream: "b" executor: "pol" }"#;
    insta::assert_snapshot!(check(
        &format!(
            r#"executor {{ name: "pool" }} executor {{ name: "pool" }}
executor {{ name: "gpu" type: "GpuExecutor" }} {node}"#
        ),
        &environment()
    ));
}
