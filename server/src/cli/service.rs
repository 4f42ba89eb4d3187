//! Notifications to the service manager: systemd, or another one with its protocol. They do nothing
//! without one.

use sd_notify::NotifyState;
use tokio::task::JoinSet;

use crate::telemetry::log;

/// Reports that the server is listening. `unready` is the reason if it is not ready yet.
pub(super) fn started(unready: Option<&str>) {
    let status = match unready {
        None => "serving".to_owned(),
        Some(reason) => log::shown(&format!("not ready: {reason}")),
    };
    tell(&[NotifyState::Ready, NotifyState::Status(&status)]);
}

/// Reports that the server is stopping.
pub(super) fn stopping() {
    tell(&[
        NotifyState::Stopping,
        NotifyState::Status("waiting for running requests"),
    ]);
}

/// Starts a task that reports progress of the runtime twice as often as the service manager
/// expects. It stops when the result is dropped. Must be called in a Tokio runtime.
pub(super) fn watchdog() -> JoinSet<()> {
    let mut signs = JoinSet::new();
    if let Some(patience) = sd_notify::watchdog_enabled().filter(|it| !it.is_zero()) {
        signs.spawn(async move {
            let mut ticks = tokio::time::interval(patience / 2);
            loop {
                ticks.tick().await;
                tell(&[NotifyState::Watchdog]);
            }
        });
    }
    signs
}

fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!("cannot notify the service manager: {error}");
    }
}
