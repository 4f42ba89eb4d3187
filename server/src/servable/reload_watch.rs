//! Reloads the configuration when one of its files changes.
//!
//! Change notifications of the system are only hints: the files themselves are compared. A change
//! without a notification, as on a network disk, is found at the next poll. A change with many
//! notifications, as when Kubernetes swaps the link to a `ConfigMap`, counts once.

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

use super::ServedGraphs;
use crate::replace::parent_folder;

/// Time without changes before files are read, because a writer may still be writing the rest.
const QUIET: Duration = Duration::from_millis(300);

/// Watches files until it is dropped, or the runtime ends. Compares them at least once in `poll`.
pub(crate) async fn reload_on_change(served: Arc<ServedGraphs>, poll: Duration) -> Option<()> {
    let mut folders = Folders::new(Arc::clone(&served.hint));
    loop {
        // Usually ends by the timeout, without a hint.
        let _ = timeout(poll, served.hint.notified()).await;
        if wait_for(&served, ServedGraphs::has_changed).await? {
            settled(wait_for(&served, ServedGraphs::files).await?).await;
            // The result is in the log, and a panic during a load is caught.
            wait_for(&served, |served| served.reload().is_ok()).await?;
            folders.forget();
        }
        let files = wait_for(&served, ServedGraphs::files).await?;
        if folders.watch(&files) {
            // Changes before the folder was watched cause no notification.
            served.hint.notify_one();
        }
    }
}

/// Runs work that may wait for files or models; `None` if the runtime ends.
async fn wait_for<T: Send + 'static>(
    served: &Arc<ServedGraphs>,
    work: impl FnOnce(&ServedGraphs) -> T + Send + 'static,
) -> Option<T> {
    let served = Arc::clone(served);
    spawn_blocking(move || work(&served)).await.ok()
}

/// Waits until the files stop changing.
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

/// Folders whose changes the system reports.
struct Folders {
    watcher: Option<RecommendedWatcher>,
    watched: BTreeSet<PathBuf>,
}

impl Folders {
    fn new(hint: Arc<Notify>) -> Self {
        // Any event is only a hint. The files are compared.
        let watcher = notify::recommended_watcher(move |_| hint.notify_one());
        let watcher = watcher.inspect_err(|error| {
            tracing::warn!("changes of files are found only by polling, because the system cannot report them: {error}");
        });
        Self {
            watcher: watcher.ok(),
            watched: BTreeSet::new(),
        }
    }

    /// Stops watching all folders. A folder that was replaced must be watched again.
    fn forget(&mut self) {
        for folder in std::mem::take(&mut self.watched) {
            if let Some(watcher) = &mut self.watcher {
                // A deleted folder is not watched any more.
                let _ = watcher.unwatch(&folder);
            }
        }
    }

    /// Watches the folders of these files. Returns true if other folders were watched before.
    fn watch(&mut self, files: &FileStamps) -> bool {
        let folder = |path: &Path| {
            let is_folder = path.is_dir();
            let folder = if is_folder { path } else { parent_folder(path) };
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
            // If it fails, the next poll finds changes.
            if watcher.is_some_and(|it| it.watch(&folder, RecursiveMode::NonRecursive).is_ok()) {
                self.watched.insert(folder);
            }
        }
        self.watched != before
    }
}
