//! Calls in progress outside the session's task: on executors, or as futures of async nodes.

use std::{
    collections::VecDeque,
    fmt,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Instant,
};

use crate::{
    calculator::Flow,
    calculator::erased::{AsyncReturn, CallResult, Instance},
    emits::{AsyncCall, Description, Emits},
    error::{Error, Result},
    lanes::Lane,
    lock::lock,
};

use super::{
    guard::{CallReason, catch, panicked},
    message::SessionMessage,
    shared::SessionState,
};

/// Number of calls in progress outside the session's task, over all nodes.
#[derive(Default)]
pub(super) struct InFlight {
    pub(super) calls: usize,
    /// Set once an executor has admitted the session.
    admitted: bool,
}

impl InFlight {
    /// Admits the session to an executor and starts the executor's threads. Only the first call has
    /// an effect.
    pub(super) fn admit(&mut self, executor: &Lane, tenant: Option<&Arc<str>>) -> Result<()> {
        executor.start()?;
        if !self.admitted {
            executor.admit(tenant)?;
            self.admitted = true;
        }
        Ok(())
    }
}

/// Waker of an async call. It asks the session to poll the call's future.
pub(super) struct PollNode {
    shared: Arc<SessionState>,
    node: u16,
    slot: u16,
    /// Set while a message is on its way.
    asked: AtomicBool,
    /// Description of the call's wait, if it has given one.
    description: Mutex<Option<Description>>,
}

impl AsyncCall for PollNode {
    fn waits_for(&self, what: Description) {
        *lock(&self.description) = Some(what);
    }
}

impl fmt::Debug for PollNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PollNode(node {}, slot {})", self.node, self.slot)
    }
}

impl Wake for PollNode {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Release pairs with the Acquire in `Away::poll`: the poll sees what was written before the
        // wake.
        if !self.asked.swap(true, Ordering::AcqRel) {
            let (node, slot) = (self.node, self.slot);
            // If the session has ended, the future is gone.
            drop(self.shared.send(SessionMessage::Poll { node, slot }));
        }
    }
}

pub(super) type NodeFuture = Pin<Box<dyn Future<Output = AsyncReturn> + Send>>;

/// Calls of one node in progress outside the session's task.
#[derive(Default)]
pub(super) struct Away {
    /// Slots for calls, as many as were ever in progress at once.
    slots: Vec<CallSlot>,
    /// Slots in use, in the order of their calls.
    order: VecDeque<u16>,
    /// Free instances, besides that of the node itself.
    pub(super) spare: Vec<Instance>,
    /// Set once the node has stopped. It is closed when the calls in progress have ended; the
    /// output of later calls is discarded.
    pub(super) stopped: bool,
}

/// A slot for one call.
struct CallSlot {
    call: CallReason,
    began: Instant,
    work: CallWork,
    poll: Option<Arc<PollNode>>,
}

enum CallWork {
    /// Taken out by the session for a moment.
    None,
    /// A job with this number on an executor.
    Job(u64),
    Future(NodeFuture),
    /// Ended, but an earlier call has not.
    Done(CallResult<Flow>, Emits),
}

impl Away {
    /// Returns the number of calls in progress.
    pub(super) fn calls(&self) -> usize {
        self.order.len()
    }

    /// Takes a free slot for a call that starts at `now`.
    pub(super) fn begin(&mut self, call: CallReason, now: Instant) -> u16 {
        let free = (0..self.slots.len() as u16).find(|slot| !self.order.contains(slot));
        let slot = free.unwrap_or_else(|| {
            self.slots.push(CallSlot {
                call,
                began: now,
                work: CallWork::None,
                poll: None,
            });
            self.slots.len() as u16 - 1
        });
        let taken = &mut self.slots[usize::from(slot)];
        (taken.call, taken.began) = (call, now);
        self.order.push_back(slot);
        slot
    }

    /// Returns the call in a slot and its start.
    pub(super) fn call(&self, slot: u16) -> (CallReason, Instant) {
        let slot = &self.slots[usize::from(slot)];
        (slot.call, slot.began)
    }

    /// Returns the waker of the call in a slot. It also receives the description of the call's
    /// wait.
    pub(super) fn async_call(
        &mut self,
        shared: &Arc<SessionState>,
        node: u16,
        slot: u16,
    ) -> Arc<PollNode> {
        let poll = &mut self.slots[usize::from(slot)].poll;
        let poll = poll.get_or_insert_with(|| {
            Arc::new(PollNode {
                shared: Arc::clone(shared),
                node,
                slot,
                asked: AtomicBool::new(false),
                description: Mutex::new(None),
            })
        });
        *lock(&poll.description) = None;
        Arc::clone(poll)
    }

    /// Stores the future of a call in its slot.
    pub(super) fn start(&mut self, slot: u16, future: NodeFuture) {
        self.slots[usize::from(slot)].work = CallWork::Future(future);
    }

    /// Stores the number of the job of a call.
    pub(super) fn given(&mut self, slot: u16, job: u64) {
        self.slots[usize::from(slot)].work = CallWork::Job(job);
    }

    /// Returns the job of the earliest call, if it is on an executor.
    pub(super) fn job(&self) -> Option<u64> {
        match self.slots[usize::from(*self.order.front()?)].work {
            CallWork::Job(job) => Some(job),
            _ => None,
        }
    }

    /// Describes the wait of the earliest call, if it is a future that has given a description.
    pub(super) fn waits_for(&self) -> Option<String> {
        let CallSlot { work, poll, .. } = &self.slots[usize::from(*self.order.front()?)];
        let CallWork::Future(_) = work else {
            return None;
        };
        let description = lock(&poll.as_ref()?.description);
        let describe = description.as_ref()?;
        catch(describe).ok()
    }

    /// Polls the call in a slot. `None` if it is not a future or is pending; an error if it
    /// panicked.
    pub(super) fn poll(&mut self, slot: u16) -> Option<Result<AsyncReturn, Error>> {
        let CallSlot { work, poll, .. } = &mut self.slots[usize::from(slot)];
        let (CallWork::Future(future), Some(poll)) = (&mut *work, poll) else {
            return None;
        };
        // Acquire pairs with the Release in `wake_by_ref`. The flag is cleared before the poll, so
        // that a wake during the poll asks again.
        poll.asked.swap(false, Ordering::Acquire);
        let waker = Waker::from(Arc::clone(poll));
        let polled = catch_unwind(AssertUnwindSafe(|| {
            future.as_mut().poll(&mut Context::from_waker(&waker))
        }));
        match polled {
            Ok(Poll::Pending) => None,
            Ok(Poll::Ready(returned)) => Some(Ok(returned)),
            Err(panic) => {
                *work = CallWork::None;
                Some(Err(panicked(&*panic)))
            }
        }
    }

    /// Stores the result of a call until earlier calls have ended.
    pub(super) fn finish(&mut self, slot: u16, flow: CallResult<Flow>, emits: Emits) {
        self.slots[usize::from(slot)].work = CallWork::Done(flow, emits);
    }

    /// Takes the result of the earliest call, if it has ended. Results from after the node has
    /// stopped are dropped.
    pub(super) fn next(&mut self) -> Option<(CallReason, CallResult<Flow>, Emits)> {
        loop {
            let slot = &mut self.slots[usize::from(*self.order.front()?)];
            match std::mem::replace(&mut slot.work, CallWork::None) {
                CallWork::Done(flow, emits) => {
                    self.order.pop_front();
                    if !self.stopped || slot.call == CallReason::Close {
                        return Some((slot.call, flow, emits));
                    }
                }
                going_on => {
                    slot.work = going_on;
                    return None;
                }
            }
        }
    }
}
