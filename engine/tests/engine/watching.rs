//! Sessions that are looked at: states and counts, packets, timelines, and what the plan adds up.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, Sender, channel},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use graphmill_engine::{
    Activity, Calculator, Contract, Cx, Edge, Error, Executors, Flow, Handle, Happening, In,
    NoOptions, OpenCx, Out, Packet, Plan, Registry, Result, RunCx, Session, SidePackets, Snapshot,
    Timeline, Timestamp, testing::ManualExecutor,
};
use graphmill_grammar::{SourceMap, parse_graph};

use crate::engine::nodes::environment_with;

/// A node's word that it computes, and the word for it to go on.
type Gate = (Sender<()>, Arc<Mutex<Receiver<()>>>);

/// Computes until it is told to go on.
struct Compute;

impl Calculator for Compute {
    const NAME: &'static str = "ComputeCalculator";
    type Options = NoOptions;
    type Ports = (In<Gate>, Out<i64>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        (c.input(""), c.output(""))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, (gate, _): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some((begun, go_on)) = cx.get(gate) {
            begun.send(()).expect("the test waits");
            go_on.lock().expect("free").recv().expect("the test lives");
        }
        Ok(Flow::Continue)
    }
}

fn plan(text: &str) -> Arc<Plan> {
    let executors = Executors::new();
    executors.insert("elsewhere", Arc::new(ManualExecutor::default()));
    let environment = environment_with(Registry::new().with::<Compute>());
    let environment = environment.with_executors(Arc::new(executors));
    let mut sources = SourceMap::new();
    let parsed = parse_graph(&mut sources, "graph.pbtxt", text);
    let graph = parsed.graph.expect("a graph");
    let (plan, diagnostics) = Plan::compile(&graph, &mut sources, &environment);
    plan.unwrap_or_else(|| panic!("{diagnostics:?}"))
}

fn start(plan: &Arc<Plan>) -> (Session, Handle) {
    Session::new(plan, RunCx::new("test"), SidePackets::new()).expect("it starts")
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// What a question gives that the session answers at its next poll.
fn answer<T>(session: &mut Session, question: impl Future<Output = T>) -> T {
    let mut question = Box::pin(question);
    assert!(poll(&mut question).is_pending());
    assert!(poll(session).is_pending());
    match poll(&mut question) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("the session does not answer"),
    }
}

fn look(session: &mut Session, handle: &Handle) -> Snapshot {
    answer(session, handle.observer().snapshot()).expect("it has not ended")
}

fn end(session: &mut Session) -> Result<()> {
    match poll(session) {
        Poll::Ready(outcome) => outcome.map(drop),
        Poll::Pending => panic!("the session goes on"),
    }
}

const JOIN: &str = r#"
    input_stream: "a" input_stream: "b" max_queue_size: 2
    node { name: "pass" calculator: "PassThroughCalculator" input_stream: "a" output_stream: "c" }
    node { name: "join" calculator: "AddCalculator" input_stream: "c" input_stream: "b" output_stream: "sum" }
    node { name: "last" calculator: "PassThroughCalculator" input_stream: "sum" output_stream: "out" }
"#;

#[test]
fn a_view_tells_what_each_node_does_and_what_waits_in_each_queue() {
    let plan = plan(JOIN);
    let edges: Vec<Edge> = plan.edges().collect();
    let names: Vec<&str> = plan.node_names().collect();
    let streams: Vec<&str> = plan.streams().collect();
    let edge = |view: &Snapshot, node: &str, stream: &str, port: &str| {
        let found = edges.iter().position(|edge| {
            (names[edge.node], streams[edge.stream], &*edge.port) == (node, stream, port)
        });
        view.edges[found.expect("an edge")]
    };
    let (mut session, handle) = start(&plan);
    assert!(poll(&mut session).is_pending());
    let view = look(&mut session, &handle);
    let activities: Vec<Activity> = view.nodes.iter().map(|node| node.activity).collect();
    assert_eq!(activities, [Activity::Idle; 3]);

    for at in 0..2 {
        handle.try_push("a", Packet::new(at, at)).expect("room");
        assert!(poll(&mut session).is_pending());
    }
    let view = look(&mut session, &handle);
    assert_eq!(view.nodes[0].activity, Activity::Idle);
    assert_eq!((view.nodes[0].calls, view.nodes[1].calls), (2, 0));
    assert_eq!(view.nodes[1].activity, Activity::Waiting, "for `b`");
    assert_eq!(view.nodes[2].activity, Activity::Idle);
    let queue = edge(&view, "join", "c", ":0");
    assert_eq!((queue.queued, queue.bound, queue.packets), (2, Some(2), 2));
    assert_eq!(edge(&view, "join", "b", ":1").queued, 0);
    assert_eq!(edge(&view, "pass", "a", ":0").packets, 2);

    handle.close_all();
    let observer = handle.observer();
    end(&mut session).expect("it ends well");
    assert!(matches!(observer.ended(), Some(Ok(()))));
    assert!(matches!(
        poll(&mut Box::pin(observer.snapshot())),
        Poll::Ready(None)
    ));
}

#[test]
fn a_node_on_an_executor_runs_the_one_before_it_is_blocked_and_another_is_closed() {
    let plan = plan(
        r#"
        input_stream: "a" input_stream: "b" max_queue_size: 2
        executor { name: "elsewhere" }
        node { name: "before" calculator: "PassThroughCalculator" input_stream: "a" output_stream: "in" }
        node { name: "away" calculator: "PassThroughCalculator" input_stream: "in" output_stream: "c" executor: "elsewhere" }
        node { name: "done" calculator: "PassThroughCalculator" input_stream: "b" output_stream: "d" }
        "#,
    );
    let (mut session, handle) = start(&plan);
    for at in 0..4 {
        handle.try_push("a", Packet::new(at, at)).expect("room");
        assert!(poll(&mut session).is_pending());
    }
    handle.close("b").expect("an input");
    assert!(poll(&mut session).is_pending());
    let view = look(&mut session, &handle);
    let names = plan.node_names().zip(&view.nodes);
    let activity = names.map(|(name, node)| (name, node.activity));
    let mut activity: Vec<_> = activity.collect();
    activity.sort_unstable();
    let expected = [
        ("away", Activity::Running),
        ("before", Activity::Blocked),
        ("done", Activity::Closed),
    ];
    assert_eq!(activity, expected);
}

#[test]
fn the_node_is_known_in_which_a_session_does_not_answer() {
    let plan = plan(
        r#"
        input_stream: "a"
        node { calculator: "PassThroughCalculator" input_stream: "a" output_stream: "b" }
        node { name: "slow" calculator: "ComputeCalculator" input_stream: "b" output_stream: "c" }
        "#,
    );
    let (mut session, handle) = start(&plan);
    let (begun, has_begun) = channel();
    let (go_on, told) = channel();
    let gate: Gate = (begun, Arc::new(Mutex::new(told)));
    handle.try_push("a", Packet::new(0, gate)).expect("room");
    let observer = handle.observer();
    assert_eq!(observer.inside(), None);
    let task = std::thread::spawn(move || {
        assert!(poll(&mut session).is_pending());
        session
    });
    has_begun.recv().expect("the node runs");
    let names: Vec<&str> = plan.node_names().collect();
    assert_eq!(observer.inside().map(|node| names[node]), Some("slow"));
    go_on.send(()).expect("the node waits");
    let _session = task.join().expect("no panic");
    assert_eq!(observer.inside(), None);
}

#[test]
fn a_watcher_sees_packets_until_it_wants_no_more() {
    let plan = plan(JOIN);
    let (mut session, handle) = start(&plan);
    assert!(poll(&mut session).is_pending());
    let seen: Arc<Mutex<Vec<(usize, i64)>>> = Arc::default();
    let sink = Arc::clone(&seen);
    let observer = handle.observer();
    observer
        .observe_packets(&["b", "c"], move |stream, packet| {
            let mut seen = sink.lock().expect("free");
            seen.push((stream, *packet.get().expect("a number")));
            seen.len() < 3
        })
        .expect("streams");
    let unknown = observer.observe_packets(&["nothing"], |_, _| true);
    assert!(
        unknown
            .expect_err("no stream")
            .message
            .contains("`nothing`")
    );
    for at in 0..3_i64 {
        handle.try_push("a", Packet::new(at, at)).expect("room");
        handle
            .try_push("b", Packet::new(at, 10 + at))
            .expect("room");
        assert!(poll(&mut session).is_pending());
    }
    let mut seen = seen.lock().expect("free").clone();
    seen.sort_unstable();
    assert_eq!(seen.len(), 3, "{seen:?}");
    assert!(
        seen.contains(&(0, 10)) && seen.contains(&(1, 0)),
        "{seen:?}"
    );
}

#[test]
fn a_watcher_is_no_taker_of_packets() {
    let plan = plan(
        r#"
        input_stream: "a" input_stream: "b"
        node { calculator: "PassThroughCalculator" input_stream: "a" output_stream: "c" }
        node { calculator: "PassThroughCalculator" input_stream: "b" output_stream: "d" }
        "#,
    );
    let (mut session, handle) = start(&plan);
    session
        .observe_packets(&["a", "c"], |_, _| true)
        .expect("streams");
    handle.close("a").expect("an input");
    assert!(poll(&mut session).is_pending());
    // Nobody takes it any more: it is dropped, as it is without a watcher.
    handle.try_push("a", Packet::new(0, 1_i64)).expect("room");
    handle.close_all();
    end(&mut session).expect("it ends well");
}

type Told = Arc<Mutex<Option<(Timeline, Option<Error>)>>>;

fn keep(session: &mut Session, events: usize) -> Told {
    let told = Told::default();
    let place = Arc::clone(&told);
    session.keep_timeline(events, move |timeline, error| {
        *place.lock().expect("free") = Some((timeline, error.cloned()));
    });
    told
}

#[test]
fn a_timeline_has_the_calls_and_packets_in_order() {
    let plan = plan(JOIN);
    let (mut session, handle) = start(&plan);
    let told = keep(&mut session, 100);
    handle.try_push("a", Packet::new(7, 1_i64)).expect("room");
    handle.try_push("b", Packet::new(7, 2_i64)).expect("room");
    assert!(poll(&mut session).is_pending());
    let open = answer(&mut session, handle.observer().timeline()).expect("it keeps one");
    handle.close_all();
    end(&mut session).expect("it ends well");
    let (timeline, error) = told.lock().expect("free").take().expect("it was told");
    assert_eq!(
        (error.map(|error| error.message), timeline.dropped),
        (None, 0)
    );
    assert_eq!(timeline.events[..open.events.len()], open.events[..]);
    let streams: Vec<&str> = plan.streams().collect();
    let names: Vec<&str> = plan.node_names().collect();
    let shown = open.events.iter().map(|event| match event.what {
        Happening::Call { node, time, .. } => {
            assert_eq!(time, Some(Timestamp::new(7)));
            names[node]
        }
        Happening::Packet { stream, time } => {
            assert_eq!(time, Timestamp::new(7));
            streams[stream]
        }
    });
    let shown: Vec<&str> = shown.collect();
    assert_eq!(shown, ["a", "b", "pass", "c", "join", "sum", "last", "out"]);
    assert!(open.events.is_sorted_by_key(|event| event.at));
}

#[test]
fn a_timeline_is_bounded_and_tells_how_the_session_failed() {
    let plan = plan(
        r#"
        input_stream: "a"
        node { calculator: "PassThroughCalculator" input_stream: "a" output_stream: "b" }
        node {
          name: "bad" calculator: "FailCalculator" input_stream: "b" output_stream: "c"
          options { [FailCalculatorOptions.ext] { at: "process" } }
        }
        "#,
    );
    let (mut session, handle) = start(&plan);
    let told = keep(&mut session, 3);
    for at in 0..20 {
        handle.try_push("a", Packet::new(at, at)).expect("room");
    }
    end(&mut session).expect_err("it fails");
    let (timeline, error) = told.lock().expect("free").take().expect("it was told");
    assert_eq!(timeline.events.len(), 3);
    assert!(timeline.dropped > 0);
    assert_eq!(error.and_then(|error| error.node).as_deref(), Some("bad"));
    let totals = plan.totals();
    assert_eq!((totals.sessions, totals.nodes[1].errors), (1, 1));
}

#[test]
fn a_plan_adds_up_what_its_sessions_did() {
    let plan = plan(JOIN);
    assert_eq!(plan.totals().sessions, 0);
    for _ in 0..3 {
        let (mut session, handle) = start(&plan);
        handle.try_push("a", Packet::new(0, 1_i64)).expect("room");
        handle.try_push("b", Packet::new(0, 1_i64)).expect("room");
        handle.close_all();
        end(&mut session).expect("it ends well");
    }
    // One that is given up counts with what it did.
    drop(start(&plan));
    let totals = plan.totals();
    assert_eq!(totals.sessions, 4);
    assert_eq!(totals.packets, [3; 5]);
    for node in &totals.nodes {
        assert_eq!((node.errors, node.calls % 3), (0, 0));
        assert!(node.calls >= 3 && node.busy > Duration::ZERO, "{node:?}");
    }
}
