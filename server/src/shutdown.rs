//! The stages of shutdown.

/// The stage of the server, from serving to its end.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Serves requests and reports ready.
    Running,
    /// Serves requests but reports not ready, so that no more are sent here.
    Leaving,
    /// Takes no new requests, and waits for running ones.
    Draining,
    /// Aborts the requests that are still running.
    Aborting,
}
