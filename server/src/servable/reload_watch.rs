//! Reloads the configuration when one of its files is replaced.
//!
//! Change notifications of the system are only hints: the files themselves are compared. So a
//! change without a notification, as on a network disk, is found at the next poll, and one with
//! many notifications, as when Kubernetes swaps the link to a `ConfigMap`, counts once.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use graphmill_engine::FileStamps;
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::{
    sync::Notify,
    task::spawn_blocking,
    time::{sleep, timeout},
};

use super::Served;

/// Files have to stay as they are for so long before they are read: who writes several, or a large
/// one, is not done with the first change.
const QUIET: Duration = Duration::from_millis(300);

/// Watches for as long as it is not dropped; looks at least once in `poll`.
pub(crate) async fn reload_on_change(served: Arc<Served>, poll: Duration) {
    let mut folders = Folders::new(Arc::clone(&served.hint));
    loop {
        // Usually there is no hint.
        let _ = timeout(poll, served.hint.notified()).await;
        let Some(changed) = wait_for(&served, Served::has_changed).await else {
            return;
        };
        if changed {
            let Some(files) = wait_for(&served, Served::files).await else {
                return;
            };
            settled(files).await;
            // What came of it is in the log, and a panic of a load is caught.
            if wait_for(&served, |served| served.reload().is_ok())
                .await
                .is_none()
            {
                return;
            }
            folders.forget();
        }
        let Some(files) = wait_for(&served, Served::files).await else {
            return;
        };
        if folders.watch(&files) {
            // What changed before a folder was watched is told by nothing else.
            served.hint.notify_one();
        }
    }
}

/// Does what waits for files or models; none if the runtime ends.
async fn wait_for<T: Send + 'static>(
    served: &Arc<Served>,
    work: impl FnOnce(&Served) -> T + Send + 'static,
) -> Option<T> {
    let served = Arc::clone(served);
    spawn_blocking(move || work(&served)).await.ok()
}

/// Waits until the files no longer change.
async fn settled(files: FileStamps) {
    let mut before = files.again();
    loop {
        sleep(QUIET).await;
        let now = before.again();
        if now == before {
            return;
        }
        before = now;
    }
}

/// The folders in which the system tells of changes.
struct Folders {
    watcher: Option<RecommendedWatcher>,
    watched: BTreeSet<PathBuf>,
}

impl Folders {
    fn new(hint: Arc<Notify>) -> Self {
        // Whatever happened: the files tell what it was.
        let watcher = notify::recommended_watcher(move |_| hint.notify_one());
        let watcher = watcher.inspect_err(|error| {
            tracing::warn!("changes of files are noticed later: the system tells of none: {error}");
        });
        Self {
            watcher: watcher.ok(),
            watched: BTreeSet::new(),
        }
    }

    /// Watches none of them any more. A folder that was replaced is another one, and has to be
    /// watched anew.
    fn forget(&mut self) {
        for folder in std::mem::take(&mut self.watched) {
            if let Some(watcher) = &mut self.watcher {
                // One that is gone is not watched any more.
                let _ = watcher.unwatch(&folder);
            }
        }
    }

    /// Watches the folders of these files. Returns true if others were watched before.
    fn watch(&mut self, files: &FileStamps) -> bool {
        let folder = |path: &Path| {
            let folder = if path.is_dir() {
                Some(path)
            } else {
                path.parent()
            }?;
            let folder = if folder.as_os_str().is_empty() {
                Path::new(".")
            } else {
                folder
            };
            folder.is_dir().then(|| folder.to_owned())
        };
        let wanted: BTreeSet<PathBuf> = files.paths().filter_map(folder).collect();
        if wanted == self.watched {
            return false;
        }
        let before = self.watched.clone();
        self.forget();
        for folder in wanted {
            let watcher = self.watcher.as_mut();
            // Where it fails, the next look finds changes.
            if watcher.is_some_and(|it| it.watch(&folder, RecursiveMode::NonRecursive).is_ok()) {
                self.watched.insert(folder);
            }
        }
        self.watched != before
    }
}
