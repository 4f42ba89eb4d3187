//! What a hop and a session allocate, how many jobs they make and how often they are woken:
//! counted, so that a regression shows without a clock.
//!
//! A program without a test harness, because the allocator counts for the whole process, the
//! harness's threads included.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use dhat::HeapStats;
use graphmill_engine::{
    Calculator, Contract, Cx, Environment, EventSender, Events, Executor, Executors, Flow, Handle,
    In, Ins, NoOptions, OpenCx, Out, Outs, Packet, Payload, Plan, Registry, Result, RunCx, Session,
    Side, SidePackets, executor::Job, testing::ManualExecutor,
};
use graphmill_grammar::{SourceMap, parse_graph};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// Below the limit of a queue.
const PACKETS: usize = 64;

/// Passes its inputs on.
struct Pass;

impl Calculator for Pass {
    const NAME: &'static str = "PassCalculator";
    type Options = NoOptions;
    type Ports = (Ins<dyn Payload>, Outs<dyn Payload>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        c.mirrored()
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, (inputs, outputs): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        for (input, output) in inputs.iter().zip(outputs.iter()) {
            cx.forward(input, output);
        }
        Ok(Flow::Continue)
    }
}

/// Emits a new value for each that it gets.
struct Next;

impl Calculator for Next {
    const NAME: &'static str = "NextCalculator";
    type Options = NoOptions;
    type Ports = (In<i64>, Out<i64>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        (c.input(""), c.output(""))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, (input, output): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(value) = cx.take(input) {
            cx.emit(output, value + 1);
        }
        Ok(Flow::Continue)
    }
}

/// Where a node leaves the sender of its events.
type Place = Arc<std::sync::Mutex<Option<EventSender<i64>>>>;

/// Emits what comes from outside.
struct Tell(Events<i64>);

impl Calculator for Tell {
    const NAME: &'static str = "TellCalculator";
    type Options = NoOptions;
    type Ports = (Events<i64>, Side<Place>, Out<i64>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        (c.events(), c.side("SENDER"), c.output(""))
    }

    fn open(_: &NoOptions, (events, sender, _): Self::Ports, cx: &mut OpenCx<'_>) -> Result<Self> {
        let made = cx.sender(events);
        if let Some(sender) = cx.side(sender) {
            *sender.lock().expect("not poisoned") = Some(made);
        }
        Ok(Self(events))
    }

    fn process(&mut self, (_, _, output): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(value) = cx.event(self.0) {
            cx.emit(output, value);
        }
        Ok(Flow::Continue)
    }
}

/// Runs jobs when told to, and counts them.
#[derive(Default)]
struct Counting {
    jobs: AtomicUsize,
    manual: ManualExecutor,
}

impl Executor for Counting {
    fn spawn(&self, job: Job) {
        self.jobs.fetch_add(1, Ordering::Relaxed);
        self.manual.spawn(job);
    }
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn compile(text: &str, executor: &Arc<Counting>) -> Arc<Plan> {
    let executors = Executors::new();
    executors.insert(Executors::CPU, Arc::clone(executor) as Arc<dyn Executor>);
    let registry = Registry::new().with::<Pass>().with::<Next>().with::<Tell>();
    let environment = Environment::new(registry).with_executors(Arc::new(executors));
    let mut sources = SourceMap::new();
    let graph = parse_graph(&mut sources, "graph.pbtxt", text).graph;
    let (plan, diagnostics) = Plan::compile(&graph.expect("a graph"), &mut sources, &environment);
    plan.unwrap_or_else(|| panic!("{diagnostics:?}"))
}

fn chain(calculator: &str, length: usize, rest: &str) -> String {
    let node = |number: usize| {
        format!(
            "node {{ calculator: \"{calculator}\" input_stream: \"s{number}\" output_stream: \"s{}\" {rest} }}\n",
            number + 1
        )
    };
    let nodes: String = (0..length).map(node).collect();
    format!("input_stream: \"s0\"\n{nodes}")
}

/// `s0` to eight nodes, and from those to one that waits for all.
fn fan() -> String {
    let branch = |number: usize| {
        format!(
            "node {{ calculator: \"PassCalculator\" input_stream: \"s0\" output_stream: \"b{number}\" }}\n"
        )
    };
    let ends = |number: usize| format!("input_stream: \"b{number}\" output_stream: \"c{number}\" ");
    let branches: String = (0..8).map(branch).collect();
    let ends: String = (0..8).map(ends).collect();
    format!("input_stream: \"s0\"\n{branches}node {{ calculator: \"PassCalculator\" {ends} }}")
}

/// A session that is polled here: without a runtime, in which nothing can be spawned.
struct Run {
    session: Session,
    handle: Handle,
    woken: Arc<Wakes>,
    waker: Waker,
    time: i64,
}

impl Run {
    fn new(plan: &Arc<Plan>, sides: SidePackets) -> Self {
        let (session, handle) = Session::new(plan, RunCx::new("test"), sides).expect("starts");
        let woken = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&woken));
        Self {
            session,
            handle,
            woken,
            waker,
            time: 0,
        }
    }

    /// Polls until the session sleeps or has ended.
    fn settle(&mut self) -> bool {
        loop {
            self.woken.0.store(0, Ordering::Relaxed);
            let polled = Pin::new(&mut self.session).poll(&mut Context::from_waker(&self.waker));
            match polled {
                Poll::Ready(outcome) => {
                    outcome.expect("nothing fails");
                    return true;
                }
                // It yields after some calls, and wakes itself.
                Poll::Pending if self.woken.0.load(Ordering::Relaxed) > 0 => {}
                Poll::Pending => return false,
            }
        }
    }

    fn push(&mut self, packets: &[Packet]) {
        for packet in packets {
            let packet = packet.clone().at(self.time);
            self.handle.try_push("s0", packet).expect("there is room");
            self.time += 1;
        }
    }

    fn pass(&mut self, packets: &[Packet]) {
        self.push(packets);
        assert!(!self.settle());
    }

    fn finish(mut self) {
        self.handle.close_all();
        assert!(self.settle());
    }
}

/// How many allocations `work` makes.
fn blocks(work: impl FnOnce()) -> usize {
    let before = HeapStats::get().total_blocks;
    work();
    (HeapStats::get().total_blocks - before) as usize
}

fn main() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let executor = Arc::new(Counting::default());
    let packets: Vec<Packet> = (0..PACKETS).map(|_| Packet::new(0, 1_i64)).collect();

    // A hop: nothing for a packet that is passed on, its value for one that is made.
    for (graph, a_packet) in [
        (chain("PassCalculator", 10, ""), 0),
        (fan(), 0),
        (chain("NextCalculator", 10, ""), 10),
    ] {
        let mut run = Run::new(&compile(&graph, &executor), SidePackets::new());
        // Queues and the two halves of the inbox get their room.
        (0..3).for_each(|_| run.pass(&packets));
        let batch = blocks(|| run.pass(&packets));
        assert_eq!(batch, a_packet * PACKETS, "a batch through\n{graph}");
        let single = blocks(|| {
            for packet in &packets {
                run.pass(std::slice::from_ref(packet));
            }
        });
        assert_eq!(single, a_packet * PACKETS, "one by one through\n{graph}");
        run.finish();
    }

    // A session: a dozen for itself, one for the instance of each node, whatever the number of its
    // streams.
    let plan = compile(&chain("PassCalculator", 10, ""), &executor);
    let whole = blocks(|| {
        let mut run = Run::new(&plan, SidePackets::new());
        run.pass(&packets[..1]);
        run.finish();
    });
    assert!(whole <= 30, "{whole} allocations for a session of 10 nodes");
    let before = HeapStats::get().curr_bytes;
    let mut idle = Run::new(&plan, SidePackets::new());
    idle.pass(&packets[..1]);
    let bytes = HeapStats::get().curr_bytes - before;
    assert!(
        bytes <= 8 * 1024,
        "{bytes} bytes for an idle session of 10 nodes"
    );
    idle.finish();
    assert_eq!(
        HeapStats::get().curr_bytes,
        before,
        "a session leaves something behind"
    );

    // A sleeping session is woken once, however much comes.
    let mut run = Run::new(&plan, SidePackets::new());
    assert!(!run.settle());
    run.push(&packets);
    assert_eq!(run.woken.0.load(Ordering::Relaxed), 1, "wakes for a batch");
    assert!(!run.settle());
    run.finish();
    assert_eq!(
        executor.jobs.load(Ordering::Relaxed),
        0,
        "jobs of inline nodes"
    );

    // A node on an executor: one job a call, `close` included.
    let plan = compile(&chain("PassCalculator", 2, "executor: \"cpu\""), &executor);
    let mut run = Run::new(&plan, SidePackets::new());
    run.push(&packets);
    run.handle.close_all();
    while !run.settle() {
        assert!(executor.manual.run_one(), "the session waits for a job");
    }
    assert_eq!(
        executor.jobs.load(Ordering::Relaxed),
        2 * (PACKETS + 1),
        "jobs"
    );

    // An event from outside: its value, and the packet that is made of it.
    let graph = "input_side_packet: \"sender\" node { calculator: \"TellCalculator\" input_side_packet: \"SENDER:sender\" output_stream: \"out\" }";
    let place = Place::default();
    let plan = compile(graph, &executor);
    let mut run = Run::new(&plan, SidePackets::new().with("sender", Arc::clone(&place)));
    assert!(!run.settle());
    let sender = place.lock().expect("not poisoned").take().expect("opened");
    let mut tell = || {
        (0..PACKETS as i64).for_each(|value| sender.send(value).expect("the session lives"));
        assert!(!run.settle());
    };
    (0..3).for_each(|_| tell());
    assert_eq!(blocks(tell), 2 * PACKETS, "allocations for events");
}
