//! The request context: what every node of a session may know about the request it works for.

use std::any::Any;
use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Instant,
};

/// The identity of a request, as logs and responses show it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(pub Arc<str>);

impl RequestId {
    /// An id from text.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }
}

impl std::fmt::Display for RequestId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// How urgent a request is: higher goes first; 0 is usual.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(pub i8);

/// The distributed trace a request belongs to.
#[derive(Clone, Debug, Default)]
pub struct TraceContext {
    /// The `traceparent` header that a node gives those that it asks.
    pub traceparent: Option<Arc<str>>,
}

/// What every node may know about its request. Shared by reference in a session.
#[derive(Clone, Debug)]
pub struct RunCx {
    /// Its identity.
    pub id: RequestId,
    /// When its answer becomes worthless; the session then ends with `DeadlineExceeded`.
    pub deadline: Option<Instant>,
    /// How urgent it is.
    pub priority: Priority,
    /// Set when the session is cancelled, for work that runs elsewhere.
    pub cancel: CancelToken,
    /// The trace it belongs to.
    pub trace: TraceContext,
    /// Who it is for, where a server tells tenants apart.
    pub tenant: Option<Arc<str>>,
    /// What the program that runs the session has for nodes that know of it, and they for it.
    pub extension: Option<Arc<dyn Any + Send + Sync>>,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

impl RunCx {
    /// A context with this id and nothing special.
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

/// Where sessions and nodes take the time from, so that a test can hold it still.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Now.
    fn now(&self) -> Instant;
    /// Resolves when it is `at` or later.
    fn sleep_until(&self, at: Instant) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// The time of the machine; its sleeps need a tokio runtime.
#[derive(Copy, Clone, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn sleep_until(&self, at: Instant) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        // Made when it is first polled: a runtime has to be there only then.
        Box::pin(async move { tokio::time::sleep_until(at.into()).await })
    }
}

/// Tells all holders of a clone that a request is cancelled. Once set it stays set.
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<CancelState>);

#[derive(Debug, Default)]
struct CancelState {
    cancelled: AtomicBool,
    waiting: Mutex<Vec<Waker>>,
}

impl CancelToken {
    /// Cancels, and wakes all who wait for it.
    pub fn cancel(&self) {
        // Release pairs with the Acquire below: who sees the flag sees what was written before it.
        if self.0.cancelled.swap(true, Ordering::Release) {
            return;
        }
        let waiting = std::mem::take(&mut *self.waiting());
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Whether it is cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Acquire)
    }

    /// Resolves when it is cancelled.
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + use<> {
        let token = self.clone();
        std::future::poll_fn(move |cx| token.poll_cancelled(cx))
    }

    pub(crate) fn poll_cancelled(&self, cx: &Context<'_>) -> Poll<()> {
        if self.is_cancelled() {
            return Poll::Ready(());
        }
        let mut waiting = self.waiting();
        if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            waiting.push(cx.waker().clone());
        }
        drop(waiting);
        // `cancel` may have emptied the list before this waker was in it.
        if self.is_cancelled() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Vec<Waker>> {
        self.0
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
