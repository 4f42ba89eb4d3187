//! The exit of the process: orderly if possible, and soon in any case.
//!
//! The first signal begins the orderly shutdown by the server. It depends on threads that compute,
//! load or write, and on a runtime with a free thread. So there are two exits that depend on
//! nothing. A second signal ends the process in its handler. And a thread that only waits for the
//! first signal, through a pipe, ends the process when the time for the orderly shutdown is over.

use std::{
    io::{self, Read as _, Write as _},
    os::unix::net::UnixStream,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2},
    flag, low_level,
};

/// True until the orderly shutdown is set up. Until then a signal to stop ends the process at once.
static STARTING: AtomicBool = AtomicBool::new(true);

/// True once a signal to stop has arrived. A second one ends the process at once.
static TOLD: AtomicBool = AtomicBool::new(false);

/// Signals that stop the process.
const STOP: [i32; 2] = [SIGINT, SIGTERM];

/// Signals that tools send as notifications. Their default action would end the process.
const NOTIFICATIONS: [i32; 3] = [SIGHUP, SIGUSR1, SIGUSR2];

/// Offset that shells add to the number of the signal that ended a process.
const BY_SIGNAL: i32 = 128;

/// Exit status of a process that did not stop in time.
const STUCK: i32 = 1;

/// Time for an interrupted run to report its end.
const INTERRUPTED: Duration = Duration::from_secs(1);

/// Prepares the signals of a server. Until [`orderly`] is called, a signal to stop ends the process
/// at once.
pub(super) fn prepare() -> io::Result<()> {
    for signal in STOP {
        flag::register_conditional_shutdown(signal, 0, &STARTING)?;
        exit_at_second(signal)?;
    }
    for signal in NOTIFICATIONS {
        // Any registration replaces the system's default action.
        static RECEIVED: AtomicBool = AtomicBool::new(false);
        flag::register(signal, &RECEIVED)?;
    }
    Ok(())
}

/// Leaves the first signal to stop to the server from now on, and ends the process if it takes
/// longer than `patience`.
pub(super) fn orderly(patience: Duration) -> io::Result<()> {
    watch_over(&STOP, patience, STUCK)?;
    STARTING.store(false, Ordering::SeqCst);
    Ok(())
}

/// Prepares the signals of a run. Until it is [`interruptible`], an interrupt ends it at once.
pub(super) fn prepare_run() -> Result<(), String> {
    let registered = flag::register_conditional_shutdown(SIGINT, BY_SIGNAL + SIGINT, &STARTING);
    registered
        .map(drop)
        .map_err(|error| format!("cannot listen for signals: {error}"))
}

/// Leaves the first interrupt to the run from now on, and ends the process if it does not stop in
/// time.
pub(super) fn interruptible() -> io::Result<()> {
    STARTING.store(false, Ordering::SeqCst);
    exit_at_second(SIGINT)?;
    watch_over(&[SIGINT], INTERRUPTED, BY_SIGNAL + SIGINT)
}

/// Resolves at the first interrupt.
pub(super) async fn interrupted() {
    // If signals cannot be received, the default action remains: the process ends.
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn exit_at_second(signal: i32) -> io::Result<()> {
    // The order matters: the first registration sees that a signal is the first one.
    flag::register_conditional_shutdown(signal, BY_SIGNAL + signal, &TOLD)?;
    flag::register(signal, &TOLD)?;
    Ok(())
}

/// Ends the process without running destructors of C++ libraries, which would free memory that an
/// abandoned thread still uses.
pub(super) fn leave(code: ExitCode) -> ! {
    // Fails if nobody reads the output any more.
    let _ = io::stdout().flush();
    let status = (0..=u8::MAX).find(|status| ExitCode::from(*status) == code);
    low_level::exit(status.map_or(STUCK, i32::from))
}

/// Ends the process `patience` after the first of `signals`.
fn watch_over(signals: &[i32], patience: Duration, status: i32) -> io::Result<()> {
    let (mut told, tell) = UnixStream::pair()?;
    for &signal in signals {
        low_level::pipe::register(signal, tell.try_clone()?)?;
    }
    thread::Builder::new()
        .name("watchdog".to_owned())
        .spawn(move || {
            // The other end is never closed, so this returns only at a signal.
            let _ = told.read_exact(&mut [0]);
            thread::sleep(patience);
            low_level::exit(status)
        })?;
    Ok(())
}
