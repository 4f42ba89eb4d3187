//! How the server ends, for everything that goes on until then.

use tokio::sync::watch;

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

/// Waits until the server ends running requests, or is gone.
pub(crate) async fn cut(stage: &mut watch::Receiver<Stage>) {
    // Fails when the server was dropped without a stop, which ends requests too.
    let _ = stage.wait_for(|stage| *stage == Stage::Cut).await;
}
