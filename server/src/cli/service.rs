//! Notifies the service manager: systemd, or another one with its protocol. Does nothing without
//! one.

use sd_notify::NotifyState;
use tokio::task::JoinSet;

use crate::observe::log;

/// The server answers; `unready` says why it would not answer all requests, if so.
pub(super) fn started(unready: Option<&str>) {
    let status = match unready {
        None => "serving".to_owned(),
        Some(reason) => log::shown(&format!("not ready: {reason}")),
    };
    tell(&[NotifyState::Ready, NotifyState::Status(&status)]);
}

/// The server was told to stop.
pub(super) fn stopping() {
    tell(&[
        NotifyState::Stopping,
        NotifyState::Status("waiting for running requests"),
    ]);
}

/// Shows, for as long as it is kept, that the runtime makes progress, twice as often as the manager
/// wants to see it. To be called in a Tokio runtime.
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
        tracing::warn!("the service manager could not be told: {error}");
    }
}
