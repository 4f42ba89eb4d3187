//! Graphs made by a program.

use graphmill_engine::{
    AsyncCalculator, Contract, Emits, Environment, Flow, GraphBuilder, In, InputSet, NoOptions,
    OpenCx, Out, Packet, Plan, Registry, Result, RunCx, Session, Side, SidePackets, Timestamp,
    block_on, testing::Harness,
};
use serde::Serialize;
use serde_json::json;

use crate::engine::nodes::{Add, Count, Delay, Fail, FromSide, Length, MakeSide, environment};

fn bare() -> Environment {
    Environment::new(Registry::new())
}

#[test]
fn nodes_by_type_need_no_registry_and_run() {
    let graph = GraphBuilder::new();
    let number = graph.input::<i64>("number");
    let base = graph.side::<i64>("base");
    let shift = graph.node::<FromSide>();
    shift.input(|p| p.0, &number).side(|p| p.1, &base);
    let add = graph.node::<Add>();
    add.inputs(|p| p.0, [&number, &shift.output(|p| p.2)]);
    graph.output("sum", &add.output(|p| p.1));
    let plan = graph.compile(&bare()).expect("a graph");
    let sides = SidePackets::new().with("base", 100_i64);
    let (session, handle) = Session::new(&plan, RunCx::new("x"), sides).expect("starts");
    let mut sums = handle.output("sum").expect("an output");
    handle
        .try_push("number", Packet::new(1, 7_i64))
        .expect("room");
    handle.close_all();
    session.run().expect("no error");
    let sum = block_on(sums.next()).expect("a packet");
    assert_eq!((sum.time, sum.get()), (Timestamp::new(1), Some(&114_i64)));
}

/// Adds to a number, without holding up the session.
struct AddLater(i64);

impl AsyncCalculator for AddLater {
    const NAME: &'static str = "AddLaterCalculator";
    type Options = NoOptions;
    type Ports = (In<i64>, Side<i64>, Out<i64>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        (c.input(""), c.side("VALUE"), c.output(""))
    }

    fn open(_: &NoOptions, (_, value, _): Self::Ports, cx: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self(cx.side(value).copied().unwrap_or_default()))
    }

    async fn process(
        &mut self,
        (input, _, output): Self::Ports,
        mut set: InputSet,
        out: &mut Emits,
    ) -> Result<Flow> {
        if let Some(value) = set.take(input) {
            out.emit(output, value + self.0);
        }
        Ok(Flow::Continue)
    }
}

#[test]
fn async_nodes_are_nodes_and_side_packets_have_tags() {
    let graph = GraphBuilder::new();
    let number = graph.input::<i64>("number");
    let base = graph.side::<i64>("base");
    let add = graph.async_node::<AddLater>();
    add.input(|p| p.0, &number).side_at("VALUE", &base);
    graph.output("sum", &add.output(|p| p.2));
    let environment = Environment::new(Registry::new().with_async::<AddLater>());
    let mut harness = Harness::new(&graph.text(), environment).side("base", 100_i64);
    harness.push("number", 1, 7_i64).close_all();
    harness.expect("sum", [(1, 107_i64)]);
}

#[test]
fn the_graph_reads_as_if_it_was_written() {
    #[derive(Serialize)]
    #[serde(rename_all = "lowercase")]
    enum Kind {
        Big,
    }
    #[derive(Serialize)]
    struct Third {
        kind: Kind,
    }
    let graph = GraphBuilder::new();
    graph.max_queue_size(5);
    graph.executor("slow", 1);
    let text = graph.input::<String>("TEXT:text");
    let first = graph.node::<Length>();
    first.input(|p| p.0, &text).executor("slow");
    let second = graph.node_named("my.pkg.SplitterCalculator");
    second
        .named("split")
        .input_at("", &first.output(|p| p.1))
        .back_edge_at("FINISHED", &second.output_at(":1"))
        .options(&json!({"ratio": 0.5, "sizes": [1, -2], "none": null, "inner": {"name": "a\"b"}}))
        .policy_with(
            "SyncSetInputStreamHandler",
            &json!({"sync_set": [{"tag_index": ["FINISHED"]}]}),
        );
    graph
        .node_named("Third")
        .options(&Third { kind: Kind::Big });
    graph.output("DONE:done", &second.output_at(""));
    graph.output_side("stats", &second.output_side_at("STATS"));
    assert_eq!(
        graph.text(),
        r#"input_stream: "TEXT:text"
output_stream: "DONE:done"
output_side_packet: "stats"
max_queue_size: 5

executor {
  name: "slow"
  type: "ThreadPoolExecutor"
  options {
    [mediapipe.ThreadPoolExecutorOptions.ext] {
      num_threads: 1
    }
  }
}

node {
  calculator: "LengthCalculator"
  input_stream: "TEXT:text"
  output_stream: "LENGTH:length_length"
  executor: "slow"
}

node {
  name: "split"
  calculator: "my.pkg.SplitterCalculator"
  input_stream: "length_length"
  input_stream: "FINISHED:split_1"
  output_stream: "done"
  output_stream: "split_1"
  output_side_packet: "STATS:stats"
  input_stream_info {
    tag_index: "FINISHED"
    back_edge: true
  }
  node_options {
    [type.googleapis.com/my.pkg.SplitterCalculatorOptions] {
      ratio: 0.5
      sizes: 1
      sizes: -2
      inner {
        name: "a\"b"
      }
    }
  }
  input_stream_handler {
    input_stream_handler: "SyncSetInputStreamHandler"
    options {
      [mediapipe.SyncSetInputStreamHandlerOptions.ext] {
        sync_set {
          tag_index: "FINISHED"
        }
      }
    }
  }
}

node {
  calculator: "Third"
  node_options {
    [type.googleapis.com/ThirdOptions] {
      kind: big
    }
  }
}
"#
    );
}

#[test]
fn loops() {
    let graph = GraphBuilder::new();
    let number = graph.input::<i64>("number");
    let (add, delay) = (graph.node::<Add>(), graph.node::<Delay>());
    let sum = add.output(|p| p.1);
    delay.back_edge(|p| p.0, &sum);
    add.inputs(|p| p.0, [&number, &delay.output(|p| p.1)]);
    graph.output("sum", &sum);
    let mut harness = Harness::new(&graph.text(), environment());
    for time in 0..4_i64 {
        harness.push("number", time, time);
    }
    harness.expect("sum", [(0, 0_i64), (1, 1), (2, 3), (3, 6)]);
}

#[test]
fn options() {
    let graph = GraphBuilder::new();
    let count = graph.node::<Count>();
    count.options(&json!({"to": 2}));
    graph.output("count", &count.output(|p| *p));
    let mut harness = Harness::new(&graph.text(), environment());
    harness.start().expect("count", [(0, 0_i64), (1, 1)]);
}

#[test]
fn side_packets_go_from_node_to_node() {
    let graph = GraphBuilder::new();
    let (first, second) = (graph.node::<MakeSide>(), graph.node::<MakeSide>());
    second.side(|p| p.1, &first.output_side(|p| p.2));
    graph.output_side("two", &second.output_side(|p| p.2));
    let plan = graph.compile(&bare()).expect("a graph");
    let started = Session::new(&plan, RunCx::new("x"), SidePackets::new());
    let (session, handle) = started.expect("starts");
    session.run().expect("no error");
    let two = handle.side_packet("two").expect("a node makes it");
    assert_eq!(two.and_then(Packet::into_value::<i64>), Some(2));
}

#[test]
fn streams_of_equal_origin_get_different_names() {
    let graph = GraphBuilder::new();
    let start = graph.input::<i64>("add");
    let (first, second) = (graph.node::<Add>(), graph.node::<Add>());
    first.inputs(|p| p.0, [&start]);
    second.inputs(|p| p.0, [&first.output(|p| p.1)]);
    graph.output("add_3", &second.output(|p| p.1));
    let text = graph.text();
    assert!(text.contains(r#"output_stream: "add_2""#), "{text}");
    assert!(graph.compile(&bare()).is_ok());
    assert_eq!(graph.text(), text);
}

fn wrong(build: impl FnOnce(&GraphBuilder)) -> String {
    let graph = GraphBuilder::new();
    build(&graph);
    let plan: Result<std::sync::Arc<Plan>, _> = graph.compile(&environment());
    plan.expect_err("a mistake").to_string()
}

#[test]
fn what_the_plan_finds_is_shown_in_the_graph() {
    let shown = wrong(|graph| {
        let number = graph
            .node_named("CountCalculator")
            .named("numbers")
            .output_at("");
        graph.node::<Length>().input(|p| p.0, &number);
    });
    assert!(
        shown.contains("`int`") && shown.contains("`string`"),
        "{shown}"
    );
    assert!(shown.contains("built.pbtxt:"), "{shown}");
    let shown = wrong(|graph| {
        graph.node_named("CountCalclator").output_at("");
    });
    assert!(shown.contains("did you mean `CountCalculator`?"), "{shown}");
    let shown = wrong(|graph| {
        let count = graph.node::<Count>();
        count.options(&json!({"too": 4}));
        graph.output("n", &count.output(|p| *p));
    });
    assert!(
        shown.contains("`too`") && shown.contains("did you mean `to`?"),
        "{shown}"
    );
}

#[test]
fn mistakes_in_the_calls_are_reported_together() {
    let shown = wrong(|graph| {
        let number = graph.input::<i64>("number");
        graph.output("other", &number);
        let fail = graph.node::<Fail>();
        fail.named("fails")
            .input(|p| p.0, &number)
            .input_at("", &number);
        fail.options(&5);
        graph.output("out", &fail.output(|p| p.1));
        graph.node::<Add>().input_at(":1", &number);
    });
    for problem in [
        "output `other` is already named `number`",
        "node `fails`: input stream `` is connected twice",
        "node `fails`: invalid options: options must be a struct or a map",
        "node `AddCalculator` connects port `:1`, but not `:0`",
    ] {
        assert!(shown.contains(problem), "{problem}:\n{shown}");
    }
}
