//! Where a session meets other threads: inbox, waker, gates and output queues, behind one lock that is never held while
//! user code runs.
//!
//! A message is pushed and the waker taken in one critical section, and the session goes to sleep only in a critical
//! section in which the inbox is empty; so no wake-up is lost, and a session that is awake is not woken again.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
};

use smallvec::SmallVec;
use tokio::sync::oneshot;

use crate::{
    error::{Error, Result},
    events::{SessionEnded, Wake},
    input::Event,
    packet::Packet,
    plan::Plan,
    run::RunCx,
    timestamp::Timestamp,
};

use super::{away::Returned, summary::Summary, why::Why};

/// What the outside tells a session.
pub(crate) enum Message {
    /// A packet for a graph input.
    Packet { input: u16, packet: Packet },
    /// No packet before this will come on a graph input.
    Bound { input: u16, at: Timestamp },
    /// Nothing will come on a graph input.
    CloseInput { input: u16 },
    /// A thing for an event port of a node.
    Event { node: u16, event: Event },
    /// A hold on a node was dropped.
    Released { node: u16 },
    /// The future of an async node wants to be polled.
    Poll { node: u16 },
    /// A node is back from its executor.
    Returned { node: u16, returned: Box<Returned> },
    /// Somebody asks what the session waits for.
    Why(oneshot::Sender<Why>),
}

/// The part of a session that other threads can reach.
pub(crate) struct Shared {
    pub(crate) run: Arc<RunCx>,
    state: Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) inbox: VecDeque<Message>,
    /// Present while the session sleeps.
    pub(super) waker: Option<Waker>,
    /// By graph input.
    pub(super) gates: SmallVec<[Gate; 2]>,
    pub(super) outputs: SmallVec<[Output; 2]>,
    /// The side packets that nodes have set, by position in the plan.
    pub(super) sides: Vec<(usize, Packet)>,
    /// The session has been polled: outputs can no longer be taken.
    pub(super) started: bool,
    pub(super) outcome: Option<Result<Summary>>,
    pub(super) outcome_waiters: Vec<Waker>,
}

/// How much more a graph input takes.
pub(super) struct Gate {
    /// Packets in the inbox.
    pub(super) staged: usize,
    /// How many more the queues of its consumers took when the session last looked.
    pub(super) room: usize,
    pub(super) closed: bool,
    pub(super) pushers: Vec<Waker>,
}

/// Packets on their way out of the session.
#[derive(Default)]
pub(super) struct Output {
    pub(super) stream: u32,
    pub(super) packets: VecDeque<Packet>,
    pub(super) closed: bool,
    /// The reader is gone.
    pub(super) abandoned: bool,
    /// The session waits for room.
    pub(super) full: bool,
    pub(super) reader: Option<Waker>,
}

impl Shared {
    pub(super) fn new(run: Arc<RunCx>, plan: &Plan) -> Self {
        let gate = |port: &crate::plan::GraphPort| Gate {
            staged: 0,
            room: plan.streams[port.stream as usize]
                .consumers
                .iter()
                .map(|&input| plan.inputs[input as usize].limit)
                .min()
                .unwrap_or(usize::MAX),
            closed: false,
            pushers: Vec::new(),
        };
        let state = State {
            gates: plan.graph_inputs.iter().map(gate).collect(),
            ..State::default()
        };
        Self {
            run,
            state: Mutex::new(state),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a message into the inbox. Dropping the answer wakes the session.
    pub(crate) fn send(&self, message: Message) -> Result<Wake, SessionEnded> {
        let mut state = self.lock();
        if state.outcome.is_some() {
            return Err(SessionEnded);
        }
        state.inbox.push_back(message);
        Ok(Wake(state.waker.take()))
    }

    /// Records how the session ended and tells everybody who waits.
    pub(super) fn end(&self, outcome: Result<Summary>) {
        let mut state = self.lock();
        state.outcome = Some(outcome);
        let inbox = std::mem::take(&mut state.inbox);
        let mut wakers = std::mem::take(&mut state.outcome_waiters);
        wakers.extend(state.waker.take());
        for output in &mut state.outputs {
            output.closed = true;
            wakers.extend(output.reader.take());
        }
        for gate in &mut state.gates {
            wakers.append(&mut gate.pushers);
        }
        drop(state);
        // What the messages hold may reach back into this lock when it is dropped.
        drop(inbox);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl State {
    /// Why nothing can be sent any more, if so.
    pub(super) fn ended(&self) -> Result<()> {
        match &self.outcome {
            None => Ok(()),
            Some(Ok(_)) => Err(Error::precondition("the session has ended")),
            Some(Err(error)) => Err(error.clone()),
        }
    }
}
