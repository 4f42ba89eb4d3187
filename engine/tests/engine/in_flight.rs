//! Several calls of one node at once, where its calculator allows that.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

use graphmill_engine::{
    AsyncCalculator, Calculator, Contract, Cx, Emits, Environment, Error, Executor, Executors,
    Flow, Handle, In, InputSet, NoOptions, OpenCx, Out, Packet, Plan, Registry, Result, RunCx,
    Session, SidePackets, Timestamp, testing::check,
};
use graphmill_grammar::{SourceMap, parse_graph};
use tokio::sync::oneshot;

use crate::engine::nodes::environment_with;

/// Adds one, without a memory of earlier calls; stops at 13, fails at 99.
struct PlusOne;

impl Calculator for PlusOne {
    const NAME: &'static str = "PlusOneCalculator";
    type Options = NoOptions;
    type Ports = (In<i64>, Out<i64>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        c.parallel();
        (c.input(""), c.output(""))
    }

    fn open(_: &NoOptions, (_, output): Self::Ports, cx: &mut OpenCx<'_>) -> Result<Self> {
        cx.emit_at(output, Timestamp::new(-10), -10);
        Ok(Self)
    }

    fn process(&mut self, (input, output): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        let value = *cx.get(input).expect("every call has a packet");
        if value == 99 {
            return Err(Error::invalid("99 is too much"));
        }
        cx.emit(output, value + 1);
        Ok(if value == 13 {
            Flow::Stop
        } else {
            Flow::Continue
        })
    }

    fn close(&mut self, (_, output): Self::Ports, cx: &mut Cx<'_>) -> Result<()> {
        cx.emit(output, -1);
        Ok(())
    }
}

type Answer = Arc<Mutex<Option<oneshot::Receiver<i64>>>>;

/// Answers with what comes through the channel that is its input.
struct Ask;

impl AsyncCalculator for Ask {
    const NAME: &'static str = "AskCalculator";
    type Options = NoOptions;
    type Ports = (In<Answer>, Out<i64>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        c.parallel();
        (c.input(""), c.output(""))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    async fn process(
        &mut self,
        (input, output): Self::Ports,
        set: InputSet,
        out: &mut Emits,
    ) -> Result<Flow> {
        let answer = set.get(input).and_then(|answer| answer.lock().ok()?.take());
        if let Some(answer) = answer {
            out.emit(
                output,
                answer.await.map_err(|_| Error::internal("no answer"))?,
            );
        }
        Ok(Flow::Continue)
    }
}

/// Keeps jobs until the test runs them, in any order.
#[derive(Default)]
struct Jobs(Mutex<Vec<graphmill_engine::executor::Job>>);

impl Executor for Jobs {
    fn spawn(&self, job: graphmill_engine::executor::Job) {
        self.0.lock().expect("no test panics with it").push(job);
    }
}

impl Jobs {
    fn waiting(&self) -> usize {
        self.0.lock().expect("no test panics with it").len()
    }

    fn run(&self, number: usize) {
        let job = self
            .0
            .lock()
            .expect("no test panics with it")
            .remove(number);
        job();
    }
}

struct Graph {
    session: Session,
    handle: Handle,
    jobs: Arc<Jobs>,
    seen: Arc<Mutex<Vec<String>>>,
    outcome: Option<Result<graphmill_engine::Summary>>,
}

impl Graph {
    fn new(text: &str) -> Self {
        let jobs = Arc::new(Jobs::default());
        let executors = Executors::new();
        executors.insert("jobs", jobs.clone());
        let environment = environment().with_executors(Arc::new(executors));
        let mut sources = SourceMap::new();
        let graph = parse_graph(&mut sources, "in_flight.pbtxt", text).graph;
        let (plan, found) = Plan::compile(&graph.expect("a graph"), &mut sources, &environment);
        let plan = plan.unwrap_or_else(|| panic!("{found:?}"));
        let (mut session, handle) =
            Session::new(&plan, RunCx::new("x"), SidePackets::new()).expect("starts");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let observed = Arc::clone(&seen);
        session
            .observe("out", true, move |time, packet| {
                let shown = match packet.and_then(Packet::get::<i64>) {
                    Some(value) => format!("{value}@{time}"),
                    None => format!("-@{time}"),
                };
                observed.lock().expect("no test panics with it").push(shown);
                Ok(())
            })
            .expect("it is a stream");
        Self {
            session,
            handle,
            jobs,
            seen,
            outcome: None,
        }
    }

    fn push(&mut self, time: i64, value: impl graphmill_engine::Payload) -> &mut Self {
        let sent = self.handle.try_push("in", Packet::new(time, value));
        sent.expect("there is room");
        self.poll()
    }

    /// Runs the session as far as it goes.
    fn poll(&mut self) -> &mut Self {
        for _ in 0..20 {
            if self.outcome.is_none()
                && let Poll::Ready(outcome) =
                    Pin::new(&mut self.session).poll(&mut Context::from_waker(Waker::noop()))
            {
                self.outcome = Some(outcome);
            }
        }
        self
    }

    fn run(&mut self, job: usize) -> &mut Self {
        self.jobs.run(job);
        self.poll()
    }

    /// What came out since the last look.
    fn seen(&self) -> Vec<String> {
        std::mem::take(&mut *self.seen.lock().expect("no test panics with it"))
    }
}

fn environment() -> Environment {
    environment_with(Registry::new().with::<PlusOne>().with_async::<Ask>())
}

const JOBS: &str = r#"input_stream: "in" output_stream: "out"
    node { calculator: "PlusOneCalculator" input_stream: "in" output_stream: "out" executor: "jobs" max_in_flight: 3 }"#;

#[test]
fn results_leave_in_the_order_of_the_calls() {
    let mut graph = Graph::new(JOBS);
    for time in 1..=4 {
        graph.push(time, 10 * time);
    }
    assert_eq!(
        graph.jobs.waiting(),
        3,
        "three at once, and the fourth waits"
    );
    assert_eq!(
        graph.seen(),
        ["-10@-10"],
        "only the first instance's opening counts"
    );
    graph.run(2);
    assert_eq!(graph.seen(), [""; 0], "the first two are not over");
    assert_eq!(graph.jobs.waiting(), 3, "a free instance takes the fourth");
    graph.run(0);
    assert_eq!(graph.seen(), ["11@1"]);
    graph.run(1);
    assert_eq!(graph.seen(), [""; 0]);
    graph.run(0);
    assert_eq!(graph.seen(), ["21@2", "31@3", "41@4"]);
}

#[test]
fn bounds_come_after_the_packets_before_them() {
    let mut graph = Graph::new(JOBS);
    graph.push(1, 1_i64).seen();
    graph
        .handle
        .bound("in", Timestamp::new(50))
        .expect("an input");
    assert_eq!(graph.poll().seen(), [""; 0]);
    graph.run(0);
    assert_eq!(graph.seen(), ["2@1", "-@49"]);
}

#[test]
fn closing_waits_for_the_calls() {
    let mut graph = Graph::new(JOBS);
    graph.push(1, 1_i64).push(2, 2_i64).seen();
    graph.handle.close_all();
    graph.poll();
    graph.run(1);
    assert_eq!(graph.jobs.waiting(), 1);
    graph.run(0);
    assert_eq!(graph.seen(), ["2@1", "3@2"]);
    assert!(graph.outcome.is_none());
    assert_eq!(graph.jobs.waiting(), 1, "the close is a call too");
    graph.run(0);
    assert_eq!(graph.seen(), ["-1@3"], "one instance is closed");
    assert!(matches!(graph.outcome, Some(Ok(_))));
}

#[test]
fn after_a_stop_later_calls_put_nothing_out() {
    let mut graph = Graph::new(JOBS);
    graph.push(1, 1_i64).push(2, 13_i64).push(3, 3_i64).seen();
    graph.run(2).run(1).run(0);
    assert_eq!(graph.seen(), ["2@1", "14@2"]);
    assert_eq!(graph.jobs.waiting(), 1, "the close");
    graph.run(0);
    graph.handle.close_all();
    assert!(matches!(graph.poll().outcome, Some(Ok(_))));
}

#[test]
fn an_error_counts_when_its_turn_comes() {
    let mut graph = Graph::new(JOBS);
    graph.push(1, 1_i64).push(2, 99_i64).seen();
    graph.run(1);
    assert!(graph.outcome.is_none());
    graph.run(0);
    assert_eq!(graph.seen(), ["2@1"]);
    assert!(matches!(&graph.outcome, Some(Err(error)) if error.message == "99 is too much"));
}

#[test]
fn futures_overlap_too() {
    let mut graph = Graph::new(
        r#"input_stream: "in" output_stream: "out"
        node { calculator: "AskCalculator" input_stream: "in" output_stream: "out" max_in_flight: 2 }"#,
    );
    let mut asked = Vec::new();
    for time in 0..3 {
        let (answer, receiver) = oneshot::channel();
        graph.push(time, Arc::new(Mutex::new(Some(receiver))));
        asked.push(answer);
    }
    let why = graph.session.why().to_string();
    assert!(why.contains("is in an async call that is pending"), "{why}");
    let mut answer = |number: usize, value: i64| {
        asked.remove(number).send(value).expect("somebody waits");
    };
    answer(1, 20);
    assert_eq!(graph.poll().seen(), [""; 0]);
    answer(0, 10);
    assert_eq!(graph.poll().seen(), ["10@0", "20@1"]);
    answer(0, 30);
    assert_eq!(graph.poll().seen(), ["30@2"]);
    graph.handle.close_all();
    assert!(matches!(graph.poll().outcome, Some(Ok(_))));
}

#[test]
fn where_calls_depend_on_each_other_there_is_one_at_a_time() {
    let node = |calculator: &str, more: &str| {
        let graph = format!(
            r#"input_stream: "in" output_stream: "out"
            node {{ calculator: "{calculator}" input_stream: "in" output_stream: "out" max_in_flight: 4 {more} }}"#
        );
        check(&graph, &environment())
    };
    let on_a_pool = node("PlusOneCalculator", r#"executor: "cpu""#);
    assert_eq!(on_a_pool, "");
    assert!(node("PlusOneCalculator", "").contains("name an `executor`"));
    assert!(node("HeavyCalculator", "").contains("depend on each other"));
    let source = r#"output_stream: "n" node { calculator: "CountCalculator" output_stream: "n" max_in_flight: 2 }"#;
    assert!(check(source, &environment()).contains("calls of a source follow each other"));
}
