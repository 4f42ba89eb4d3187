//! The requests that are being answered, by their ids, so that they can be cancelled.

use std::{
    collections::BTreeMap,
    ops::RangeBounds,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use graphmill_engine::CancelToken;

use crate::observe::request_id::Id;

/// The id of a request, and its number among those with the same: ids are the clients' own.
type Place = (Arc<str>, u64);

/// The running requests, as many as there are sessions.
#[derive(Default)]
pub(crate) struct Running(Mutex<BTreeMap<Place, Request>>);

struct Request {
    /// True if its id is known only to the holder of its key, or from its answer.
    is_secret: bool,
    /// The name of its key, where there are keys.
    key: Option<Arc<str>>,
    cancel: CancelToken,
}

impl Running {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Place, Request>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists a request until the entry is dropped.
    pub(crate) fn list(
        self: &Arc<Self>,
        id: &Id,
        key: Option<Arc<str>>,
        cancel: CancelToken,
    ) -> Listing {
        let mut all = self.lock();
        let last = all.range(places(&id.text)).next_back();
        let number = last.map_or(0, |((_, last), _)| last + 1);
        let place = (Arc::clone(&id.text), number);
        let request = Request {
            is_secret: key.is_some() || id.is_ours,
            key,
            cancel,
        };
        all.insert(place.clone(), request);
        Listing {
            running: Arc::clone(self),
            place,
        }
    }

    /// The number of requests that are being answered.
    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    /// Cancels all requests of an id and a key, or of any key. Where there are no keys, an id that
    /// a client has chosen does not do: another one could guess it. Returns true if there is one.
    pub(crate) fn cancel(&self, id: &str, key: Option<&str>, of_any_key: bool) -> bool {
        let all = self.lock();
        let of_id = all.range(places(&id.into())).map(|(_, request)| request);
        let meant = of_id.filter(|it| of_any_key || (it.is_secret && it.key.as_deref() == key));
        let tokens: Vec<CancelToken> = meant.map(|request| request.cancel.clone()).collect();
        drop(all);
        tokens.iter().for_each(CancelToken::cancel);
        !tokens.is_empty()
    }
}

/// The places of requests with an id.
fn places(id: &Arc<str>) -> impl RangeBounds<Place> + use<> {
    (Arc::clone(id), 0)..=(Arc::clone(id), u64::MAX)
}

/// The entry of a request.
pub(crate) struct Listing {
    running: Arc<Running>,
    place: Place,
}

impl Drop for Listing {
    fn drop(&mut self) {
        self.running.lock().remove(&self.place);
    }
}
