//! Graphs that can be written only when their model is there.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// Time for which the error of a failed attempt is repeated without another attempt.
const PAUSE: Duration = Duration::from_secs(30);

/// Function that returns the text of a graph, or the reason why it cannot be written.
type Make = dyn Fn() -> Result<String, String> + Send + Sync;

/// Function that writes the graph of a model, after downloading or quantizing the model. It is
/// called when the graph is loaded.
#[derive(Clone)]
pub struct Maker(Arc<Inner>);

struct Inner {
    make: Box<Make>,
    made: Mutex<Option<Attempt>>,
}

/// Outcome of the last attempt.
type Attempt = Result<Arc<str>, (Instant, String)>;

impl Maker {
    /// Wraps a function that blocks until the model is there. It is called until it succeeds once.
    pub fn new(make: impl Fn() -> Result<String, String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner {
            make: Box::new(make),
            made: Mutex::default(),
        }))
    }

    /// Returns the text of the graph. Blocks until the model is there.
    pub(crate) fn graph(&self) -> Result<Arc<str>, String> {
        let mut made = self.0.made.lock();
        match &*made {
            Some(Ok(text)) => return Ok(Arc::clone(text)),
            Some(Err((when, why))) if when.elapsed() < PAUSE => return Err(why.clone()),
            _ => {}
        }
        let text = (self.0.make)().map(Arc::from);
        *made = Some(text.clone().map_err(|why| (Instant::now(), why)));
        text
    }
}

impl fmt::Debug for Maker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Maker")
    }
}

impl PartialEq for Maker {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Maker {}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn what_was_made_is_kept_and_what_failed_is_not_tried_again_at_once() {
        for succeeds in [true, false] {
            let calls = Arc::<AtomicU32>::default();
            let counted = Arc::clone(&calls);
            let maker = Maker::new(move || {
                counted.fetch_add(1, Ordering::SeqCst);
                succeeds
                    .then(|| "graph".to_owned())
                    .ok_or_else(|| "why".to_owned())
            });
            for _ in 0..3 {
                let expected = succeeds
                    .then(|| "graph".into())
                    .ok_or_else(|| "why".to_owned());
                assert_eq!(maker.graph(), expected);
            }
            assert_eq!(calls.load(Ordering::SeqCst), 1);
        }
    }
}
