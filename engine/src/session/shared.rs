//! State that a session shares with other threads: its mailbox and its outcome. The lock is never
//! held while user code runs.

use std::{
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    task::Waker,
};

use smallvec::SmallVec;

use crate::{
    context::{Host, Site},
    error::{Error, Result},
    events::{Held, Hold, SessionEnded, Wake},
    input::Event,
    lock::lock,
    packet::Packet,
    plan::{GraphPort, Plan},
    run::RunCx,
};

use super::{mailbox::Exchange, message::SessionMessage, summary::Summary};

/// The constant surroundings of a session's work.
#[derive(Copy, Clone)]
pub(super) struct Frame<'a> {
    pub(super) plan: &'a Arc<Plan>,
    pub(super) shared: &'a Arc<SessionState>,
}

impl<'a> Frame<'a> {
    /// Returns the site of a node's calls for their contexts.
    #[inline]
    pub(super) fn site(self, node: usize) -> Site<'a> {
        Site {
            node: node as u16,
            name: &self.plan.nodes[node].name,
            session: self.shared,
            ended: None,
        }
    }

    /// Fails if the session was cancelled.
    #[inline]
    pub(super) fn check_cancelled(self) -> Result<()> {
        if self.shared.run.cancel.is_cancelled() {
            return Err(cancelled());
        }
        Ok(())
    }
}

/// Makes the error of a cancelled session.
pub(super) fn cancelled() -> Error {
    Error::cancelled("the session was cancelled")
}

/// The part of a session that other threads can reach.
pub(super) struct SessionState {
    pub(super) run: Arc<RunCx>,
    state: Mutex<MailboxState>,
    /// Node whose call runs in the session's task; [`NOBODY`] if there is none. Observers read it
    /// when the session does not answer.
    inside: AtomicU32,
}

/// Value of `inside` without a running node.
const NOBODY: u32 = u32::MAX;

pub(super) struct MailboxState {
    pub(super) exchange: Exchange<SessionMessage, Packet>,
    /// Stream of each output of the exchange.
    pub(super) outputs: SmallVec<[u32; 2]>,
    /// Side packets that nodes have set, by position in the plan.
    pub(super) sides: Vec<(usize, Packet)>,
    /// Set after the first poll: outputs can no longer be taken.
    pub(super) started: bool,
    pub(super) outcome: Option<Result<Summary>>,
    pub(super) outcome_waiters: Vec<Waker>,
}

impl SessionState {
    pub(super) fn new(run: Arc<RunCx>, plan: &Plan) -> Self {
        let room = |port: &GraphPort| {
            let consumers = plan.streams[port.stream as usize].consumers.iter();
            let limits = consumers.map(|&input| plan.inputs[input as usize].limit);
            limits.min().unwrap_or(usize::MAX)
        };
        let state = MailboxState {
            exchange: Exchange::new(plan.graph_inputs.iter().map(room)),
            outputs: SmallVec::new(),
            sides: Vec::new(),
            started: false,
            outcome: None,
            outcome_waiters: Vec::new(),
        };
        Self {
            run,
            state: Mutex::new(state),
            inside: AtomicU32::new(NOBODY),
        }
    }

    /// Records that a call of a node begins in the session's task.
    #[inline]
    pub(super) fn enter(&self, node: usize) {
        self.inside.store(node as u32, Relaxed);
    }

    /// Records that the session's poll has ended.
    pub(super) fn leave(&self) {
        self.inside.store(NOBODY, Relaxed);
    }

    /// Returns the node whose call runs in the session's task.
    pub(super) fn inside(&self) -> Option<usize> {
        let node = self.inside.load(Relaxed);
        (node != NOBODY).then_some(node as usize)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, MailboxState> {
        lock(&self.state)
    }

    /// Puts a message into the inbox. Dropping the result wakes the session.
    pub(super) fn send(&self, message: SessionMessage) -> Result<Wake, SessionEnded> {
        let mut state = self.lock();
        if state.outcome.is_some() {
            return Err(SessionEnded);
        }
        Ok(Wake(state.exchange.post(message)))
    }

    /// Records the session's outcome and notifies all waiters.
    pub(super) fn end(&self, outcome: Result<Summary>) {
        let mut state = self.lock();
        state.outcome = Some(outcome);
        let mut wakers = std::mem::take(&mut state.outcome_waiters);
        let inbox = state.exchange.end(&mut wakers);
        drop(state);
        // Values in the messages may take this lock when they are dropped.
        drop(inbox);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Host for Arc<SessionState> {
    fn run(&self) -> &Arc<RunCx> {
        &self.run
    }

    fn hold(&self, node: u16) -> Hold {
        let session = Self::clone(self);
        Hold(Arc::new(HeldNode { node, session }))
    }
}

/// A node that is held open.
struct HeldNode {
    node: u16,
    session: Arc<SessionState>,
}

impl Held for HeldNode {
    fn node(&self) -> u16 {
        self.node
    }

    fn post(&self, event: Event) -> Result<Wake, SessionEnded> {
        let node = self.node;
        self.session.send(SessionMessage::Event { node, event })
    }
}

impl Drop for HeldNode {
    fn drop(&mut self) {
        // An ended session need not be notified.
        drop(
            self.session
                .send(SessionMessage::Released { node: self.node }),
        );
    }
}

impl MailboxState {
    /// Fails if the session has ended, with the error that ended it.
    pub(super) fn ended(&self) -> Result<()> {
        match &self.outcome {
            None => Ok(()),
            Some(Ok(_)) => Err(Error::precondition("the session has ended")),
            Some(Err(error)) => Err(error.clone()),
        }
    }
}
