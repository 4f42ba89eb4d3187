//! Looks now and then whether the files of models were changed while they are in use.

use std::{sync::Weak, time::Duration};

use crate::servable::Servables;

/// A look costs microseconds for each file.
const EVERY: Duration = Duration::from_secs(2);

/// Looks until the server is gone. The log, the status and the metrics tell what was found.
pub(crate) async fn watch(servables: Weak<Servables>) {
    loop {
        tokio::time::sleep(EVERY).await;
        let Some(servables) = servables.upgrade() else {
            return;
        };
        // A file system can take its time to answer.
        let look = move || servables.look_at_files();
        if tokio::task::spawn_blocking(look).await.is_err() {
            return; // the runtime ends
        }
    }
}
