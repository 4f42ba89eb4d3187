//! Sessions that are stuck say why: one test for each way to be.

use std::{
    future::{Future, pending},
    pin::Pin,
    sync::{Arc, Barrier},
    task::{Context, Poll, Waker},
};

use graphmill_engine::{
    AsyncCalculator, Calculator, Contract, Cx, Emits, EventSender, Events, Executors, Flow, Handle,
    In, InputSet, NoOptions, Offset, OpenCx, Out, Packet, Payload, Plan, Policy, Registry, Result,
    RunCx, Session, Side, SidePackets, Why, testing::ManualExecutor,
};
use graphmill_grammar::{SourceMap, parse_graph};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::engine::nodes::environment_with;

/// Never answers.
struct Never;

impl AsyncCalculator for Never {
    const NAME: &'static str = "NeverCalculator";
    type Options = NoOptions;
    type Ports = (In<i64>, Out<i64>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        (c.input(""), c.output(""))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    async fn process(&mut self, _: Self::Ports, _: InputSet, _: &mut Emits) -> Result<Flow> {
        pending().await
    }
}

/// Waits for events that nobody sends.
struct Listen(Option<EventSender<()>>);

impl Calculator for Listen {
    const NAME: &'static str = "ListenCalculator";
    type Options = NoOptions;
    type Ports = (In<i64>, Out<i64>, Events<()>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        c.offset(Offset::Unset);
        (c.input(""), c.output(""), c.events())
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self(None))
    }

    fn process(&mut self, (_, _, events): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        self.0 = Some(cx.sender(events));
        Ok(Flow::Continue)
    }
}

/// Waits for events that nobody sends, once it has had a packet of each input.
struct Pair(Option<EventSender<()>>);

impl Calculator for Pair {
    const NAME: &'static str = "PairCalculator";
    type Options = NoOptions;
    type Ports = (In<i64>, In<i64>, Out<i64>, Events<()>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        c.offset(Offset::Unset);
        (c.input("A"), c.input("B"), c.output(""), c.events())
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self(None))
    }

    fn process(&mut self, (.., events): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        self.0 = Some(cx.sender(events));
        Ok(Flow::Continue)
    }
}

/// Waits for words from outside once it was asked for some. Each brings its own credit around the
/// loop.
struct Words {
    words: Option<EventSender<()>>,
    options: WordsOptions,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct WordsOptions {
    /// The words may come only after the back edge has brought something.
    spent: bool,
    /// It panics when it is asked what it waits for.
    panics: bool,
}

impl Calculator for Words {
    const NAME: &'static str = "WordsCalculator";
    type Options = WordsOptions;
    type Ports = (In<i64>, In<i64>, Out<i64>, Out<i64>, Events<()>);

    fn contract(c: &mut Contract, _: &WordsOptions) -> Self::Ports {
        c.policy(Policy::Immediate);
        c.offset(Offset::Unset);
        (
            c.input("ASK"),
            c.input("LOOP"),
            c.output("WORDS"),
            c.output("LOOP"),
            c.events(),
        )
    }

    fn open(options: &WordsOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self {
            words: None,
            options: options.clone(),
        })
    }

    fn process(&mut self, (ask, .., events): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if cx.get(ask).is_some() {
            self.words = Some(cx.sender(events));
        }
        Ok(Flow::Continue)
    }

    fn waits_for(&self) -> Option<String> {
        assert!(!self.options.panics, "told to");
        (!self.options.spent).then(|| "the third word".to_owned())
    }
}

/// Says what its call waits for.
struct Says;

impl AsyncCalculator for Says {
    const NAME: &'static str = "SaysCalculator";
    type Options = NoOptions;
    type Ports = (In<i64>, Out<i64>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        c.parallel();
        (c.input(""), c.output(""))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    async fn process(&mut self, _: Self::Ports, set: InputSet, out: &mut Emits) -> Result<Flow> {
        let number = set.time();
        out.waits_for(move || format!("letter {number}"));
        pending().await
    }
}

/// Tells a test that its call has begun, and ends it when the test says so.
struct Gate;

/// Where a [`Gate`] meets its test.
static BEGUN: Barrier = Barrier::new(2);
static END: Barrier = Barrier::new(2);

impl Calculator for Gate {
    const NAME: &'static str = "GateOfTestCalculator";
    type Options = NoOptions;
    type Ports = (In<i64>, Out<i64>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        (c.input(""), c.output(""))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, _: Self::Ports, _: &mut Cx<'_>) -> Result<Flow> {
        BEGUN.wait();
        END.wait();
        Ok(Flow::Continue)
    }
}

/// Emits each input ten times on its first output, and nothing on its second.
struct Lopsided;

impl Calculator for Lopsided {
    const NAME: &'static str = "LopsidedCalculator";
    type Options = NoOptions;
    type Ports = (In<i64>, Out<i64>, Out<i64>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        c.offset(Offset::Unset);
        (c.input(""), c.output("MANY"), c.output("NONE"))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, (_, many, _): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        let first = cx.time().value() * 10;
        (first..first + 10).for_each(|at| cx.emit_at(many, at, at));
        Ok(Flow::Continue)
    }
}

/// A source that needs a side packet.
struct Needy;

impl Calculator for Needy {
    const NAME: &'static str = "NeedyCalculator";
    type Options = NoOptions;
    type Ports = (Side<i64>, Out<i64>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        (c.side("VALUE"), c.output(""))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, _: Self::Ports, _: &mut Cx<'_>) -> Result<Flow> {
        Ok(Flow::Stop)
    }
}

fn start(text: &str) -> (Session, Handle) {
    Session::new(&plan(text), RunCx::new("x"), SidePackets::new()).expect("starts")
}

fn plan(text: &str) -> Arc<Plan> {
    let registry = Registry::new()
        .with_async::<Never>()
        .with_async::<Says>()
        .with::<Words>()
        .with::<Gate>()
        .with::<Listen>()
        .with::<Pair>()
        .with::<Lopsided>()
        .with::<Needy>();
    let executors = Executors::new();
    executors.insert("elsewhere", Arc::new(ManualExecutor::default()));
    let environment = environment_with(registry).with_executors(Arc::new(executors));
    let mut sources = SourceMap::new();
    let parsed = parse_graph(&mut sources, "stuck.pbtxt", text);
    let (plan, diagnostics) =
        Plan::compile(&parsed.graph.expect("a graph"), &mut sources, &environment);
    plan.unwrap_or_else(|| panic!("{diagnostics:?}"))
}

/// Runs the session until it waits, and asks it why.
#[track_caller]
fn ask(session: &mut Session) -> Why {
    struct Woken(std::sync::atomic::AtomicBool);
    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    }
    let woken = Arc::new(Woken(true.into()));
    let waker = Waker::from(Arc::clone(&woken));
    while woken.0.swap(false, std::sync::atomic::Ordering::Relaxed) {
        let polled = Pin::new(&mut *session).poll(&mut Context::from_waker(&waker));
        assert!(matches!(polled, Poll::Pending), "it is stuck: {polled:?}");
    }
    session.why()
}

fn push<T: Payload>(handle: &Handle, stream: &str, time: i64, value: T) {
    handle
        .try_push(stream, Packet::new(time, value))
        .expect("room");
}

/// The waits of the only chain.
#[track_caller]
fn chain(why: &Why) -> Vec<String> {
    assert_eq!(why.chains.len(), 1, "{why}");
    why.chains[0].iter().map(ToString::to_string).collect()
}

#[test]
fn on_a_graph_input() {
    let (mut session, handle) = start(
        r#"input_stream: "a" input_stream: "b" output_stream: "sum"
        node { calculator: "AddCalculator" input_stream: "a" input_stream: "b" output_stream: "sum" }"#,
    );
    push(&handle, "a", 10, 1_i64);
    push(&handle, "a", 20, 1_i64);
    let why = ask(&mut session);
    assert_eq!(
        chain(&why),
        [
            "`AddCalculator` waits for graph input `b`, on which nothing came yet; it is not closed; 2 packets wait with it, the first at 10"
        ]
    );
    let inputs: Vec<String> = why.open_inputs.iter().map(ToString::to_string).collect();
    assert_eq!(inputs, ["`a` from 21 on", "`b`"]);
    handle
        .bound("b", graphmill_engine::Timestamp::new(7))
        .expect("it is an input");
    let why = ask(&mut session);
    assert!(
        chain(&why)[0].contains("`b`, known before 7; it is not closed"),
        "{why}"
    );
}

#[test]
fn on_nothing() {
    let (mut session, handle) = start(
        r#"input_stream: "a" output_stream: "b"
        node { calculator: "PassThroughCalculator" input_stream: "a" output_stream: "b" }"#,
    );
    push(&handle, "a", 10, 1_i64);
    let why = ask(&mut session);
    assert_eq!(
        why.to_string(),
        "nothing is on its way\nopen graph inputs: `a` from 11 on\n"
    );
    assert_eq!(why.nodes.len(), 1, "the node is open");
    drop(session);
    assert_eq!(Why::default().roots().count(), 0);
}

#[test]
fn on_a_node_that_moves_no_bound() {
    let (mut session, handle) = start(
        r#"input_stream: "a" output_stream: "sum"
        node { calculator: "HintCalculator" input_stream: "a" output_stream: "hint" }
        node { calculator: "PassThroughCalculator" input_stream: "hint" output_stream: "passed" }
        node { calculator: "AddCalculator" input_stream: "a" input_stream: "passed" output_stream: "sum" }"#,
    );
    push(&handle, "a", 5, 3_i64);
    assert_eq!(
        chain(&ask(&mut session)),
        [
            "`AddCalculator` waits for stream `passed` from `PassThroughCalculator`, known before 3; 1 packet waits with it, at 5",
            "`PassThroughCalculator` waits for stream `hint` from `HintCalculator`, known before 3",
            "`HintCalculator` has dealt with everything before 6, but stream `hint` is known before 3 only: without a timestamp offset it \
             moves only with what is emitted",
        ]
    );
}

#[test]
fn on_a_back_edge_in_the_only_sync_set() {
    let (mut session, handle) = start(
        r#"input_stream: "in" output_stream: "out"
        node { name: "start" calculator: "AddCalculator" input_stream: "in" input_stream: "back" output_stream: "out"
               input_stream_info { tag_index: ":1" back_edge: true } }
        node { name: "end" calculator: "AddCalculator" input_stream: "out" output_stream: "back" }"#,
    );
    push(&handle, "in", 1, 1_i64);
    assert_eq!(
        chain(&ask(&mut session)),
        [
            "`start` waits for stream `back` from `end`, on which nothing came yet; 1 packet waits with it, at 1",
            "`end` waits for stream `out` from `start`, on which nothing came yet",
            "`start` waits for itself: `start` > `end` > `start`; give back edge `back` a first packet, or a sync set of its own",
        ]
    );
}

#[test]
fn on_a_reader_that_does_not_read() {
    let (mut session, handle) = start(
        r#"input_stream: "in" output_stream: "out" max_queue_size: 3
        node { name: "a" calculator: "PassThroughCalculator" input_stream: "in" output_stream: "x" }
        node { name: "b" calculator: "PassThroughCalculator" input_stream: "x" output_stream: "out" }"#,
    );
    let _out = handle.output("out").expect("not started");
    let mut time = 0;
    while handle.try_push("in", Packet::new(time, time)).is_ok() {
        time += 1;
        ask(&mut session);
    }
    assert_eq!(
        chain(&ask(&mut session)),
        [
            "`a` waits for room in the queue of stream `x` at `b`, full with 3 packets",
            "`b` waits for the reader of output `out`, which reads too slowly: 16 packets wait for it",
        ]
    );
}

#[test]
fn on_a_queue_whose_sibling_starves_and_on_an_async_call() {
    let (mut session, handle) = start(
        r#"input_stream: "in" output_stream: "sum" max_queue_size: 2
        node { calculator: "CountCalculator" output_stream: "n" node_options { [type.x/CountCalculatorOptions] { to: 100 } } }
        node { calculator: "NeverCalculator" input_stream: "in" output_stream: "slow" }
        node { calculator: "AddCalculator" input_stream: "n" input_stream: "slow" output_stream: "sum" }"#,
    );
    push(&handle, "in", 0, 0_i64);
    let why = ask(&mut session);
    assert_eq!(
        chain(&why),
        [
            "`CountCalculator` waits for room in the queue of stream `n` at `AddCalculator`, full with 2 packets",
            "`AddCalculator` waits for stream `slow` from `NeverCalculator`, on which nothing came yet; 2 packets wait with it, the first at 0",
            "`NeverCalculator` is in an async call that is pending",
        ]
    );
    let root = why.roots().next().expect("one root");
    assert!(root.since.is_some(), "the call has begun some time ago");
}

#[test]
fn on_a_side_packet() {
    let (mut session, handle) = start(
        r#"input_stream: "in" input_stream: "value" output_stream: "out"
        node { calculator: "MakeSideCalculator" input_stream: "IN:value" output_side_packet: "OUT:s" }
        node { calculator: "FromSideCalculator" input_stream: "in" input_side_packet: "VALUE:s" output_stream: "out" }"#,
    );
    push(&handle, "in", 0, 0_i64);
    assert_eq!(
        chain(&ask(&mut session)),
        [
            "`FromSideCalculator` waits for side packet `s` from `MakeSideCalculator`",
            "`MakeSideCalculator` waits for graph input `value`, on which nothing came yet; it is not closed",
        ]
    );
    handle.close("value").expect("it is an input");
    assert_eq!(
        chain(&ask(&mut session)),
        [
            "`FromSideCalculator` waits for side packet `s` from `MakeSideCalculator`",
            "`MakeSideCalculator` is closed and has not set side packet `s`",
        ]
    );
}

#[test]
fn on_a_call_on_an_executor() {
    let (mut session, handle) = start(
        r#"input_stream: "in" output_stream: "a" output_stream: "b"
        node { calculator: "HeavyCalculator" input_stream: "in" output_stream: "slow" executor: "elsewhere" }
        node { calculator: "PassThroughCalculator" input_stream: "in" input_stream: "slow" output_stream: "a" output_stream: "b" }"#,
    );
    push(&handle, "in", 4, 0_i64);
    assert_eq!(
        chain(&ask(&mut session)),
        [
            "`PassThroughCalculator` waits for stream `slow` from `HeavyCalculator`, on which nothing came yet; 1 packet waits with it, at 4",
            "`HeavyCalculator` waits for a free thread on `elsewhere`",
        ]
    );
}

#[test]
fn on_a_call_behind_others_on_an_executor() {
    let text = r#"input_stream: "in" output_stream: "out"
        node { calculator: "HeavyCalculator" input_stream: "in" output_stream: "out" executor: "elsewhere" }"#;
    let plan = plan(text);
    let ask_one_more = || {
        let (mut session, handle) =
            Session::new(&plan, RunCx::new("x"), SidePackets::new()).expect("starts");
        push(&handle, "in", 4, 0_i64);
        let said = chain(&ask(&mut session));
        (session, handle, said)
    };
    let (_first, _handle, said) = ask_one_more();
    assert_eq!(
        said,
        ["`HeavyCalculator` waits for a free thread on `elsewhere`"]
    );
    let (_second, _handle, said) = ask_one_more();
    assert_eq!(
        said,
        ["`HeavyCalculator` waits for a free thread on `elsewhere`, behind 1 of its graph's calls"]
    );
}

#[test]
fn on_a_thread_that_computes() {
    let (mut session, handle) = start(
        r#"input_stream: "in" output_stream: "out" executor { name: "own" type: "ThreadPoolExecutor" options {
             [mediapipe.ThreadPoolExecutorOptions.ext] { num_threads: 1 } } }
        node { calculator: "GateOfTestCalculator" input_stream: "in" output_stream: "out" executor: "own" }"#,
    );
    push(&handle, "in", 4, 0_i64);
    ask(&mut session);
    BEGUN.wait();
    assert_eq!(
        chain(&ask(&mut session)),
        ["`GateOfTestCalculator` is in a call on `own`"]
    );
    END.wait();
}

/// A node in a loop that asks for words, whose back edge comes by way of `around`.
fn words(options: &str, around: &str, policy: &str) -> (Session, Handle) {
    start(&format!(
        r#"input_stream: "in" output_stream: "sum" output_stream: "back"
        node {{ name: "words" calculator: "WordsCalculator" input_stream: "ASK:in" input_stream: "LOOP:back"
               input_stream_info {{ tag_index: "LOOP" back_edge: true }} {policy}
               output_stream: "WORDS:words" output_stream: "LOOP:forth"
               node_options {{ [type.x/WordsCalculatorOptions] {{ {options} }} }} }}
        node {{ name: "around" calculator: "{around}" input_stream: "forth" output_stream: "back" }}
        node {{ name: "sum" calculator: "AddCalculator" input_stream: "in" input_stream: "words" output_stream: "sum" }}"#
    ))
}

const WAITS_FOR_WORDS: &str = "`sum` waits for stream `words` from `words`, on which nothing came yet; 1 packet waits with it, at 4";

#[test]
fn on_what_a_node_in_a_loop_says_it_waits_for() {
    let own_set = r#"input_stream_handler { input_stream_handler: "SyncSetInputStreamHandler"
        options { [mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: "LOOP" } } } }"#;
    for policy in ["", own_set] {
        let (mut session, handle) = words("", "PassThroughCalculator", policy);
        push(&handle, "in", 4, 0_i64);
        let expected = [WAITS_FOR_WORDS, "`words` waits for the third word"];
        let why = ask(&mut session);
        assert_eq!(chain(&why), expected, "{policy}");
        let wait = serde_json::to_value(&why.chains[0][1]).expect("it serializes");
        assert_eq!(wait["waits_for"], "event");
        assert_eq!(wait["what"], "the third word");
        handle.close_all();
        assert_eq!(chain(&ask(&mut session)), expected, "{policy}");
    }
}

#[test]
fn on_what_goes_around_where_nothing_comes_from_outside_before_that() {
    let (mut session, handle) = words("spent: true", "PassThroughCalculator", "");
    push(&handle, "in", 4, 0_i64);
    handle.close_all();
    assert_eq!(
        chain(&ask(&mut session)),
        [
            WAITS_FOR_WORDS,
            "`words` waits for stream `back` from `around`, on which nothing came yet",
            "`around` waits for stream `forth` from `words`, on which nothing came yet",
            "`words` waits for itself: `words` > `around` > `words`",
        ]
    );
}

#[test]
fn on_what_comes_in_before_anything_can_go_around() {
    let (mut session, handle) = words("", "PassThroughCalculator", "");
    let bound = graphmill_engine::Timestamp::new(7);
    handle.bound("in", bound).expect("it is an input");
    let why = ask(&mut session);
    let words = why.nodes.iter().find(|wait| wait.node == "words");
    assert_eq!(
        words.expect("it is open").to_string(),
        "`words` waits for graph input `in`, known before 7; it is not closed"
    );
}

#[test]
fn on_an_event_where_the_node_cannot_say_more() {
    let (mut session, handle) = words("panics: true", "PassThroughCalculator", "");
    push(&handle, "in", 4, 0_i64);
    assert_eq!(
        chain(&ask(&mut session)),
        [
            WAITS_FOR_WORDS,
            "`words` waits for an event, or the release of its holds"
        ]
    );
}

#[test]
fn on_what_an_async_call_says_it_waits_for() {
    let (mut session, handle) = start(
        r#"input_stream: "in" output_stream: "out"
        node { calculator: "SaysCalculator" input_stream: "in" output_stream: "out" max_in_flight: 2 }"#,
    );
    push(&handle, "in", 4, 0_i64);
    push(&handle, "in", 5, 0_i64);
    let why = ask(&mut session);
    assert_eq!(
        chain(&why),
        ["`SaysCalculator` waits for letter 4"],
        "the outputs of the first call come first"
    );
    let wait = serde_json::to_value(&why.chains[0][0]).expect("it serializes");
    assert_eq!(
        (&wait["waits_for"], &wait["what"]),
        (&"future".into(), &"letter 4".into())
    );
}

#[test]
fn on_an_event() {
    let (mut session, handle) = start(
        r#"input_stream: "in" output_stream: "sum"
        node { calculator: "ListenCalculator" input_stream: "in" output_stream: "heard" }
        node { calculator: "AddCalculator" input_stream: "in" input_stream: "heard" output_stream: "sum" }"#,
    );
    push(&handle, "in", 4, 0_i64);
    let expected = [
        "`AddCalculator` waits for stream `heard` from `ListenCalculator`, on which nothing came yet; 1 packet waits with it, at 4",
        "`ListenCalculator` waits for an event, or the release of its holds",
    ];
    assert_eq!(chain(&ask(&mut session)), expected);
    handle.close_all();
    assert_eq!(
        chain(&ask(&mut session)),
        expected,
        "also when nothing more can come"
    );
}

#[test]
fn on_what_holds_a_node_before_the_input_that_its_packets_wait_for() {
    let (mut session, handle) = start(
        r#"input_stream: "a" input_stream: "b" output_stream: "c"
        node { calculator: "PairCalculator" input_stream: "A:a" input_stream: "B:b" output_stream: "c" }"#,
    );
    for (stream, time) in [("a", 1), ("b", 1), ("a", 2)] {
        push(&handle, stream, time, 0_i64);
    }
    let why = ask(&mut session);
    let held = "`PairCalculator` waits for an event, or the release of its holds";
    let roots: Vec<String> = why.roots().map(ToString::to_string).collect();
    assert_eq!(
        roots,
        [
            held,
            "`PairCalculator` waits for graph input `b`, known before 2; it is not closed; 1 packet waits with it, at 2",
        ]
    );
    assert_eq!(why.nodes[0].to_string(), held);
}

#[test]
fn on_each_other_by_way_of_a_full_queue() {
    // The pending call is what keeps the queue from growing.
    let (mut session, handle) = start(
        r#"input_stream: "in" input_stream: "other" output_stream: "sum" max_queue_size: 2
        node { calculator: "NeverCalculator" input_stream: "other" output_stream: "never" }
        node { calculator: "LopsidedCalculator" input_stream: "in" output_stream: "MANY:many" output_stream: "NONE:none" }
        node { calculator: "AddCalculator" input_stream: "many" input_stream: "none" output_stream: "sum" }"#,
    );
    push(&handle, "other", 0, 0_i64);
    push(&handle, "in", 0, 0_i64);
    push(&handle, "in", 1, 0_i64);
    let why = ask(&mut session);
    let waits: Vec<String> = why.chains[0].iter().map(ToString::to_string).collect();
    assert_eq!(
        waits,
        [
            "`LopsidedCalculator` waits for room in the queue of stream `many` at `AddCalculator`, full with 10 packets",
            "`AddCalculator` waits for stream `none` from `LopsidedCalculator`, on which nothing came yet; 10 packets wait with it, the first at 0",
            "`LopsidedCalculator` waits for itself: `LopsidedCalculator` > `AddCalculator` > `LopsidedCalculator`",
        ]
    );
    assert_eq!(
        why.chains.len(),
        2,
        "the loop once, and the pending call: {why}"
    );
}

#[test]
fn on_a_lower_layer() {
    let (mut session, _handle) = start(
        r#"input_stream: "in" output_stream: "out"
        node { name: "late" calculator: "CountCalculator" output_stream: "n" source_layer: 1 }
        node { name: "make" calculator: "MakeSideCalculator" input_stream: "IN:n" output_side_packet: "OUT:s" }
        node { name: "early" calculator: "NeedyCalculator" input_side_packet: "VALUE:s" output_stream: "out" }
        node { calculator: "AddCalculator" input_stream: "in" output_stream: "unread" }"#,
    );
    assert_eq!(
        chain(&ask(&mut session)),
        [
            "`late` is a source of layer 1 and waits for `early` of a lower layer to be done",
            "`early` waits for side packet `s` from `make`",
            "`make` waits for stream `n` from `late`, on which nothing came yet",
            "`late` waits for itself: `late` > `early` > `make` > `late`",
        ]
    );
}

#[test]
fn as_text_and_as_json() {
    let (mut session, handle) = start(
        r#"input_stream: "in" input_stream: "more" output_stream: "sum"
        node { name: "never" calculator: "AddCalculator" input_stream: "more" output_stream: "slow" }
        node { name: "sum" calculator: "AddCalculator" input_stream: "in" input_stream: "slow" output_stream: "sum" }"#,
    );
    push(&handle, "in", 4, 0_i64);
    let why = ask(&mut session);
    insta::assert_snapshot!(why.to_string());
    insta::assert_snapshot!(serde_json::to_string_pretty(&why).expect("it serializes"));
    drop(handle);
    assert!(matches!(
        Pin::new(&mut session).poll(&mut Context::from_waker(Waker::noop())),
        Poll::Ready(Err(_))
    ));
    assert_eq!(session.why().to_string(), "the session has ended");
}
