//! What must hold for every graph: the order in which packets arrive changes nothing under
//! deterministic policies, and a session that is dropped, wherever it is, leaves nothing behind.

use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

use graphmill_engine::{
    AsyncCalculator, Calculator, Contract, Cx, Emits, Environment, EventSender, Events, Executor,
    Executors, Flow, Handle, In, InputSet, Ins, NoOptions, OpenCx, Out, Packet, Plan, Registry,
    Result, RunCx, Session, SidePackets, Timestamp, executor::Job,
};
use graphmill_grammar::{SourceMap, parse_graph};
use proptest::prelude::*;

/// Lives as long as anything of a session that holds it.
type Token = Arc<()>;

#[derive(Clone, Debug)]
struct Value {
    number: i64,
    token: Token,
}

/// Adds what is there, and keeps the last token; where it runs is up to its name.
struct Mix<const KIND: u8>(Option<Token>);

type Ports = (Ins<Value>, Out<Value>);

fn mix(number: i64, values: impl Iterator<Item = Value>) -> Option<Value> {
    values.fold(None, |sum, value| {
        let number = sum.map_or(number, |sum: Value| sum.number) + value.number;
        Some(Value { number, ..value })
    })
}

const INLINE: u8 = 0;
const OFFLOADED: u8 = 1;
/// Drops every third packet.
const SIEVE: u8 = 2;

impl<const KIND: u8> Calculator for Mix<KIND> {
    const NAME: &'static str =
        ["MixCalculator", "OffloadedCalculator", "SieveCalculator"][KIND as usize];
    type Options = NoOptions;
    type Ports = Ports;

    fn contract(c: &mut Contract, _: &NoOptions) -> Ports {
        if KIND == OFFLOADED {
            c.run(graphmill_engine::Run::Offload("cpu"));
            c.parallel();
        }
        (c.inputs(""), c.output(""))
    }

    fn open(_: &NoOptions, _: Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self(None))
    }

    fn process(&mut self, (inputs, output): Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        let values: Vec<Value> = inputs
            .iter()
            .filter_map(|input| cx.get(input).cloned())
            .collect();
        if let Some(value) = mix(i64::from(KIND), values.into_iter()) {
            self.0 = Some(Arc::clone(&value.token));
            if KIND != SIEVE || cx.time().value() % 3 != 0 {
                cx.emit(output, value);
            }
        }
        Ok(Flow::Continue)
    }
}

/// The same, after a while.
struct Later;

impl AsyncCalculator for Later {
    const NAME: &'static str = "LaterCalculator";
    type Options = NoOptions;
    type Ports = Ports;

    fn contract(c: &mut Contract, _: &NoOptions) -> Ports {
        c.parallel();
        (c.inputs(""), c.output(""))
    }

    fn open(_: &NoOptions, _: Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    async fn process(
        &mut self,
        (inputs, output): Ports,
        set: InputSet,
        out: &mut Emits,
    ) -> Result<Flow> {
        for _ in 0..set.time().value().rem_euclid(4) {
            let mut polled = false;
            std::future::poll_fn(|cx| {
                if std::mem::replace(&mut polled, true) {
                    return Poll::Ready(());
                }
                cx.waker().wake_by_ref();
                Poll::Pending
            })
            .await;
        }
        let values = inputs.iter().filter_map(|input| set.get(input).cloned());
        if let Some(value) = mix(7, values) {
            out.emit(output, value);
        }
        Ok(Flow::Continue)
    }
}

/// Sends each packet to itself before it emits it.
struct Echo(Option<EventSender<Value>>);

impl Calculator for Echo {
    const NAME: &'static str = "EchoCalculator";
    type Options = NoOptions;
    type Ports = (In<Value>, Out<Value>, Events<Value>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        c.offset(graphmill_engine::Offset::Unset);
        (c.input(""), c.output(""), c.events())
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self(None))
    }

    fn process(&mut self, (input, output, events): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(value) = cx.take(input) {
            let sender = self.0.take().unwrap_or_else(|| cx.sender(events));
            // A session that has ended has no use for it.
            let _ = sender.send(value);
            self.0 = Some(sender);
        }
        if let Some(value) = cx.event(events) {
            cx.emit(output, value);
            self.0 = None;
        }
        Ok(Flow::Continue)
    }
}

/// Keeps jobs until the test runs them.
#[derive(Default)]
struct Jobs(Mutex<VecDeque<Job>>);

impl Executor for Jobs {
    fn spawn(&self, job: Job) {
        self.0
            .lock()
            .expect("no test panics with it")
            .push_back(job);
    }
}

impl Jobs {
    /// Runs one of the jobs that wait; false if there is none.
    fn run(&self, choice: usize) -> bool {
        let mut jobs = self.0.lock().expect("no test panics with it");
        let count = jobs.len();
        let job = if count == 0 {
            None
        } else {
            jobs.remove(choice % count)
        };
        drop(jobs);
        job.map(|job| job()).is_some()
    }
}

const INPUTS: [&str; 3] = ["a", "b", "c"];

/// One node: its kind, and which streams before it it reads.
#[derive(Clone, Debug)]
struct NodeSpec {
    calculator: &'static str,
    reads: Vec<prop::sample::Index>,
    in_flight: u8,
    batch: u8,
}

fn node(calculators: &'static [&'static str]) -> impl Strategy<Value = NodeSpec> {
    let reads = prop::collection::vec(any::<prop::sample::Index>(), 1..4);
    (prop::sample::select(calculators), reads, 1..4_u8, 1..4_u8).prop_map(
        |(calculator, reads, in_flight, batch)| NodeSpec {
            calculator,
            reads,
            in_flight,
            batch,
        },
    )
}

/// The text of a graph of these nodes, and its streams.
fn text(nodes: &[NodeSpec]) -> (String, Vec<String>) {
    let mut streams: Vec<String> = INPUTS.iter().map(ToString::to_string).collect();
    let mut parts = vec!["max_queue_size: 3".to_owned()];
    parts.extend(
        INPUTS
            .iter()
            .map(|input| format!("input_stream: \"{input}\"")),
    );
    for (number, node) in nodes.iter().enumerate() {
        let calculator = node.calculator;
        parts.push(format!(
            "node {{ calculator: \"{calculator}\" output_stream: \"s{number}\""
        ));
        let reads = if calculator == "EchoCalculator" {
            &node.reads[..1]
        } else {
            &node.reads
        };
        let input =
            |read: &prop::sample::Index| format!("input_stream: \"{}\"", read.get(&streams));
        parts.extend(reads.iter().map(input));
        parts.push(match calculator {
            "OffloadedCalculator" | "LaterCalculator" => {
                format!("max_in_flight: {} }}", node.in_flight)
            }
            "EchoCalculator" => "}".to_owned(),
            _ => format!(
                "input_stream_handler {{ options {{ [mediapipe.DefaultInputStreamHandlerOptions.ext] {{ batch_size: {} }} }} }} }}",
                node.batch
            ),
        });
        streams.push(format!("s{number}"));
    }
    (parts.join("\n"), streams)
}

/// What came out of each stream.
type Seen = Vec<Vec<(Timestamp, i64)>>;

struct Run {
    plan: Arc<Plan>,
    session: Option<Session>,
    handle: Handle,
    jobs: Arc<Jobs>,
    seen: Arc<Mutex<Seen>>,
    ended: bool,
}

fn start(text: &str, streams: &[String]) -> Run {
    let registry = Registry::new()
        .with::<Mix<INLINE>>()
        .with::<Mix<OFFLOADED>>()
        .with::<Mix<SIEVE>>()
        .with::<Echo>()
        .with_async::<Later>();
    let jobs = Arc::new(Jobs::default());
    let executors = Executors::new();
    executors.insert(Executors::CPU, jobs.clone());
    let environment = Environment::new(registry).with_executors(Arc::new(executors));
    let mut sources = SourceMap::new();
    let graph = parse_graph(&mut sources, "random.pbtxt", text).graph;
    let (plan, found) = Plan::compile(&graph.expect("a graph"), &mut sources, &environment);
    let plan = plan.unwrap_or_else(|| panic!("{text}\n{found:?}"));
    let (mut session, handle) =
        Session::new(&plan, RunCx::new("random"), SidePackets::new()).expect("starts");
    let seen = Arc::new(Mutex::new(vec![Vec::new(); streams.len()]));
    for (number, stream) in streams.iter().enumerate() {
        let seen = Arc::clone(&seen);
        let observer = move |time: Timestamp, packet: Option<&Packet>| {
            let value = packet
                .and_then(Packet::get::<Value>)
                .expect("a packet with a value");
            seen.lock().expect("no test panics with it")[number].push((time, value.number));
            Ok(())
        };
        session
            .observe(stream, false, observer)
            .expect("it is a stream");
    }
    Run {
        plan,
        session: Some(session),
        handle,
        jobs,
        seen,
        ended: false,
    }
}

impl Run {
    fn poll(&mut self) {
        if let Some(session) = &mut self.session
            && !self.ended
        {
            match Pin::new(session).poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Ok(_)) => self.ended = true,
                Poll::Ready(Err(error)) => panic!("it failed: {error}"),
                Poll::Pending => {}
            }
        }
    }

    /// Sends everything, in the order that `choices` make of it, and runs the session to its end.
    fn complete(mut self, arrivals: &[Vec<i64>], choices: &[usize], token: &Token) -> Seen {
        let mut waiting: Vec<VecDeque<i64>> = arrivals
            .iter()
            .map(|times| times.iter().copied().collect())
            .collect();
        let mut closed = [false; INPUTS.len()];
        let mut choices = choices.iter().copied().cycle();
        let mut choose = || choices.next().unwrap_or_default();
        for _ in 0..20_000 {
            if self.ended {
                break;
            }
            let choice = choose();
            match choice % 3 {
                0 => {
                    self.jobs.run(choice / 3);
                }
                1 => self.poll(),
                _ => {
                    let input = choice / 3 % INPUTS.len();
                    match waiting[input].front() {
                        Some(&time) => {
                            let value = Value {
                                number: time * 10 + input as i64,
                                token: Arc::clone(token),
                            };
                            if self
                                .handle
                                .try_push(INPUTS[input], Packet::new(time, value))
                                .is_ok()
                            {
                                waiting[input].pop_front();
                            }
                        }
                        None if !closed[input] => {
                            self.handle.close(INPUTS[input]).expect("an input");
                            closed[input] = true;
                        }
                        None => {}
                    }
                }
            }
        }
        assert!(
            self.ended,
            "{}",
            self.session.as_ref().expect("it was not dropped").why()
        );
        std::mem::take(&mut *self.seen.lock().expect("no test panics with it"))
    }
}

fn arrivals() -> impl Strategy<Value = Vec<Vec<i64>>> {
    let times = prop::collection::btree_set(0..20_i64, 0..8);
    prop::collection::vec(
        times.prop_map(|times| times.into_iter().collect()),
        INPUTS.len(),
    )
}

/// Enough numbers that each action comes up again and again.
fn choices() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0..1_000_usize, 40..80).prop_map(|mut choices| {
        choices.extend(0..9);
        choices
    })
}

const DETERMINISTIC: &[&str] = &[
    "MixCalculator",
    "OffloadedCalculator",
    "SieveCalculator",
    "LaterCalculator",
];
const ALL: &[&str] = &[
    "MixCalculator",
    "OffloadedCalculator",
    "SieveCalculator",
    "LaterCalculator",
    "EchoCalculator",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn any_order_of_arrivals_gives_the_same_packets(
        nodes in prop::collection::vec(node(DETERMINISTIC), 1..7),
        arrivals in arrivals(),
        (one, other) in (choices(), choices()),
    ) {
        let (text, streams) = text(&nodes);
        let token = Token::default();
        let first = start(&text, &streams).complete(&arrivals, &one, &token);
        let second = start(&text, &streams).complete(&arrivals, &other, &token);
        prop_assert_eq!(first, second, "{}", text);
    }

    #[test]
    fn a_session_dropped_anywhere_leaves_nothing_behind(
        nodes in prop::collection::vec(node(ALL), 1..7),
        arrivals in arrivals(),
        choices in choices(),
        handle_first in any::<bool>(),
    ) {
        let (text, streams) = text(&nodes);
        let token = Token::default();
        let mut run = start(&text, &streams);
        let output = run.handle.output(&streams[streams.len() - 1]).expect("not started");
        for (input, times) in arrivals.iter().enumerate() {
            for &time in times {
                let value = Value { number: time, token: Arc::clone(&token) };
                // What finds no room is dropped here.
                drop(run.handle.try_push(INPUTS[input], Packet::new(time, value)));
            }
        }
        for choice in choices {
            match choice % 2 {
                0 => { run.jobs.run(choice / 2); }
                _ => run.poll(),
            }
        }
        let Run { plan, session, handle, jobs, seen, .. } = run;
        if handle_first {
            drop(handle);
            drop(session);
        } else {
            drop(session);
            drop(handle);
        }
        prop_assert_eq!(plan.open_sessions(), 0);
        while jobs.run(0) {}
        drop((output, seen));
        prop_assert_eq!(Arc::strong_count(&token), 1, "nothing of the session holds its packets");
        prop_assert_eq!(Arc::strong_count(&plan), 1, "nor the plan");
    }
}
