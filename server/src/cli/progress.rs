//! The line on a terminal that tells how far the graphs are while they are loaded.

use std::{
    io::{self, IsTerminal as _},
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
