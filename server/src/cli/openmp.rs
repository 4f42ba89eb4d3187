//! Limits the time that llama.cpp's threads spin while they wait for each other.
//!
//! They synchronize several hundred times in a step. With GNU OpenMP, a waiting thread spins for
//! milliseconds before it sleeps. If another program, or one of our own threads, occupies the core
//! of the late thread, the spinning thread keeps the late one from running on its core: on a busy
//! machine a step then takes up to a hundred times as long. Tens of microseconds cover nearly all
//! waits inside a step. Pinned threads do not block each other: they may spin until the next step
//! begins.

use std::env;
use std::hint;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use graphmill_llm::backend;

/// Maximum spin if threads of a step can share a CPU.
const SPIN: Duration = Duration::from_micros(50);
/// Maximum spin if each thread has its own CPU.
const SPIN_ALONE: Duration = Duration::from_micros(200);
/// Turns of a spinning loop in a measurement. The fastest of several measurements counts.
const TURNS: u32 = 1_000;
const SAMPLES: u32 = 5;

/// Restarts the program in the same process with a limit, because OpenMP reads its environment when
/// the program is loaded. Does nothing if the environment already has a setting.
pub(super) fn limit() {
    let settings = ["GOMP_SPINCOUNT", "OMP_WAIT_POLICY"];
    if settings.iter().any(|name| env::var_os(name).is_some()) {
        return;
    }
    let Ok(program) = env::current_exe() else {
        return; // without its own path the program goes on with OpenMP's defaults
    };
    let is_alone = backend::threads_have_own_cpus();
    let spin = if is_alone { SPIN_ALONE } else { SPIN };
    let mut arguments = env::args_os();
    let mut again = Command::new(program);
    if let Some(name) = arguments.next() {
        again.arg0(name);
    }
    // Returns only if the system refuses. Then the defaults stay.
    let _refusal = again
        .args(arguments)
        .env("GOMP_SPINCOUNT", turns(spin).to_string())
        .exec();
}

/// Returns the turns of a spinning loop that take this time. One turn differs tenfold between
/// processors.
fn turns(spin: Duration) -> u128 {
    let sample = || {
        let start = Instant::now();
        for _ in 0..TURNS {
            hint::spin_loop();
        }
        start.elapsed()
    };
    let fastest = (0..SAMPLES).map(|_| sample()).min().unwrap_or(spin);
    (spin.as_nanos() * u128::from(TURNS) / fastest.as_nanos().max(1)).max(1)
}
