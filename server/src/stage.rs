//! How the server ends, for everything that goes on until then.

/// How far the server is from its end.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// It serves.
    Running,
    /// It serves, but says that it is not ready, so that no more requests are sent here.
    Leaving,
    /// It takes no new request and lets the running ones end.
    Draining,
    /// It ends the running ones.
    Cut,
}
