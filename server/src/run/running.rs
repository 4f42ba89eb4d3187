//! The list of running requests by id, for cancelling them.

use std::{collections::BTreeMap, ops::RangeBounds, sync::Arc};

use graphmill_engine::CancelToken;
use parking_lot::Mutex;

use crate::telemetry::request_id::Id;

/// Id of a request, and its number among those with the same id, as clients choose ids.
type RunKey = (Arc<str>, u64);

/// Running requests, one for each session.
#[derive(Default)]
pub(crate) struct Running(Mutex<BTreeMap<RunKey, Request>>);

struct Request {
    /// True if knowing the id is enough to cancel: it was generated, or the request has a key.
    is_secret: bool,
    /// Name of the key; `None` without keys.
    key: Option<Arc<str>>,
    cancel: CancelToken,
}

impl Running {
    /// Adds a request to the list until the result is dropped.
    pub(crate) fn list(
        self: &Arc<Self>,
        id: &Id,
        key: Option<Arc<str>>,
        cancel: CancelToken,
    ) -> RequestGuard {
        let mut all = self.0.lock();
        let last = all.range(places(&id.text)).next_back();
        let number = last.map_or(0, |((_, last), _)| last + 1);
        let place = (Arc::clone(&id.text), number);
        let request = Request {
            is_secret: key.is_some() || id.is_ours,
            key,
            cancel,
        };
        all.insert(place.clone(), request);
        RequestGuard {
            running: Arc::clone(self),
            place,
        }
    }

    /// Returns the number of running requests.
    pub(crate) fn count(&self) -> usize {
        self.0.lock().len()
    }

    /// Cancels all requests with an id, of a key or of any key. Without keys, an id that a client
    /// has chosen is ignored, because other clients could guess it. Returns true if a request was
    /// cancelled.
    pub(crate) fn cancel(&self, id: &str, key: Option<&str>, of_any_key: bool) -> bool {
        let all = self.0.lock();
        let of_id = all.range(places(&id.into())).map(|(_, request)| request);
        let meant = of_id.filter(|it| of_any_key || (it.is_secret && it.key.as_deref() == key));
        let tokens: Vec<CancelToken> = meant.map(|request| request.cancel.clone()).collect();
        drop(all);
        tokens.iter().for_each(CancelToken::cancel);
        !tokens.is_empty()
    }
}

/// Returns the range of list keys with an id.
fn places(id: &Arc<str>) -> impl RangeBounds<RunKey> + use<> {
    (Arc::clone(id), 0)..=(Arc::clone(id), u64::MAX)
}

/// Guard that removes a request from the list on drop.
pub(crate) struct RequestGuard {
    running: Arc<Running>,
    place: RunKey,
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.running.0.lock().remove(&self.place);
    }
}
