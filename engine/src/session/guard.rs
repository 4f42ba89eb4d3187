//! Guarded calls: an error or panic of a node ends its session and nothing else.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use crate::{
    calculator::Flow,
    calculator::erased::{CallResult, ErasedNode},
    context::{Cx, Site},
    emits::Emits,
    error::{Error, Result},
    input::InputSet,
    timestamp::Timestamp,
};

/// The reason of a call.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum CallReason {
    /// The input set at this timestamp is complete.
    Inputs(Timestamp),
    Event,
    /// The node is a source, and nothing else can run.
    Source,
    Close,
}

/// Calls a node. After a panic, the flag in `out` is set.
pub(super) fn guarded(
    site: Site<'_>,
    node: &mut dyn ErasedNode,
    set: &mut InputSet,
    out: &mut Emits,
    call: CallReason,
) -> CallResult<Flow> {
    let called = catch_unwind(AssertUnwindSafe(|| {
        let out = &mut *out;
        let mut cx = Cx { site, set, out };
        match call {
            CallReason::Close => node.close(&mut cx).map(|()| Flow::Stop),
            CallReason::Inputs(_) | CallReason::Event | CallReason::Source => node.process(&mut cx),
        }
    }));
    called.unwrap_or_else(|panic| {
        out.panicked = true;
        Err(panicked(&*panic).into())
    })
}

/// Turns a panic into an error.
pub(super) fn catch<T>(call: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| panicked(&*panic))
}

pub(super) fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("no message");
    Error::internal(format!("the calculator panicked: {text}"))
}
