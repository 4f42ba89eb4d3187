//! The line on a terminal that tells how far something is: the graphs that are loaded, or a file.

use std::{
    io::{self, IsTerminal as _, Write as _},
    process,
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::Duration,
};

use tokio::{task::JoinSet, time::interval};

use crate::{app::Server, observe::log};

/// How often the line changes: often enough to see that something happens.
const EVERY: Duration = Duration::from_millis(200);

/// The line, which goes away with this value.
pub(super) struct Shown {
    writing: JoinSet<()>,
    is_shown: bool,
}

/// Shows the line of a server that is loading its graphs, if there is a terminal to show it.
pub(super) fn show(server: &Server) -> Shown {
    let mut writing = JoinSet::new();
    let is_shown = io::stderr().is_terminal();
    if is_shown {
        let loading = server.loading();
        writing.spawn(async move {
            let mut ticks = interval(EVERY);
            while let Some(line) = loading() {
                log::passing(&line);
                ticks.tick().await;
            }
        });
    }
    Shown { writing, is_shown }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.writing.abort_all();
        if self.is_shown {
            log::passing("");
        }
    }
}

/// Shows what `look` tells of `work` while that runs: in one line of a terminal, which goes away, and
/// elsewhere in a line for each tenth.
pub(super) fn shown_while<T>(
    look: impl Fn() -> Option<(String, f32)> + Send,
    work: impl FnOnce() -> T,
) -> T {
    let (ends, end) = channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || follow(look, &end));
        let result = work();
        drop(ends);
        result
    })
}

fn follow(look: impl Fn() -> Option<(String, f32)>, end: &Receiver<()>) {
    let is_terminal = io::stderr().is_terminal();
    let mut tenths = 0;
    while end.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
        let Some((line, part)) = look() else { continue };
        if is_terminal {
            log::passing(&line);
        } else if (part * 10.0) as u32 > tenths {
            tenths = (part * 10.0) as u32;
            if writeln!(io::stderr(), "{line}").is_err() {
                // Whoever has started this process is gone.
                process::exit(1);
            }
        }
    }
    if is_terminal {
        log::passing("");
    }
}
