//! Files that are read again when they change.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use tokio::{task::spawn_blocking, time::sleep};

/// How often files are looked at. A mounted secret is replaced by a link, of which no watch on the
/// file would hear.
const PAUSE: Duration = Duration::from_secs(2);

/// What tells one state of a file from another; none of a file that is not there.
type State = Option<(SystemTime, u64)>;

/// Files as they were at one time.
#[derive(Clone, Debug)]
pub(crate) struct PolledFiles {
    paths: Vec<PathBuf>,
    seen: Vec<State>,
}

impl PolledFiles {
    /// The files as they are now. To be asked before they are read, so that no change is missed.
    pub(crate) fn of(paths: Vec<PathBuf>) -> Self {
        let seen = states(&paths);
        Self { paths, seen }
    }

    /// Calls `changed` after each change, on a thread that may wait, for as long as it says true.
    pub(crate) async fn follow<F>(self, changed: F)
    where
        F: Fn() -> bool + Clone + Send + 'static,
    {
        let Self { paths, mut seen } = self;
        loop {
            sleep(PAUSE).await;
            let (paths, before, changed) = (paths.clone(), seen, changed.clone());
            let look = spawn_blocking(move || {
                let now = states(&paths);
                let goes_on = now == before || changed();
                goes_on.then_some(now)
            });
            // It fails when the server ends.
            let Ok(Some(now)) = look.await else { return };
            seen = now;
        }
    }
}

fn states(paths: &[PathBuf]) -> Vec<State> {
    let state = |path: &PathBuf| {
        let metadata = fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    paths.iter().map(state).collect()
}
