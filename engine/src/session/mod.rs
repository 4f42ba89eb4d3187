//! Sessions: one run of a plan, for one request.
//!
//! A session is one future, owned by one task. All of its state is plain data reached by index:
//! queues, policies, nodes. Each part (nodes, queues, streams, taps, side packets, calls in flight)
//! owns its own state. Other threads access only `shared`. Each poll runs the nodes that can run,
//! those nearest to the outputs first, until none can or until other tasks should get their turn.

mod away;
mod blocking;
mod calls;
mod flow;
mod guard;
mod handle;
mod idle;
mod in_flight;
mod intake;
mod lifecycle;
mod mailbox;
mod message;
mod node;
mod node_wait;
mod nodes;
mod observer;
mod output;
mod packet_observer;
mod queues;
mod running;
mod shared;
mod sides;
mod snapshot;
mod streams;
mod summary;
mod take_snapshot;
mod taps;
mod timeline;
mod timer;
mod wait_graph;
mod why;

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

pub use blocking::{block_on, block_on_for};
pub use handle::Handle;
pub use observer::SessionObserver;
pub use output::OutputStream;
pub use sides::SidePackets;
pub use snapshot::{Activity, EdgeSnapshot, NodeSnapshot, Snapshot};
pub use summary::{NodeSummary, Summary};
pub use timeline::{Happening, Timeline, TimelineEvent};
pub use why::{OpenInput, Reason, Wait, Why};

use crate::{
    error::{Error, Result},
    packet::Packet,
    plan::Plan,
    run::RunCx,
    timestamp::Timestamp,
};

use packet_observer::PacketObserver;
use running::Running;
use shared::{Frame, SessionState, cancelled};
use sides::SideValues;
use timeline::Recorder;

/// One run of a plan. Spawn this future; it resolves when all work is done, or with the error that
/// ended the session.
///
/// When a session fails or is cancelled, its open nodes are closed and can read the reason.
/// Dropping the session also cancels it, but then its nodes are only dropped, with everything that
/// they own.
pub struct Session {
    plan: Arc<Plan>,
    shared: Arc<SessionState>,
    running: Running,
    /// Resolves at the request's deadline.
    deadline: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    report: Option<EndReport>,
    ended: bool,
}

/// A callback with the counts of a session and the error that ended it, if any.
type EndReport = Box<dyn FnOnce(&Summary, Option<&Error>) + Send>;

impl Session {
    /// Makes a session of `plan`, not started yet, and its handle. Fails if a side packet that the
    /// graph requires is missing or has the wrong type.
    pub fn new(plan: &Arc<Plan>, run: RunCx, sides: SidePackets) -> Result<(Self, Handle)> {
        let given = SideValues::given(plan, sides)?;
        let deadline = run.deadline.map(|at| run.clock.sleep_until(at));
        let shared = Arc::new(SessionState::new(Arc::new(run), plan));
        let handle = Handle::new(Arc::clone(plan), Arc::clone(&shared));
        plan.session_opened();
        let session = Self {
            running: Running::new(plan, given),
            plan: Arc::clone(plan),
            shared,
            deadline,
            report: None,
            ended: false,
        };
        Ok((session, handle))
    }

    /// Calls `observer` with every packet of a stream, inside the session. With `bounds`, also
    /// calls it with the timestamps up to which the stream is settled without a packet. Must be
    /// called before the first poll of the session.
    pub fn observe(
        &mut self,
        stream: &str,
        bounds: bool,
        observer: impl FnMut(Timestamp, Option<&Packet>) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let stream = self.plan.find_stream(stream)?;
        self.running.observe(stream, bounds, Box::new(observer));
        Ok(())
    }

    /// Calls `sink` with each packet of some streams and the stream's position among them, until it
    /// returns `false`. It cannot fail the session. It must not block, because the session waits
    /// for it. Must be called before the first poll of the session; a [`SessionObserver`] does the same
    /// later.
    pub fn observe_packets(
        &mut self,
        streams: &[&str],
        sink: impl FnMut(usize, &Packet) -> bool + Send + 'static,
    ) -> Result<()> {
        let watcher = PacketObserver::new(&self.plan, streams, Box::new(sink))?;
        self.running.observe_packets(watcher);
        Ok(())
    }

    /// Keeps a timeline of the last `events` calls and packets. When the session has ended, passes
    /// it to `done` with the error that ended it, if any. `done` must not block. Must be called
    /// before the first poll of the session.
    pub fn keep_timeline(
        &mut self,
        events: usize,
        done: impl FnOnce(Timeline, Option<&Error>) + Send + 'static,
    ) {
        self.running.record(Recorder::new(events, Box::new(done)));
    }

    /// Calls `report` once with the counts of the session, however it ends. `report` must not
    /// block, because it runs in the session's task.
    pub fn on_end(&mut self, report: impl FnOnce(&Summary, Option<&Error>) + Send + 'static) {
        self.report = Some(Box::new(report));
    }

    /// Sets the limit of every queue of a stream to `packets`, instead of the graph's limit;
    /// `usize::MAX` is no limit. Must be called before the first poll of the session.
    pub fn limit_queues(&mut self, stream: &str, packets: usize) -> Result<()> {
        let id = self.plan.find_stream(stream)?;
        if packets == 0 {
            let message = format!("queues of stream `{stream}` must hold at least one packet");
            return Err(Error::invalid(message));
        }
        let mut state = self.shared.lock();
        if state.started {
            let message =
                format!("queues of stream `{stream}` must be limited before the session starts");
            return Err(Error::precondition(message));
        }
        let mut inputs = self.plan.graph_inputs.iter();
        let input = inputs.position(|port| port.stream == id);
        if let Some(input) = input
            && !self.plan.streams[id as usize].consumers.is_empty()
        {
            let mut wakers = Vec::new();
            state.exchange.open(input, packets, &mut wakers);
            drop(state);
            wakers.into_iter().for_each(Waker::wake);
        } else {
            drop(state);
        }
        self.running.queues.limit(&self.plan, id, packets);
        Ok(())
    }

    /// Describes the session's current wait.
    pub fn why(&self) -> Why {
        self.running.why(&self.plan)
    }

    fn step(&mut self, cx: &mut Context<'_>) -> Poll<Result<Summary>> {
        if let Some(deadline) = &mut self.deadline
            && deadline.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Err(Error::deadline("the deadline of the request passed")));
        }
        if self.shared.run.cancel.poll_cancelled(cx).is_ready() {
            return Poll::Ready(Err(cancelled()));
        }
        let frame = Frame {
            plan: &self.plan,
            shared: &self.shared,
        };
        self.running.run(frame, cx)
    }

    fn end(&mut self, outcome: Result<Summary>) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        self.running.flush(&self.shared);
        let report = self.report.take();
        let report = report.map(|report| (report, self.running.summary(&self.plan)));
        let error = outcome.as_ref().err();
        self.running.settle(&self.plan, error);
        let recorder = self.running.recorder.take();
        // The nodes go first: their senders may still be used, and then report that the session has
        // ended.
        if let Err(error) = guard::catch(|| self.running.clear()) {
            tracing::error!(request = %self.shared.run.id, %error, "cannot drop a node");
        }
        if let Some((report, summary)) = report
            && let Err(error) = guard::catch(|| report(&summary, outcome.as_ref().err()))
        {
            tracing::error!(request = %self.shared.run.id, %error, "the report function of a session panicked");
        }
        if let Some(recorder) = recorder
            && let Err(error) = guard::catch(|| recorder.end(outcome.as_ref().err()))
        {
            tracing::error!(request = %self.shared.run.id, %error, "the timeline function of a session panicked");
        }
        self.shared.end(outcome);
        self.running.idle_waiters.clear();
        self.plan.session_closed();
    }
}

impl Future for Session {
    type Output = Result<Summary>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let session = &mut *self;
        if session.ended {
            return Poll::Ready(Err(Error::precondition("the session has ended")));
        }
        let outcome = session.step(cx);
        session.shared.leave();
        if let Poll::Ready(outcome) = &outcome {
            if let Err(error) = outcome {
                let frame = Frame {
                    plan: &session.plan,
                    shared: &session.shared,
                };
                // Errors of closing the nodes of a failed session do not change its outcome.
                let _ = session.running.close_rest(frame, Some(error));
            }
            session.end(outcome.clone());
        }
        outcome
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.ended {
            self.shared.run.cancel.cancel();
            self.end(Err(cancelled()));
        }
    }
}
