//! Nodes on executors.

use std::{
    future::Future as _,
    pin::Pin,
    sync::{Arc, Barrier, mpsc},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use graphmill_engine::{
    Calculator, Contract, Cx, Environment, Executor, Flow, Handle, In, Kind, NoOptions, OpenCx,
    Out, Packet, Registry, Result, RunCx, Session, SidePackets, Summary, ThreadPool, block_on,
    testing::{Harness, check},
};

use crate::engine::nodes::{environment, run};

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
    let here = std::thread::current().name().unwrap_or("").to_owned();
    h.push("in", 1, "a").block_until(|h| h.count("out") == 1);
    h.push("in", 2, "light").push("in", 3, "b");
    h.block_until(|h| h.count("out") == 3);
    let pool = || "pool-0".to_owned();
    h.expect("out", [(1, pool()), (2, here), (3, pool())]);
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
        executor { name: "pool" type: "ThreadPoolExecutor" options { [mediapipe.ThreadPoolExecutorOptions.ext] { num_threads: 2 } } }
        input_stream: "in"
        node { calculator: "MeetCalculator" input_stream: "in" output_stream: "a" executor: "pool" }
        node { calculator: "MeetCalculator" input_stream: "in" output_stream: "b" executor: "pool" }"#;
    let mut h = Harness::new(text, Environment::new(Registry::new().with::<Meet>()));
    h.push("in", 0, Arc::new(Barrier::new(2)));
    h.block_until(|h| h.count("a") == 1 && h.count("b") == 1);
    h.close("in").block_until(Harness::ended);
}

/// Takes the first of what it gets, meets another there, and passes the rest on.
struct Relay;

type Meetings = Vec<Option<Arc<Barrier>>>;

impl Calculator for Relay {
    const NAME: &'static str = "RelayCalculator";
    type Options = NoOptions;
    type Ports = (In<Meetings>, Out<Meetings>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        (c.input(""), c.output(""))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, (input, output): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(mut meetings) = cx.take(input) {
            if let Some(meeting) = meetings.remove(0) {
                meeting.wait();
            }
            cx.emit(output, meetings);
        }
        Ok(Flow::Continue)
    }
}

#[test]
fn nodes_in_a_row_overlap() {
    let text = r#"
        executor { name: "pool" type: "ThreadPoolExecutor" options { [mediapipe.ThreadPoolExecutorOptions.ext] { num_threads: 2 } } }
        input_stream: "in"
        node { calculator: "RelayCalculator" input_stream: "in" output_stream: "middle" executor: "pool" }
        node { calculator: "RelayCalculator" input_stream: "middle" output_stream: "out" executor: "pool" }"#;
    let mut h = Harness::new(text, Environment::new(Registry::new().with::<Relay>()));
    // The first node meets the second at each packet but its first, while that is at the packet
    // before.
    let mut before: Option<Arc<Barrier>> = None;
    for time in 0..10 {
        let next = (time < 9).then(|| Arc::new(Barrier::new(2)));
        h.push("in", time, vec![before, next.clone()]);
        before = next;
    }
    h.close("in").block_until(Harness::ended);
    assert_eq!(h.count("out"), 10);
}

#[test]
fn a_light_node_goes_on_while_a_heavy_one_works() {
    let mut h = run(r#"
        executor { name: "pool" type: "ThreadPoolExecutor" options { [mediapipe.ThreadPoolExecutorOptions.ext] { num_threads: 2 } } }
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
    let began = Instant::now();
    let mut h =
        run(r#"node { calculator: "HeavyCalculator" input_stream: "in" output_stream: "out" }"#);
    h.push("in", 1, "a");
    let summary = h.finish();
    let node = summary.nodes().next().expect("one node");
    assert_eq!((node.name, node.runs), ("HeavyCalculator", 2));
    assert!(node.time > Duration::ZERO && node.time <= began.elapsed());
}

const HEAVY: &str = r#"input_stream: "in" output_stream: "out"
    node { calculator: "HeavyCalculator" input_stream: "in" output_stream: "out" EXECUTOR }"#;

/// The thread on which a graph's heavy node runs.
#[track_caller]
fn thread(graph: &str) -> String {
    let mut h = run(graph);
    h.push("in", 1, "a").block_until(|h| h.count("out") == 1);
    let mut packets = h.packets("out");
    h.close("in").block_until(Harness::ended);
    packets.remove(0).into_value().expect("it says its thread")
}

#[test]
fn the_default_executor_is_for_nodes_that_ask_for_one() {
    let here = std::thread::current().name().unwrap_or("").to_owned();
    let plain = HEAVY.replace("EXECUTOR", "");
    assert_eq!(thread(&plain), here, "the test's `cpu`");
    assert_eq!(thread(&format!("num_threads: 1 {plain}")), "graph-0");
    let untyped = r#"executor { options { [mediapipe.ThreadPoolExecutorOptions.ext] { num_threads: 1 thread_name_prefix: "own" stack_size: 131072 } } }"#;
    assert_eq!(thread(&format!("{untyped} {plain}")), "own-0");
    for same in [
        "executor {}",
        "num_threads: -1",
        "num_threads: 0 executor {}",
    ] {
        assert_eq!(thread(&format!("{same} {plain}")), here);
    }
    let inline = format!(r#"executor {{ type: "ApplicationThreadExecutor" }} {plain}"#);
    assert_eq!(thread(&inline), here);
    assert_eq!(run(&inline).plan().explain().nodes[0].runs, "inline");
    assert_eq!(run(&plain).plan().explain().nodes[0].runs, "on `cpu`");
}

#[test]
fn the_program_may_provide_an_executor() {
    let executor = Arc::new(graphmill_engine::testing::ManualExecutor::default());
    let executors = graphmill_engine::Executors::new();
    executors.insert("own", executor);
    let environment = || environment().with_executors(Arc::new(executors));
    let graph = |declared: &str| {
        format!(
            "{declared} {}",
            HEAVY.replace("EXECUTOR", "executor: \"own\"")
        )
    };
    let environment = environment();
    assert_eq!(
        check(&graph("executor { name: \"own\" }"), &environment),
        ""
    );
    assert_eq!(check(&graph(""), &environment), "");
    let typed = check(
        &graph("executor { name: \"own\" type: \"ThreadPoolExecutor\" }"),
        &environment,
    );
    assert!(
        typed.contains("has a `type`, but the program provides it"),
        "{typed}"
    );
}

#[test]
fn mistakes_about_executors_are_found() {
    let node = HEAVY.replace("EXECUTOR", "executor: \"pol\"");
    insta::assert_snapshot!(check(
        &format!(
            r#"executor {{ name: "pool" }} executor {{ name: "pool" }}
executor {{ name: "gpu" type: "GpuExecutor" }} {node}"#
        ),
        &environment()
    ));
}

#[test]
fn thread_counts_are_checked() {
    let heavy = HEAVY.replace("EXECUTOR", "executor: \"__own\"");
    insta::assert_snapshot!(check(
        &format!(
            r#"num_threads: -2
executor {{ name: "a" type: "ThreadPoolExecutor" }}
executor {{ name: "b" type: "ThreadPoolExecutor" options {{ [mediapipe.ThreadPoolExecutorOptions.ext] {{ num_threads: 0 }} }} }}
executor {{ name: "c" type: "ThreadPoolExecutor" options {{ [mediapipe.ThreadPoolExecutorOptions.ext] {{ num_threads: 1 nice_priority_level: 3 }} }} }}
executor {{ type: "ThreadPoolExecutor" }}
{heavy}"#
        ),
        &environment()
    ));
}

/// A pool of the node's own, with these options.
fn pool(name: &str, options: &str) -> String {
    let node = HEAVY.replace("EXECUTOR", &format!("executor: \"{name}\""));
    format!(
        r#"executor {{ name: "{name}" type: "ThreadPoolExecutor" options {{ [mediapipe.ThreadPoolExecutorOptions.ext] {{ {options} }} }} }} {node}"#
    )
}

#[test]
fn numbers_of_pools_have_bounds() {
    for (options, said) in [
        (
            "num_threads: 1000000",
            "1000000 is out of range for `num_threads`",
        ),
        ("num_threads: 257", "expected a number from -1 to 256"),
        ("num_threads: 2147483647", "2147483647 is out of range"),
        ("num_threads: 2147483648", "2147483648 is out of range"),
        ("num_threads: 1e9", "1000000000.0 is out of range"),
        (
            "num_threads: 1 stack_size: 2147483647",
            "2147483647 is out of range for `stack_size`",
        ),
        (
            "num_threads: 1 stack_size: -1",
            "expected a number from 0 to 67108864",
        ),
    ] {
        let found = check(&pool("wide", options), &environment());
        assert!(found.contains(said), "{options}: {found}");
    }
    let plain = HEAVY.replace("EXECUTOR", "");
    let found = check(&format!("num_threads: 1000000 {plain}"), &environment());
    assert!(
        found.contains("the pools of the graph have 1000000 threads"),
        "{found}"
    );
    let several = format!("num_threads: 200 {}", pool("more", "num_threads: 57"));
    let found = check(&several, &environment());
    assert!(
        found.contains("the pools of the graph have 257 threads"),
        "{found}"
    );
    assert!(found.contains("expected at most 256 together"), "{found}");
}

#[test]
fn threads_start_with_the_first_session_that_needs_them() {
    let started = || {
        let threads = std::fs::read_dir("/proc/self/task").expect("Linux");
        let names =
            threads.filter_map(|it| std::fs::read_to_string(it.ok()?.path().join("comm")).ok());
        names.filter(|name| name.starts_with("later-")).count()
    };
    let graph = pool("later", "num_threads: 3");
    assert_eq!(check(&graph, &environment()), "");
    let mut h = run(&graph);
    assert_eq!(started(), 0);
    h.push("in", 1, "a").block_until(|h| h.count("out") == 1);
    // A thread gives itself its name.
    while started() < 3 {
        std::thread::yield_now();
    }
}

#[expect(clippy::large_stack_arrays, reason = "the stack is what is tested")]
#[test]
fn a_pool_without_a_wish_has_stacks_that_nodes_can_use() {
    const DEPTH: usize = 512 << 10;
    let pool = ThreadPool::new("deep", Some(1));
    let (sender, receiver) = mpsc::channel();
    pool.spawn(Box::new(move || {
        let stack = std::hint::black_box([1u8; DEPTH]);
        sender
            .send(stack.iter().map(|byte| usize::from(*byte)).sum())
            .ok();
    }));
    assert_eq!(receiver.recv(), Ok(DEPTH));
}

/// A session of `HEAVY` on this plan that has a packet, polled once.
fn begun(plan: &Arc<graphmill_engine::Plan>) -> (Session, Handle, Poll<Result<Summary>>) {
    let (mut session, handle) =
        Session::new(plan, RunCx::new("x"), SidePackets::new()).expect("starts");
    block_on(handle.push("in", Packet::new(0, "a".to_owned()))).expect("it takes packets");
    let mut cx = Context::from_waker(Waker::noop());
    let polled = Pin::new(&mut session).poll(&mut cx);
    (session, handle, polled)
}

#[test]
fn a_session_that_finds_an_executor_full_is_refused_before_its_first_job() {
    let executor = Arc::new(graphmill_engine::testing::ManualExecutor::default());
    let executors = graphmill_engine::Executors::new();
    executors.insert("cpu", executor.clone());
    let environment = environment().with_executors(Arc::new(executors));
    let compile = || {
        let mut sources = graphmill_grammar::SourceMap::new();
        let text = HEAVY.replace("EXECUTOR", "");
        let graph = graphmill_grammar::parse_graph(&mut sources, "x", text);
        let graph = graph.into_result().expect("parses").0;
        let (plan, _) = graphmill_engine::Plan::compile(&graph, &mut sources, &environment);
        plan.expect("compiles")
    };
    let (busy, calm) = (compile(), compile());
    let flood: Vec<_> = (0..1_024).map(|_| begun(&busy)).collect();
    assert!(flood.iter().all(|(_, _, polled)| polled.is_pending()));
    assert_eq!((busy.jobs_waiting(), calm.jobs_waiting()), (1_024, 0));
    let (_, _, refused) = begun(&busy);
    let Poll::Ready(Err(error)) = refused else {
        panic!("one more job waits");
    };
    assert_eq!(error.kind, Kind::ResourceExhausted);
    assert_eq!((busy.jobs_waiting(), busy.sessions_refused()), (1_024, 1));
    // Another graph has its turn after one job, whatever waits before it.
    let (mut session, _handle, polled) = begun(&calm);
    assert!(polled.is_pending());
    assert!(executor.run_one() && executor.run_one());
    assert_eq!((busy.jobs_waiting(), calm.jobs_waiting()), (1_023, 0));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut session).poll(&mut cx).is_pending());
    // Whose sessions are gone takes no time, and there is room again.
    drop(flood);
    while executor.run_one() {}
    assert!(begun(&busy).2.is_pending());
}
