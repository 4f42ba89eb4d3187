//! The request context, which every node of a session can read.

use std::{
    any::Any,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Instant,
};

use crate::lock::lock;

/// Identifier of a request in logs and responses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(pub Arc<str>);

impl RequestId {
    /// Makes an id from a text, which is not checked.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }
}

impl std::fmt::Display for RequestId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Urgency of a request: higher goes first; the default is 0.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(pub i8);

/// The distributed trace of a request.
#[derive(Clone, Debug, Default)]
pub struct TraceContext {
    /// Value of the `traceparent` header that a node sends with requests of its own.
    pub traceparent: Option<Arc<str>>,
}

/// Context of a request. All nodes of a session share it by reference.
#[derive(Clone, Debug)]
pub struct RunCx {
    /// Identifier in logs and responses.
    pub id: RequestId,
    /// Time at which the session ends with `DeadlineExceeded`.
    pub deadline: Option<Instant>,
    /// Urgency compared to other requests; the default is 0.
    pub priority: Priority,
    /// Set when the session is cancelled, for work that runs elsewhere.
    pub cancel: CancelToken,
    /// Distributed trace of the request.
    pub trace: TraceContext,
    /// Tenant of the request, if the server tells tenants apart.
    pub tenant: Option<Arc<str>>,
    /// Object of the surrounding program, for nodes that know its type.
    pub extension: Option<Arc<dyn Any + Send + Sync>>,
    /// Source of the current time; tests replace it.
    pub clock: Arc<dyn Clock>,
}

impl RunCx {
    /// Makes a context with this id and default values.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self {
            id: RequestId::new(id),
            deadline: None,
            priority: Priority::default(),
            cancel: CancelToken::default(),
            trace: TraceContext::default(),
            tenant: None,
            extension: None,
            clock: Arc::new(SystemClock),
        }
    }
}

/// The source of time for sessions and nodes. Tests can stop it.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Returns the current time, which never decreases.
    fn now(&self) -> Instant;
    /// Resolves at `at` or later.
    fn sleep_until(&self, at: Instant) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// The system clock. Its sleeps need a tokio runtime.
#[derive(Copy, Clone, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn sleep_until(&self, at: Instant) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        // Made when first polled, because the runtime need not exist earlier.
        Box::pin(async move { tokio::time::sleep_until(at.into()).await })
    }
}

/// A flag that tells all holders of a clone that a request is cancelled. Once set it stays set.
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<CancelState>);

#[derive(Debug, Default)]
struct CancelState {
    cancelled: AtomicBool,
    waiting: Mutex<Vec<Waker>>,
}

impl CancelToken {
    /// Sets the flag and wakes all tasks that wait for it.
    pub fn cancel(&self) {
        // Release pairs with the Acquire below: whoever sees the flag also sees earlier writes.
        if self.0.cancelled.swap(true, Ordering::Release) {
            return;
        }
        let waiting = std::mem::take(&mut *lock(&self.0.waiting));
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Returns `true` once the request is cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Acquire)
    }

    /// Resolves when the request is cancelled.
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + use<> {
        let token = self.clone();
        std::future::poll_fn(move |cx| token.poll_cancelled(cx))
    }

    pub(crate) fn poll_cancelled(&self, cx: &Context<'_>) -> Poll<()> {
        if self.is_cancelled() {
            return Poll::Ready(());
        }
        let mut waiting = lock(&self.0.waiting);
        if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            waiting.push(cx.waker().clone());
        }
        drop(waiting);
        // `cancel` may have emptied the list before this waker was added.
        if self.is_cancelled() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}
