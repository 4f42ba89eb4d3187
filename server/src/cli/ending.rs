//! How the process exits: in an orderly way, and in any case soon.
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

/// Whether there is nothing to end well yet.
static STARTING: AtomicBool = AtomicBool::new(true);

/// Whether a signal to stop has come.
static TOLD: AtomicBool = AtomicBool::new(false);

/// Signals to stop.
const STOP: [i32; 2] = [SIGINT, SIGTERM];

/// Signals that tools send to tell of something and that would end a process that does not expect
/// them.
const NEWS: [i32; 3] = [SIGHUP, SIGUSR1, SIGUSR2];

/// What shells add to the number of the signal that ended a process.
const BY_SIGNAL: i32 = 128;

/// The status of a process that was told to stop and could not end well.
const STUCK: i32 = 1;

/// How long a run that was interrupted may take to say so.
const INTERRUPTED: Duration = Duration::from_secs(1);

/// For a server. Until [`orderly`] a signal to stop ends the process at once: it has not begun.
pub(super) fn prepare() -> io::Result<()> {
    for signal in STOP {
        flag::register_conditional_shutdown(signal, 0, &STARTING)?;
        second_ends(signal)?;
    }
    for signal in NEWS {
        // Whatever is registered takes the place of the system's reaction.
        static RECEIVED: AtomicBool = AtomicBool::new(false);
        flag::register(signal, &RECEIVED)?;
    }
    Ok(())
}

/// From now on the first signal to stop is the server's to obey, within `patience`.
pub(super) fn orderly(patience: Duration) -> io::Result<()> {
    watch_over(&STOP, patience, STUCK)?;
    STARTING.store(false, Ordering::SeqCst);
    Ok(())
}

/// For a run. Until it is [`interruptible`] an interrupt ends it at once: it has not begun.
pub(super) fn prepare_run() -> Result<(), String> {
    let registered = flag::register_conditional_shutdown(SIGINT, BY_SIGNAL + SIGINT, &STARTING);
    registered
        .map(drop)
        .map_err(|error| format!("cannot listen for signals: {error}"))
}

/// For a run that obeys an interrupt by itself, unless what it runs does not let it.
pub(super) fn interruptible() -> io::Result<()> {
    STARTING.store(false, Ordering::SeqCst);
    second_ends(SIGINT)?;
    watch_over(&[SIGINT], INTERRUPTED, BY_SIGNAL + SIGINT)
}

/// Resolves at the first interrupt.
pub(super) async fn interrupted() {
    // If signals cannot be listened to, the default takes place: the process ends.
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn second_ends(signal: i32) -> io::Result<()> {
    // In this order: the first sees that it is the first.
    flag::register_conditional_shutdown(signal, BY_SIGNAL + signal, &TOLD)?;
    flag::register(signal, &TOLD)?;
    Ok(())
}

/// Ends the process without the destructors of libraries in C++, which would take away what a thread
/// that was left behind still computes with.
pub(super) fn leave(code: ExitCode) -> ! {
    // Fails when nobody reads the output any more.
    let _ = io::stdout().flush();
    let status = (0..=u8::MAX).find(|status| ExitCode::from(*status) == code);
    low_level::exit(status.map_or(STUCK, i32::from))
}

/// Ends the process this long after the first of `signals`.
fn watch_over(signals: &[i32], patience: Duration, status: i32) -> io::Result<()> {
    let (mut told, tell) = UnixStream::pair()?;
    for &signal in signals {
        low_level::pipe::register(signal, tell.try_clone()?)?;
    }
    thread::Builder::new()
        .name("watchdog".to_owned())
        .spawn(move || {
            // The other end lives as long as the process: this ends with a signal.
            let _ = told.read_exact(&mut [0]);
            thread::sleep(patience);
            low_level::exit(status)
        })?;
    Ok(())
}
