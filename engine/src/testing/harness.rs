//! The test harness: pushes packets into a graph and collects its output.

use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread::Thread,
    time::{Duration, Instant},
};

use graphmill_grammar::{SourceMap, render};

use crate::{
    calculator::Calculator,
    error::Result,
    executors::Executors,
    lock::lock,
    packet::{Packet, Payload},
    plan::Plan,
    registry::Registry,
    registry::environment::Environment,
    run::RunCx,
    session::{Handle, Session, SidePackets, Summary, Why},
    timestamp::Timestamp,
};

use super::{ManualExecutor, VirtualClock, graph::compile};

/// Maximum time that [`Harness::block_until`] waits for other threads.
const PATIENCE: Duration = Duration::from_secs(20);

/// Packets and bounds of one stream since the last look.
#[derive(Default)]
struct StreamRecord {
    packets: Vec<Packet>,
    bounds: Vec<Timestamp>,
}

type StreamRecords = Arc<Mutex<BTreeMap<String, StreamRecord>>>;

/// Runs one session by hand. If a text declares no graph inputs and outputs, its unconnected
/// streams become these, so a single node is a graph.
///
/// Jobs on the executor `cpu` run on the calling thread, so tests are deterministic.
///
/// # Panics
///
/// If a check fails. The message shows what was found.
pub struct Harness {
    plan: Arc<Plan>,
    run: RunCx,
    clock: VirtualClock,
    executor: Arc<ManualExecutor>,
    sides: SidePackets,
    seen: StreamRecords,
    woken: Arc<Woken>,
    session: Option<(Session, Handle)>,
    pub(super) outcome: Option<Result<Summary>>,
}

struct Woken {
    flag: AtomicBool,
    thread: Thread,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.flag.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

impl Harness {
    /// Makes a harness for a graph whose nodes use one calculator.
    #[track_caller]
    pub fn for_calculator<C: Calculator>(text: &str) -> Self {
        Self::new(text, Environment::new(Registry::new().with::<C>()))
    }

    /// Makes a harness for a graph with all registered calculators.
    #[track_caller]
    pub fn global(text: &str) -> Self {
        Self::new(text, Environment::new(Registry::global()))
    }

    /// Makes a harness for a graph in the given environment.
    #[track_caller]
    pub fn new(text: &str, environment: Environment) -> Self {
        let executor = Arc::new(ManualExecutor::default());
        let executors = Executors::new();
        executors.insert(Executors::CPU, executor.clone());
        let environment = environment.with_executors(Arc::new(executors));
        let mut sources = SourceMap::new();
        let (plan, diagnostics) = compile(text, &mut sources, &environment);
        let Some(plan) = plan else {
            panic!(
                "the graph does not compile:\n{}",
                render::human(&sources, &diagnostics, render::Color::Plain)
            )
        };
        let clock = VirtualClock::default();
        let mut run = RunCx::new("test");
        run.clock = Arc::new(clock.clone());
        Self {
            plan,
            run,
            clock,
            executor,
            sides: SidePackets::new(),
            seen: StreamRecords::default(),
            woken: Arc::new(Woken {
                flag: AtomicBool::new(true),
                thread: std::thread::current(),
            }),
            session: None,
            outcome: None,
        }
    }

    /// Sets an input side packet. Call it before the session starts.
    #[must_use]
    pub fn side<T: Payload>(mut self, name: &str, value: T) -> Self {
        self.sides = self.sides.with(name, value);
        self
    }

    /// Changes the request context. Call it before the session starts.
    #[must_use]
    pub fn request(mut self, change: impl FnOnce(&mut RunCx)) -> Self {
        change(&mut self.run);
        self
    }

    /// Returns the clock of the session.
    pub fn clock(&self) -> &VirtualClock {
        &self.clock
    }

    /// Returns the plan of the graph under test.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Starts the session and runs it until it waits.
    #[track_caller]
    pub fn start(&mut self) -> &mut Self {
        if self.session.is_none() && self.outcome.is_none() {
            let started = Session::new(&self.plan, self.run.clone(), self.sides.clone());
            let (mut session, handle) =
                started.unwrap_or_else(|error| panic!("the session does not start: {error}"));
            for stream in &self.plan.streams {
                let (name, seen) = (stream.name.to_string(), Arc::clone(&self.seen));
                let observer = move |time: Timestamp, packet: Option<&Packet>| {
                    let mut seen = lock(&seen);
                    let seen = seen.entry(name.clone()).or_default();
                    match packet {
                        Some(packet) => seen.packets.push(packet.clone()),
                        None => seen.bounds.push(time),
                    }
                    Ok(())
                };
                session
                    .observe(&stream.name, true, observer)
                    .expect("the plan has all its streams");
            }
            self.session = Some((session, handle));
            self.settle();
        }
        self
    }

    /// Pushes a packet to a graph input and runs the session until it waits.
    #[track_caller]
    pub fn push<T: Payload>(
        &mut self,
        stream: &str,
        time: impl Into<Timestamp>,
        value: T,
    ) -> &mut Self {
        self.push_packet(stream, Packet::new(time, value))
    }

    /// Pushes a packet and runs the session until it waits.
    #[track_caller]
    pub fn push_packet(&mut self, stream: &str, packet: Packet) -> &mut Self {
        let shown = format!("{packet:?}");
        self.act(&format!("pushing {shown} to `{stream}`"), |handle| {
            handle.try_push(stream, packet)
        })
    }

    /// Moves the bound of a graph input.
    #[track_caller]
    pub fn bound(&mut self, stream: &str, at: impl Into<Timestamp>) -> &mut Self {
        let at = at.into();
        self.act(&format!("moving the bound of `{stream}`"), |handle| {
            handle.bound(stream, at)
        })
    }

    /// Closes a graph input and runs the session until it waits.
    #[track_caller]
    pub fn close(&mut self, stream: &str) -> &mut Self {
        self.act(&format!("closing `{stream}`"), |handle| {
            handle.close(stream)
        })
    }

    /// Closes all graph inputs and runs the session until it waits.
    #[track_caller]
    pub fn close_all(&mut self) -> &mut Self {
        self.act("closing all inputs", |handle| {
            handle.close_all();
            Ok(())
        })
    }

    /// Moves the clock and runs the session until it waits.
    #[track_caller]
    pub fn advance(&mut self, by: Duration) -> &mut Self {
        self.start();
        self.clock.advance(by);
        self.settle()
    }

    #[track_caller]
    fn act(&mut self, what: &str, act: impl FnOnce(&Handle) -> Result<()>) -> &mut Self {
        self.start();
        match (&self.session, &self.outcome) {
            (Some((_, handle)), None) => {
                if let Err(error) = act(handle) {
                    panic!("{what} failed: {error}");
                }
            }
            (_, Some(Err(error))) => panic!("{what}, but the session has failed: {error}"),
            (_, Some(Ok(_)) | None) => panic!("{what}, but the session has ended"),
        }
        self.settle()
    }

    /// Runs the session and jobs on `cpu` until only input from outside can make it continue.
    pub fn settle(&mut self) -> &mut Self {
        while self.outcome.is_none() {
            if self.woken.flag.swap(false, Ordering::Acquire) {
                self.poll();
            } else if !self.executor.run_one() {
                break;
            }
        }
        self
    }

    fn poll(&mut self) {
        let Some((session, _)) = &mut self.session else {
            return;
        };
        let waker = Waker::from(Arc::clone(&self.woken));
        if let Poll::Ready(outcome) = Pin::new(session).poll(&mut Context::from_waker(&waker)) {
            self.outcome = Some(outcome);
        }
    }

    /// Runs the session until `done` returns `true`, waiting for other threads.
    #[track_caller]
    pub fn block_until(&mut self, mut done: impl FnMut(&Self) -> bool) -> &mut Self {
        self.start();
        let begun = Instant::now();
        while !done(self) {
            assert!(
                begun.elapsed() < PATIENCE,
                "waited too long; the session says:\n{}",
                self.why()
            );
            if !self.woken.flag.load(Ordering::Acquire) && self.outcome.is_none() {
                std::thread::park_timeout(Duration::from_millis(50));
            }
            self.settle();
        }
        self
    }

    /// Returns `true` if the session has ended.
    pub fn ended(&self) -> bool {
        self.outcome.is_some()
    }

    /// Takes the packets seen on a stream since the last look. Any stream of the graph will do.
    #[track_caller]
    pub fn packets(&mut self, stream: &str) -> Vec<Packet> {
        self.start();
        self.seen(stream, |seen| std::mem::take(&mut seen.packets))
    }

    /// Returns the number of packets seen on a stream since the last look.
    pub fn count(&self, stream: &str) -> usize {
        let seen = lock(&self.seen);
        seen.get(stream).map_or(0, |seen| seen.packets.len())
    }

    /// Takes the timestamps up to which a stream was settled without a packet.
    #[track_caller]
    pub fn bounds(&mut self, stream: &str) -> Vec<Timestamp> {
        self.start();
        self.seen(stream, |seen| std::mem::take(&mut seen.bounds))
    }

    #[track_caller]
    fn seen<T>(&self, stream: &str, look: impl FnOnce(&mut StreamRecord) -> T) -> T {
        assert!(
            self.plan.stream(stream).is_some(),
            "the graph has no stream `{stream}`"
        );
        let mut seen = lock(&self.seen);
        look(seen.entry(stream.to_owned()).or_default())
    }

    /// Describes the session's current wait.
    pub fn why(&self) -> Why {
        self.session
            .as_ref()
            .map_or_else(Why::ended, |(session, _)| session.why())
    }

    /// Returns the handle of the session, starting the session if necessary.
    #[track_caller]
    pub fn handle(&mut self) -> &Handle {
        self.start();
        let (_, handle) = self.session.as_ref().expect("the session was just started");
        handle
    }

    /// Drops the session, as a server does when a client disconnects.
    pub fn drop_session(&mut self) {
        self.session = None;
        self.settle();
    }
}
