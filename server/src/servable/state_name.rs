//! The states of a graph, and their names in the status.

use std::{sync::Arc, time::Instant};

use graphmill_engine::Plan;

/// The state of a graph.
pub(super) enum State {
    /// Not loaded yet; the load has not started.
    Listed,
    Loading,
    /// Takes requests: its plan, and the time since when, in seconds since 1970.
    Available(Arc<Plan>, u64),
    /// Takes no requests; running ones end.
    Unloading,
    /// Not in memory, with the reason. A request loads it again.
    Unloaded(Arc<str>),
    Failed(LastFailure),
    /// Waits for a missing file, with the reason. It is loaded once the file exists.
    Waiting(Arc<str>),
}

/// A failed load, with its time.
pub(super) struct LastFailure {
    /// Reason in one line, for the status.
    pub(super) reason: Arc<str>,
    /// True if memory was short, which may change until the next attempt.
    pub(super) for_memory: bool,
    pub(super) at: Instant,
}

/// The name of a [`State`].
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum StateName {
    Listed,
    Loading,
    Available,
    Unloading,
    Unloaded,
    Failed,
    Waiting,
}

impl StateName {
    /// Returns true if the last load failed, possibly because of a missing file.
    pub(super) fn is_failed(self) -> bool {
        matches!(self, Self::Failed | Self::Waiting)
    }

    /// Returns true before the first load, and after the graph was unloaded.
    pub(super) fn is_unloaded(self) -> bool {
        matches!(self, Self::Listed | Self::Unloaded)
    }

    /// Returns the name in the status: a state of `OpenVINO` Model Server, or an additional one.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Listed => "START",
            Self::Loading => "LOADING",
            Self::Available => "AVAILABLE",
            Self::Unloading => "UNLOADING",
            Self::Unloaded | Self::Failed => "END",
            Self::Waiting => "WAITING",
        }
    }
}

impl State {
    pub(super) fn name(&self) -> StateName {
        match self {
            Self::Listed => StateName::Listed,
            Self::Loading => StateName::Loading,
            Self::Available(..) => StateName::Available,
            Self::Unloading => StateName::Unloading,
            Self::Unloaded(_) => StateName::Unloaded,
            Self::Failed(_) => StateName::Failed,
            Self::Waiting(_) => StateName::Waiting,
        }
    }

    /// Returns the reason why the graph is not in memory, if known.
    pub(super) fn reason(&self) -> Option<&Arc<str>> {
        match self {
            Self::Failed(failed) => Some(&failed.reason),
            Self::Waiting(reason) | Self::Unloaded(reason) => Some(reason),
            _ => None,
        }
    }
}
