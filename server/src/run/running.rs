//! The requests that are being answered, by their ids, so that they can be cancelled.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use graphmill_engine::CancelToken;

use crate::observe::request_id::Id;

/// The running requests, as many as there are sessions. Ids are the clients' own, so several requests
/// can have the same.
#[derive(Default)]
pub(crate) struct Running {
    by_id: Mutex<HashMap<Arc<str>, Vec<Request>>>,
}

struct Request {
    number: u64,
    /// True if its id is known only to the holder of its key, or from its answer.
    is_secret: bool,
    /// The name of its key, where there are keys.
    key: Option<Arc<str>>,
    cancel: CancelToken,
}

impl Running {
    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Vec<Request>>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists a request until the entry is dropped.
    pub(crate) fn list(
        self: &Arc<Self>,
        id: &Id,
        key: Option<Arc<str>>,
        cancel: CancelToken,
    ) -> Listing {
        let mut by_id = self.lock();
        let of_id = by_id.entry(Arc::clone(&id.text)).or_default();
        let number = of_id.last().map_or(0, |last| last.number + 1);
        of_id.push(Request {
            number,
            is_secret: key.is_some() || id.is_ours,
            key,
            cancel,
        });
        Listing {
            running: Arc::clone(self),
            id: Arc::clone(&id.text),
            number,
        }
    }

    /// Cancels all requests of an id and a key. Where there are no keys, an id that a client has
    /// chosen does not do: another one could guess it. Says whether there is one.
    pub(crate) fn cancel(&self, id: &str, key: Option<&str>) -> bool {
        self.cancel_those(id, |it| it.is_secret && it.key.as_deref() == key)
    }

    /// The same, for requests of any key.
    pub(crate) fn cancel_of_any_key(&self, id: &str) -> bool {
        self.cancel_those(id, |_| true)
    }

    fn cancel_those(&self, id: &str, are_meant: impl Fn(&Request) -> bool) -> bool {
        let by_id = self.lock();
        let of_id = by_id.get(id).into_iter().flatten();
        let meant = of_id.filter(|request| are_meant(request));
        let tokens: Vec<CancelToken> = meant.map(|request| request.cancel.clone()).collect();
        drop(by_id);
        tokens.iter().for_each(CancelToken::cancel);
        !tokens.is_empty()
    }
}

/// The entry of a request.
pub(crate) struct Listing {
    running: Arc<Running>,
    id: Arc<str>,
    number: u64,
}

impl Drop for Listing {
    fn drop(&mut self) {
        let mut by_id = self.running.lock();
        if let Some(of_id) = by_id.get_mut(&self.id) {
            of_id.retain(|request| request.number != self.number);
            if of_id.is_empty() {
                by_id.remove(&self.id);
            }
        }
    }
}
