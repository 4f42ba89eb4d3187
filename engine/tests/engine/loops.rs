//! Back edges, and the ways to get a loop going.

use graphmill_engine::{
    AsyncCalculator, Calculator, Contract, Cx, Emits, Environment, EventSender, Events, Flow, In,
    InputSet, NoOptions, Offset, OpenCx, Out, Policy, Registry, Result, testing::Harness,
};

use crate::engine::nodes::run;

#[test]
fn a_loop_with_a_first_value_sums_up() {
    let mut h = run(r#"
        input_stream: "in"
        node { calculator: "AddCalculator" input_stream: "in" input_stream: "old" output_stream: "sum"
               input_stream_info { tag_index: ":1" back_edge: true }
               input_stream_handler { input_stream_handler: "EarlyCloseInputStreamHandler" } }
        node { calculator: "DelayCalculator" input_stream: "sum" output_stream: "old" }"#);
    for time in 0..5 {
        h.push("in", time, 10 * time);
    }
    h.expect("sum", [(0, 0_i64), (1, 10), (2, 30), (3, 60), (4, 100)]);
    h.finish();
}

#[test]
fn a_loop_that_nothing_starts_ends_when_its_inputs_close() {
    let mut h = run(r#"
        input_stream: "in"
        node { calculator: "PassThroughCalculator" input_stream: "in" input_stream: "back" output_stream: "out" output_stream: "round"
               input_stream_info { tag_index: ":1" back_edge: true } }
        node { calculator: "PassThroughCalculator" input_stream: "out" output_stream: "back" }"#);
    h.push("in", 1, "x")
        .push("in", 2, "y")
        .expect_nothing("out");
    let why = h.why().to_string();
    assert!(why.contains("waits for stream `back`"), "{why}");
    h.finish();
}

/// An engine elsewhere, as a test sees it: steps arrive when the test sends them, and credit is
/// counted.
struct Generate {
    sender: Option<EventSender<i64>>,
    granted: i64,
}

#[derive(Copy, Clone)]
struct GeneratePorts {
    prompt: In<EventSenders>,
    credit: In<()>,
    tokens: Out<i64>,
    again: Out<()>,
    granted: Out<i64>,
    steps: Events<i64>,
}

/// The test's end of the events: the node puts its sender here.
type EventSenders = std::sync::Arc<std::sync::Mutex<Vec<EventSender<i64>>>>;

impl Calculator for Generate {
    const NAME: &'static str = "GenerateCalculator";
    type Options = NoOptions;
    type Ports = GeneratePorts;

    fn contract(c: &mut Contract, _: &NoOptions) -> GeneratePorts {
        c.offset(Offset::Unset);
        GeneratePorts {
            prompt: c.input("PROMPT"),
            credit: c.optional("LOOPBACK"),
            tokens: c.output("TOKENS"),
            again: c.optional_output("LOOPBACK"),
            granted: c.output("GRANTED"),
            steps: c.events(),
        }
    }

    fn open(_: &NoOptions, _: GeneratePorts, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self {
            sender: None,
            granted: 0,
        })
    }

    fn process(&mut self, io: GeneratePorts, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(senders) = cx.take(io.prompt) {
            let sender = cx.sender(io.steps);
            senders
                .lock()
                .expect("no test panics with it")
                .push(sender.clone());
            self.sender = Some(sender);
        }
        if cx.get(io.credit).is_some() {
            self.granted += 1;
            cx.emit_at(io.granted, self.granted, self.granted);
        }
        if let Some(step) = cx.event(io.steps) {
            if step < 0 {
                return Ok(Flow::Stop);
            }
            cx.emit(io.tokens, step);
            cx.emit(io.again, ());
        }
        Ok(Flow::Continue)
    }
}

const CREDIT: &str = r#"
    input_stream: "prompt" max_queue_size: 4
    node { calculator: "GenerateCalculator" input_stream: "PROMPT:prompt" input_stream: "LOOPBACK:loop"
           output_stream: "TOKENS:tokens" output_stream: "LOOPBACK:loop" output_stream: "GRANTED:granted"
           input_stream_info { tag_index: "LOOPBACK:0" back_edge: true }
           input_stream_handler { input_stream_handler: "SyncSetInputStreamHandler"
             options { [mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: "LOOPBACK:0" } } } } }
    node { calculator: "PassThroughCalculator" input_stream: "tokens" output_stream: "text" }
    node { calculator: "PassThroughCalculator" input_stream: "text" output_stream: "out" }"#;

fn generate() -> Environment {
    let registry = Registry::new()
        .with::<Generate>()
        .with::<crate::engine::nodes::Pass>()
        .with_async::<Later>();
    Environment::new(registry)
}

#[test]
fn each_step_returns_one_credit() {
    let mut h = Harness::new(CREDIT, generate());
    let senders = EventSenders::default();
    h.push("prompt", 0, senders.clone()).close("prompt");
    let sender = senders
        .lock()
        .expect("free")
        .pop()
        .expect("the node made a sender");
    for step in 0..10 {
        sender.send(step).expect("the session lives");
    }
    h.settle();
    let steps: Vec<i64> = h
        .packets("out")
        .into_iter()
        .filter_map(graphmill_engine::Packet::into_value)
        .collect();
    assert_eq!(steps, (0..10).collect::<Vec<_>>());
    assert_eq!(h.packets("granted").len(), 10);
    assert!(!h.ended());
    sender.send(-1).expect("the session lives");
    h.settle();
    h.finish();
}

#[test]
fn without_the_back_edge_it_runs_all_the_same() {
    let text = CREDIT
        .replace(r#"input_stream: "LOOPBACK:loop""#, "")
        .replace(r#"output_stream: "LOOPBACK:loop""#, "")
        .lines()
        .filter(|line| !line.contains("input_stream_info"))
        .collect::<Vec<_>>()
        .join("\n");
    let (before, rest) = text
        .split_once("input_stream_handler")
        .expect("the text has a handler");
    let (_, after) = rest.split_once("} } } } }").expect("the handler ends");
    let mut h = Harness::new(&format!("{before} }}{after}"), generate());
    let senders = EventSenders::default();
    h.push("prompt", 0, senders.clone()).close("prompt");
    let sender = senders
        .lock()
        .expect("free")
        .pop()
        .expect("the node made a sender");
    sender.send(5).expect("the session lives");
    sender.send(-1).expect("the session lives");
    h.settle();
    h.expect("out", [(0, 5_i64)]);
    h.finish();
}

#[test]
fn a_slow_reader_stops_the_credit() {
    use graphmill_engine::{RunCx, Session, SidePackets};
    let h = Harness::new(CREDIT, generate());
    let (mut session, handle) =
        Session::new(h.plan(), RunCx::new("slow"), SidePackets::new()).expect("starts");
    let mut out = handle.output("out").expect("before the start");
    let granted = std::sync::Arc::new(std::sync::atomic::AtomicI64::new(0));
    let count = std::sync::Arc::clone(&granted);
    session
        .observe("granted", false, move |_, _| {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Ok(())
        })
        .expect("the stream exists");
    let senders = EventSenders::default();
    handle
        .try_push("prompt", graphmill_engine::Packet::new(0, senders.clone()))
        .expect("room");
    let mut session = std::pin::pin!(session);
    let mut poll = || {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(std::future::Future::poll(session.as_mut(), &mut cx).is_pending());
    };
    poll();
    let sender = senders
        .lock()
        .expect("free")
        .pop()
        .expect("the node made a sender");
    let (mut credit, mut made, mut read) = (8, 0, Vec::new());
    let mut step = |read: Option<&mut Vec<i64>>| {
        let back = granted.swap(0, std::sync::atomic::Ordering::Relaxed);
        credit += back;
        if credit > 0 && made < 500 {
            sender.send(made).expect("the session lives");
            made += 1;
            credit -= 1;
        }
        poll();
        if let Some(read) = read
            && let Some(packet) = out.try_next()
        {
            read.extend(packet.get::<i64>());
        }
        made
    };
    let mut stalled = 0;
    for _ in 0..1_000 {
        stalled = step(None);
    }
    assert!(
        stalled < 50,
        "the engine made {stalled} steps for a client that does not read"
    );
    for _ in 0..2_000 {
        step(Some(&mut read));
    }
    assert_eq!(
        read,
        (0..500).collect::<Vec<i64>>(),
        "everything arrives, in order"
    );
}

/// Answers each input later: an async node in a loop's place.
struct Later;

impl AsyncCalculator for Later {
    const NAME: &'static str = "LaterCalculator";
    type Options = NoOptions;
    type Ports = (In<i64>, Out<i64>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        c.policy(Policy::Immediate);
        (c.input(""), c.output(""))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    async fn process(
        &mut self,
        (input, output): Self::Ports,
        mut set: InputSet,
        out: &mut Emits,
    ) -> Result<Flow> {
        let mut polled = false;
        std::future::poll_fn(|cx| {
            if std::mem::replace(&mut polled, true) {
                return std::task::Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            std::task::Poll::Pending
        })
        .await;
        if let Some(value) = set.take(input) {
            out.emit(output, value + 1);
        }
        Ok(Flow::Continue)
    }
}

#[test]
fn an_async_node_answers_in_order() {
    let text = r#"node { calculator: "LaterCalculator" input_stream: "in" output_stream: "out" }"#;
    let mut h = Harness::new(text, generate());
    h.push("in", 1, 10_i64)
        .push("in", 2, 20_i64)
        .push("in", 3, 30_i64);
    h.expect("out", [(1, 11_i64), (2, 21), (3, 31)]);
    h.finish();
}
