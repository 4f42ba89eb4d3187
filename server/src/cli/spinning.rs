//! How long llama.cpp's threads spin where they wait for each other.
//!
//! They meet several hundred times in a step. GNU OpenMP lets a thread that waits spin for milliseconds before it sleeps, which
//! keeps the core from the thread that it waits for when another program, or one of our own threads, has taken that one's core: on
//! a machine with other work a step then takes up to a hundred times as long. Tens of microseconds bridge nearly all waits of a
//! machine that has nothing else to do.

use std::env;
use std::hint;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

/// The longest spin.
const SPIN: Duration = Duration::from_micros(50);
/// Turns of a spinning loop that are timed, and how often: the fastest counts.
const TURNS: u32 = 1_000;
const SAMPLES: u32 = 5;

/// Starts the program again with [`SPIN`] as the limit, as the same process: OpenMP reads its environment when the program is
/// loaded. Does nothing where the environment already says how to wait.
pub(super) fn limit() {
    let says_how = ["GOMP_SPINCOUNT", "OMP_WAIT_POLICY"];
    if says_how.iter().any(|name| env::var_os(name).is_some()) {
        return;
    }
    let Ok(program) = env::current_exe() else {
        return; // without its own path the program goes on with OpenMP's defaults
    };
    let mut arguments = env::args_os();
    let mut again = Command::new(program);
    if let Some(name) = arguments.next() {
        again.arg0(name);
    }
    // Comes back only if the system refuses, and then the defaults stay.
    let _refusal = again
        .args(arguments)
        .env("GOMP_SPINCOUNT", turns().to_string())
        .exec();
}

/// Turns of a spinning loop in [`SPIN`]: what one takes differs tenfold between processors.
fn turns() -> u128 {
    let sample = || {
        let start = Instant::now();
        for _ in 0..TURNS {
            hint::spin_loop();
        }
        start.elapsed()
    };
    let fastest = (0..SAMPLES).map(|_| sample()).min().unwrap_or(SPIN);
    (SPIN.as_nanos() * u128::from(TURNS) / fastest.as_nanos().max(1)).max(1)
}
