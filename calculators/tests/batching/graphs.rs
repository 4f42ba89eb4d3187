//! Graphs with a `DynamicBatchCalculator`, and with a node of a model.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use graphmill_calculators::payload::Account;
use graphmill_calculators::tensor::batch::Batcher;
use graphmill_calculators::tensor::{Tensor, TensorModel};
use graphmill_engine::testing::check;
use graphmill_engine::{
    Calculator, Contract, Cx, Environment, Flow, In, Kind, NoOptions, OpenCx, Out, Packet, Plan,
    Registry, Result, RunCx, Session, SidePackets, block_on_for, register,
};
use graphmill_grammar::{SourceMap, parse_graph};

use crate::batching::models::{Gate, Matmul, PATIENCE, floats, numbers, other_numbers};

/// What [`Product`] computes with.
static MODEL: LazyLock<Matmul> = LazyLock::new(|| Matmul::new(3, 2, Gate::open()));
/// What [`Stuck`] computes with.
static STUCK: LazyLock<Matmul> = LazyLock::new(|| Matmul::new(3, 2, Gate::default()));

/// An ordinary node that computes a tensor from a tensor.
struct Product;

impl Calculator for Product {
    const NAME: &'static str = "ProductCalculator";
    type Options = NoOptions;
    type Ports = (In<Tensor>, Out<Tensor>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        (c.input("PIXELS"), c.output("SCORES"))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, (input, output): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(pixels) = cx.take(input) {
            cx.emit(output, MODEL.run(vec![pixels])?.remove(0));
        }
        Ok(Flow::Continue)
    }
}
register!(Product);

/// One that never comes to an end.
struct Stuck;

impl Calculator for Stuck {
    const NAME: &'static str = "StuckCalculator";
    type Options = NoOptions;
    type Ports = (In<Tensor>, Out<Tensor>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        (c.input("PIXELS"), c.output("SCORES"))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, (input, output): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(pixels) = cx.take(input) {
            cx.emit(output, STUCK.run(vec![pixels])?.remove(0));
        }
        Ok(Flow::Continue)
    }
}
register!(Stuck);

fn graph(options: &str) -> String {
    format!(
        r#"
        input_stream: "pixels"
        output_stream: "scores"
        node {{
          calculator: "DynamicBatchCalculator"
          input_stream: "PIXELS:pixels"
          output_stream: "SCORES:scores"
          node_options {{
            [type.googleapis.com/graphmill.DynamicBatchCalculatorOptions] {{ {options} }}
          }}
        }}
        "#
    )
}

fn environment() -> Environment {
    Environment::new(Registry::global())
}

fn compile(text: &str) -> Arc<Plan> {
    let found = check(text, &environment());
    assert_eq!(found, "");
    let mut sources = SourceMap::new();
    let graph = parse_graph(&mut sources, "graph.pbtxt", text).graph;
    let (plan, _) = Plan::compile(&graph.expect("a graph"), &mut sources, &environment());
    plan.expect("a plan")
}

/// Runs a session with a tensor on the calling thread.
fn run_with(plan: &Arc<Plan>, cx: RunCx, input: &str, tensor: Tensor) -> Result<Option<Tensor>> {
    let (session, handle) = Session::new(plan, cx, SidePackets::new())?;
    let name = plan.graph_outputs().next().expect("an output");
    let mut output = handle.output(name)?;
    handle.try_push(input, Packet::new(0, tensor))?;
    handle.close_all();
    session.run()?;
    Ok(output.try_next().and_then(Packet::into_value))
}

fn run(plan: &Arc<Plan>, tensor: Tensor) -> Result<Option<Tensor>> {
    run_with(plan, RunCx::new("test"), "pixels", tensor)
}

fn batcher(plan: &Plan) -> Arc<Batcher> {
    plan.resources::<Batcher>().pop().expect("a batcher")
}

#[test]
fn sessions_are_computed_together() {
    let plan = compile(&graph(
        r#"model { calculator: "ProductCalculator" }
           max_batch_size: 64 preferred_batch_size: 16 max_queue_delay_microseconds: 60000000"#,
    ));
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let numbers_of = other_numbers(3);
                let scores = run(&plan, floats(&[1, 3], &numbers_of));
                let scores = scores.expect("computed").expect("scores");
                assert_eq!(numbers(&scores), MODEL.product(&numbers_of));
            });
        }
    });
    let measured = batcher(&plan).measurements();
    assert_eq!(
        (measured.batch_rows.count, measured.batch_rows.sum),
        (1, 16.0)
    );
    assert_eq!(batcher(&plan).info().model, "ProductCalculator");
}

#[test]
fn an_error_of_the_node_is_that_of_the_session() {
    let plan = compile(&graph(
        r#"model { calculator: "ProductCalculator" } max_batch_size: 4
           input { name: "pixels" datatype: FP32 shape: [-1, 3] }"#,
    ));
    let error = run(&plan, floats(&[1, 3], &[f32::NAN; 3])).expect_err("not a number");
    assert!(error.message.contains("a row is not a number"), "{error}");
    let error = run(&plan, floats(&[1, 3], &[f32::INFINITY; 3])).expect_err("a panic");
    assert_eq!(error.kind, Kind::Internal);
    let error = run(&plan, floats(&[1, 2], &[0.0; 2])).expect_err("too short");
    assert_eq!(
        error.message,
        "input `pixels`: the shape is [1, 2], but the model takes [-1, 3]"
    );
    let error = run(&plan, floats(&[5, 3], &[0.0; 15])).expect_err("too many");
    assert!(error.message.contains("has 5 rows, and a batch at most 4"));
    assert!(
        run(&plan, floats(&[4, 3], &[0.0; 12]))
            .expect("good")
            .is_some()
    );
}

#[test]
fn sessions_that_are_dropped_leave_the_queue() {
    let plan = compile(&graph(
        r#"model { calculator: "StuckCalculator" } max_batch_size: 1"#,
    ));
    let open = || {
        let cx = RunCx::new("test");
        let (mut session, handle) = Session::new(&plan, cx, SidePackets::new()).expect("a session");
        let packet = Packet::new(0, floats(&[1, 3], &[0.0; 3]));
        handle.try_push("pixels", packet).expect("room");
        let mut cx = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut session).poll(&mut cx).is_pending());
        (session, handle)
    };
    let stuck = open();
    STUCK.gate.wait_for(1);
    let waiting: Vec<_> = (0..1000).map(|_| open()).collect();
    let batcher = batcher(&plan);
    assert_eq!(batcher.waiting(), 1000);
    assert_eq!(plan.open_sessions(), 1001);
    drop(waiting);
    assert_eq!(batcher.waiting(), 0);
    assert_eq!(plan.open_sessions(), 1);
    // A deadline ends a session although the model is stuck.
    let mut cx = RunCx::new("test");
    cx.deadline = Some(Instant::now() + Duration::from_millis(20));
    let late = run_with(&plan, cx, "pixels", floats(&[1, 3], &[0.0; 3]));
    assert_eq!(late.expect_err("late").kind, Kind::DeadlineExceeded);
    assert_eq!(batcher.waiting(), 0);
    drop(stuck);
    STUCK.gate.let_pass(usize::MAX);
}

#[test]
fn a_request_goes_to_the_level_that_it_names() {
    let plan = compile(&graph(
        r#"model { calculator: "ProductCalculator" } max_batch_size: 4
           priority_levels: 2 default_priority_level: 2
           priority_queue_policy { key: 1 value { max_queue_size: 7 } }"#,
    ));
    let batcher = batcher(&plan);
    let levels = batcher.info().batching.levels.iter();
    let sizes: Vec<u32> = levels.map(|level| level.max_queue_size).collect();
    assert_eq!(sizes, [7, 1024]);
    let with_priority = |batch_priority| {
        let mut cx = RunCx::new("test");
        cx.extension = Some(Arc::new(Account {
            batch_priority,
            ..Account::default()
        }));
        run_with(&plan, cx, "pixels", floats(&[1, 3], &[0.0; 3]))
    };
    assert!(with_priority(1).is_ok());
    let error = with_priority(3).expect_err("no such level");
    assert_eq!(error.message, "`priority` is 3, and the levels are 1 to 2");
}

#[test]
fn a_node_of_a_model_is_one_of_a_graph() {
    let text = r#"
        input_stream: "x"
        output_stream: "y"
        node {
          calculator: "ScaleCalculator"
          input_side_packet: "BATCHER:scale"
          input_stream: "x"
          output_stream: "y"
          node_options {
            [type.googleapis.com/ScaleCalculatorOptions] {
              model { thousandths: 500 }
              max_batch_size: 8
              max_queue_delay_microseconds: 200
            }
          }
        }"#;
    let plan = compile(text);
    let done = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let x = floats(&[1, 4], &[2.0, 4.0, 6.0, 8.0]);
                let y = run_with(&plan, RunCx::new("test"), "x", x).expect("computed");
                assert_eq!(numbers(&y.expect("a tensor")), [1.0, 2.0, 3.0, 4.0]);
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
    });
    assert_eq!(done.into_inner(), 8);
    let two = text.replace(
        r#"input_stream: "x""#,
        r#"input_stream: "x" input_stream: "z""#,
    );
    let found = check(&two, &environment());
    assert!(
        found.contains("the model has 1 inputs, `x`, but the node connects 2"),
        "{found}"
    );
}

#[test]
fn what_is_wrong_with_the_options_is_told() {
    let wrong = |options: &str| check(&graph(options), &environment());
    for (options, expected) in [
        (
            "max_batch_size: 4",
            "`DynamicBatchCalculator` has no `model`",
        ),
        (
            r#"model { calculator: "ProductCalculator" }"#,
            "max_batch_size",
        ),
        (
            r#"model { calculator: "ProductCalculater" } max_batch_size: 4"#,
            "did you mean `ProductCalculator`",
        ),
        (
            r#"model { calculator: "ProductCalculator" input_stream: "x" } max_batch_size: 4"#,
            "has no input stream of its own",
        ),
        (
            r#"model { calculator: "StringToIntCalculator" } max_batch_size: 4"#,
            "model",
        ),
        (
            r#"model { calculator: "HttpLLMCalculator" } max_batch_size: 4"#,
            "its engine batches all requests already",
        ),
        (
            r#"model { calculator: "ProductCalculator" } max_batch_size: 4 preferred_batch_size: 8"#,
            "must be from 1 to `max_batch_size`, 4, not 8",
        ),
        (
            r#"model { calculator: "ProductCalculator" } max_batch_size: 4 input { name: "y" }"#,
            "`input` describes `y`, which is not an input stream of the node",
        ),
        (
            r#"model { calculator: "ProductCalculator" } max_batch_size: 4 pad_value: 1"#,
            "has no effect without `ragged: PAD`",
        ),
        (
            r#"model { calculator: "ProductCalculator" } max_batch_size: 4 priority_levels: 2"#,
            "default_priority_level",
        ),
        (
            r#"model { calculator: "ProductCalculator" } max_batch_size: 4
               priority_queue_policy { key: 1 }"#,
            "`priority_queue_policy` is 1, but `priority_levels` is 0",
        ),
        (
            r#"model { calculator: "ProductCalculator" } max_batch_size: 4
               input { name: "pixels" datatype: FP32 shape: [4, 3] }"#,
            "the model's input `pixels` has the shape [4, 3]",
        ),
    ] {
        let found = wrong(options);
        assert!(found.contains(expected), "{options}:\n{found}");
    }
}

#[test]
fn a_side_packet_that_is_no_resource_is_missing() {
    let found = check(
        &graph(
            r#"model { calculator: "CallbackCalculator" input_side_packet: "CALLBACK:f" } max_batch_size: 4"#,
        ),
        &environment(),
    );
    assert!(found.contains("model"), "{found}");
}

#[test]
fn a_dropped_plan_ends_who_waits() {
    let plan = compile(&graph(
        r#"model { calculator: "ProductCalculator" } max_batch_size: 4
           max_queue_delay_microseconds: 3600000000"#,
    ));
    let cx = RunCx::new("test");
    let (session, handle) = Session::new(&plan, cx, SidePackets::new()).expect("a session");
    handle
        .try_push("pixels", Packet::new(0, floats(&[1, 3], &[0.0; 3])))
        .expect("room");
    session.run_on_thread().expect("a thread");
    let batcher = batcher(&plan);
    while batcher.waiting() == 0 {
        thread::yield_now();
    }
    handle.cancel();
    let outcome = block_on_for(handle.outcome(), PATIENCE).expect("an end");
    assert_eq!(outcome.expect_err("cancelled").kind, Kind::Cancelled);
    assert_eq!(batcher.waiting(), 0);
}
