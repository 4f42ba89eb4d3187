//! Polling of files, with notification about changes.

use std::{path::Path, time::Duration};

use graphmill_engine::FileStamps;
use tokio::{task::spawn_blocking, time::sleep};

/// Interval between polls: short enough for operators, and cheap. The system would not report the
/// change of a mounted secret, which is a replaced symbolic link.
const PAUSE: Duration = Duration::from_secs(2);

/// Records the state of files. Must be called before they are read, so that no change is missed.
pub(crate) fn look_at<'a>(paths: impl IntoIterator<Item = &'a Path>) -> FileStamps {
    let mut stamps = FileStamps::default();
    paths.into_iter().for_each(|path| stamps.look(path));
    stamps
}

/// Calls `changed` after each change of the files, until it returns false.
pub(crate) async fn follow<F>(mut seen: FileStamps, mut changed: F)
where
    F: FnMut() -> bool + Send + 'static,
{
    repeat(move || {
        let now = seen.again();
        let is_same = now == seen;
        seen = now;
        is_same || changed()
    })
    .await;
}

/// Calls `look` every two seconds until it returns false, on a thread that may block on the file
/// system.
pub(crate) async fn repeat<F>(mut look: F)
where
    F: FnMut() -> bool + Send + 'static,
{
    loop {
        sleep(PAUSE).await;
        let once = spawn_blocking(move || look().then_some(look));
        // Fails when the server ends.
        let Ok(Some(next)) = once.await else { return };
        look = next;
    }
}
