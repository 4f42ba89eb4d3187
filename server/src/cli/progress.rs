//! The progress line on a terminal, of graphs being loaded or of a file.

use std::{
    io::{self, IsTerminal as _, Write as _},
    process,
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::Duration,
};

use tokio::{task::JoinSet, time::interval};

use crate::{app::Server, telemetry::log};

/// Interval between updates of the line.
const EVERY: Duration = Duration::from_millis(200);

/// The progress line, removed on drop. Its task is missing if no line is shown.
pub(super) struct ProgressLine(JoinSet<()>);

/// Shows the progress of a server that is loading its graphs, if standard error is a terminal.
pub(super) fn show(server: &Server) -> ProgressLine {
    let mut writing = JoinSet::new();
    if io::stderr().is_terminal() {
        let loading = server.loading();
        writing.spawn(async move {
            let mut ticks = interval(EVERY);
            while let Some(line) = loading() {
                log::passing(&line);
                ticks.tick().await;
            }
        });
    }
    ProgressLine(writing)
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.0.abort_all();
        if !self.0.is_empty() {
            log::passing("");
        }
    }
}

/// Shows the progress that `look` reports during `work`: on a terminal in one line, which is
/// removed at the end; elsewhere in a line for each tenth.
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
                // The process that started this one has ended.
                process::exit(1);
            }
        }
    }
    if is_terminal {
        log::passing("");
    }
}
