//! Cancelling is dropping, whatever the session waits for.

use std::{
    future::{Future, pending},
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

use graphmill_engine::{
    AsyncCalculator, Calculator, Contract, Cx, Emits, Environment, EventSender, Events, Flow, In,
    InputSet, Kind, NoOptions, OpenCx, Out, OutputStream, Packet, Registry, Result, RunCx, Session,
    SidePackets, testing::Harness,
};

use crate::engine::nodes;

type Alive = Arc<()>;

/// Waits in each of the ways a node can wait, holding on to a token that tells whether it still
/// lives.
struct Wait {
    token: Option<Alive>,
    sender: Option<EventSender<()>>,
}

impl Calculator for Wait {
    const NAME: &'static str = "WaitCalculator";
    type Options = NoOptions;
    type Ports = (In<Alive>, In<i64>, Out<i64>, Events<()>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        c.policy(graphmill_engine::Policy::Immediate);
        (
            c.input("TOKEN"),
            c.optional("IN"),
            c.optional_output("OUT"),
            c.events(),
        )
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self {
            token: None,
            sender: None,
        })
    }

    fn process(
        &mut self,
        (token, input, output, events): Self::Ports,
        cx: &mut Cx<'_>,
    ) -> Result<Flow> {
        if let Some(token) = cx.take(token) {
            self.token = Some(token);
            self.sender = Some(cx.sender(events));
        }
        cx.forward(input, output);
        Ok(Flow::Continue)
    }
}

/// Never answers.
struct Never;

impl AsyncCalculator for Never {
    const NAME: &'static str = "NeverCalculator";
    type Options = NoOptions;
    type Ports = In<Alive>;

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        c.input("")
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    async fn process(
        &mut self,
        input: Self::Ports,
        mut set: InputSet,
        _: &mut Emits,
    ) -> Result<Flow> {
        let _held = set.take(input);
        pending().await
    }
}

fn harness(text: &str) -> Harness {
    let registry = Registry::new()
        .with::<Wait>()
        .with_async::<Never>()
        .with::<nodes::Pass>()
        .with::<nodes::Heavy>();
    Harness::new(text, Environment::new(registry))
}

/// Starts a session, lets `prepare` bring it where it waits, and returns it with its handle.
#[track_caller]
fn waiting(
    text: &str,
    prepare: impl FnOnce(&graphmill_engine::Handle),
) -> (Session, graphmill_engine::Handle, Option<OutputStream>) {
    let h = harness(text);
    let (mut session, handle) =
        Session::new(h.plan(), RunCx::new("x"), SidePackets::new()).expect("starts");
    let out = handle.output("out").ok();
    prepare(&handle);
    assert!(poll(&mut session).is_pending());
    (session, handle, out)
}

fn poll(session: &mut Session) -> Poll<Result<graphmill_engine::Summary>> {
    Pin::new(session).poll(&mut Context::from_waker(Waker::noop()))
}

/// For each wait: dropping the handle ends the session as cancelled; dropping the session frees
/// what its nodes hold.
#[track_caller]
fn check(text: &str, prepare: impl Fn(&graphmill_engine::Handle, Alive)) {
    let alive = Alive::default();
    let (mut session, handle, _out) = waiting(text, |handle| prepare(handle, alive.clone()));
    assert_eq!(Arc::strong_count(&alive), 2, "the session holds the token");
    drop(handle);
    let Poll::Ready(Err(error)) = poll(&mut session) else {
        panic!("a cancelled session ends")
    };
    assert_eq!(error.kind, Kind::Cancelled);
    assert_eq!(Arc::strong_count(&alive), 1, "what its nodes held is free");

    let (session, handle, _out) = waiting(text, |handle| prepare(handle, alive.clone()));
    drop(session);
    assert_eq!(Arc::strong_count(&alive), 1, "what its nodes held is free");
    assert!(handle.run().cancel.is_cancelled());
    assert!(
        handle
            .try_push("token", Packet::new(9, alive.clone()))
            .is_err()
    );
}

fn push(
    handle: &graphmill_engine::Handle,
    stream: &str,
    time: i64,
    value: impl graphmill_engine::Payload,
) {
    handle
        .try_push(stream, Packet::new(time, value))
        .expect("room");
}

#[test]
fn while_a_node_waits_for_input() {
    check(
        r#"node { calculator: "PassThroughCalculator" input_stream: "token" input_stream: "other" output_stream: "out" output_stream: "out_2" }"#,
        |handle, token| push(handle, "token", 0, token),
    );
}

#[test]
fn while_a_node_waits_for_an_event() {
    check(
        r#"node { calculator: "WaitCalculator" input_stream: "TOKEN:token" }"#,
        |handle, token| {
            push(handle, "token", 0, token);
            handle.close_all();
        },
    );
}

#[test]
fn while_a_node_waits_for_the_reader() {
    let text = r#"max_queue_size: -1 input_stream: "token" input_stream: "in"
        node { calculator: "WaitCalculator" input_stream: "TOKEN:token" input_stream: "IN:in" output_stream: "OUT:out" }"#;
    check(text, |handle, token| {
        push(handle, "token", 0, token);
        (1..=100).for_each(|time| push(handle, "in", time, time));
    });
}

#[test]
fn while_a_future_is_pending() {
    check(
        r#"node { calculator: "NeverCalculator" input_stream: "token" }"#,
        |handle, token| push(handle, "token", 0, token),
    );
}

#[test]
fn while_a_node_waits_for_its_executor() {
    let text =
        r#"node { calculator: "HeavyCalculator" input_stream: "token" output_stream: "out" }"#;
    let alive = Alive::default();
    let executor = Arc::new(graphmill_engine::testing::ManualExecutor::default());
    let executors = graphmill_engine::Executors::new();
    executors.insert("cpu", executor.clone());
    let mut sources = graphmill_grammar::SourceMap::new();
    let graph = graphmill_grammar::parse_graph(
        &mut sources,
        "x",
        format!("input_stream: \"token\" {text}"),
    )
    .into_result()
    .expect("parses")
    .0;
    let environment = Environment::new(Registry::new().with::<nodes::Heavy>())
        .with_executors(Arc::new(executors));
    let (plan, _) = graphmill_engine::Plan::compile(&graph, &mut sources, &environment);
    let plan = plan.expect("compiles");
    let (mut session, handle) =
        Session::new(&plan, RunCx::new("x"), SidePackets::new()).expect("starts");
    push(&handle, "token", 0, alive.clone());
    assert!(poll(&mut session).is_pending());
    assert_eq!(executor.waiting(), 1);
    drop(handle);
    assert!(matches!(poll(&mut session), Poll::Ready(Err(_))));
    assert!(
        executor.run_one(),
        "the job still comes, finds the session gone"
    );
    assert_eq!(
        Arc::strong_count(&alive),
        1,
        "and drops the node and its inputs"
    );
    assert_eq!(plan.open_sessions(), 0);
}

#[test]
fn a_push_that_waits_is_told() {
    let text = r#"max_queue_size: 1 input_stream: "token" input_stream: "other" report_deadlock: false
        node { calculator: "NeverCalculator" input_stream: "token" } node { calculator: "NeverCalculator" input_stream: "other" }"#;
    let (session, handle, _) = waiting(text, |handle| push(handle, "token", 0, Alive::default()));
    push(&handle, "token", 1, Alive::default());
    let waker = Waker::noop();
    let mut third = std::pin::pin!(handle.push("token", Packet::new(2, Alive::default())));
    assert!(
        third
            .as_mut()
            .poll(&mut Context::from_waker(waker))
            .is_pending()
    );
    drop(session);
    assert!(matches!(
        third.as_mut().poll(&mut Context::from_waker(waker)),
        Poll::Ready(Err(_))
    ));
}

#[test]
fn a_deadline_ends_the_session() {
    let clock = graphmill_engine::testing::VirtualClock::default();
    let deadline = graphmill_engine::Clock::now(&clock) + Duration::from_secs(5);
    let text = r#"node { calculator: "NeverCalculator" input_stream: "token" }"#;
    let its = clock.clone();
    let mut h = harness(text).request(|run| {
        run.clock = Arc::new(its);
        run.deadline = Some(deadline);
    });
    h.push("token", 0, Alive::default());
    clock.advance(Duration::from_secs(4));
    h.settle();
    assert!(!h.ended());
    clock.advance(Duration::from_secs(1));
    h.settle();
    assert_eq!(h.error().kind, Kind::DeadlineExceeded);
}

#[test]
fn senders_outlive_the_session_without_harm() {
    let senders: Arc<Mutex<Vec<EventSender<()>>>> = Arc::default();
    let kept = Arc::clone(&senders);
    let (session, handle, _) = waiting(
        r#"node { calculator: "PassThroughCalculator" input_stream: "token" output_stream: "out" }"#,
        |handle| {
            push(handle, "token", 0, kept);
        },
    );
    drop((session, handle));
    assert_eq!(Arc::strong_count(&senders), 1);
}
