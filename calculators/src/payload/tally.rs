//! Token counts and times of a request, recorded by its nodes for the host of the session: for a
//! server's log, traces, and the times that it reports to clients.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::Finish;

/// Tokens of a request, and when they came. Who runs a session puts one into its
/// [`Account`](super::Account) and reads it at the end.
#[derive(Debug, Default)]
pub struct Tally {
    // Independent counts for display, hence `Relaxed` throughout.
    prompt: AtomicU32,
    cached: AtomicU32,
    generated: AtomicU32,
    submitted: OnceLock<Instant>,
    queued: OnceLock<Duration>,
    first: OnceLock<Instant>,
    /// Microseconds from the first token to the last one so far.
    decoding: AtomicU64,
    finishes: Mutex<Vec<Finish>>,
}

/// The counts of a [`Tally`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tallied {
    /// Tokens of the prompts, each counted once.
    pub prompt: u32,
    /// Of these, those that were not computed.
    pub cached: u32,
    /// Tokens that were generated.
    pub generated: u32,
    /// When the prompts were given to the LLM engine.
    pub submitted: Option<Instant>,
    /// How long the generation that was the first to be admitted had waited for that.
    pub queued: Option<Duration>,
    /// When the first token came.
    pub first: Option<Instant>,
    /// From then to the last token so far.
    pub decoding: Duration,
    /// Why generations ended, in that order.
    pub finishes: Vec<Finish>,
}

impl Tallied {
    /// From the admission of the first generation to the first token.
    pub fn prefill(&self) -> Option<Duration> {
        let waited = self.first?.duration_since(self.submitted?);
        Some(waited.saturating_sub(self.queued?))
    }
}

impl Tally {
    /// A prompt, or a text to embed, was given to an engine.
    pub(crate) fn prompt(&self, tokens: usize) {
        self.prompt.fetch_add(tokens as u32, Ordering::Relaxed);
    }

    /// Prompts are given to an LLM engine now.
    pub(crate) fn submitted(&self) {
        self.submitted.get_or_init(Instant::now);
    }

    /// A generation has its first output; it had waited this long to be admitted.
    pub(crate) fn admitted(&self, queued: Duration) {
        self.queued.get_or_init(|| queued);
    }

    /// Tokens of a prompt were reused instead of computed.
    pub(crate) fn cached(&self, tokens: u32) {
        self.cached.fetch_add(tokens, Ordering::Relaxed);
    }

    /// Tokens were generated.
    pub(crate) fn generated(&self, tokens: u32) {
        self.generated.fetch_add(tokens, Ordering::Relaxed);
        if tokens > 0 {
            let now = Instant::now();
            let first = *self.first.get_or_init(|| now);
            let decoding = now.duration_since(first).as_micros() as u64;
            self.decoding.fetch_max(decoding, Ordering::Relaxed);
        }
    }

    /// A generation ended.
    pub(crate) fn finished(&self, finish: Finish) {
        let mut finishes = self.finishes.lock().unwrap_or_else(PoisonError::into_inner);
        finishes.push(finish);
    }

    /// The counts so far.
    pub fn read(&self) -> Tallied {
        let number = |count: &AtomicU32| count.load(Ordering::Relaxed);
        let finishes = self.finishes.lock().unwrap_or_else(PoisonError::into_inner);
        Tallied {
            prompt: number(&self.prompt),
            cached: number(&self.cached),
            generated: number(&self.generated),
            submitted: self.submitted.get().copied(),
            queued: self.queued.get().copied(),
            first: self.first.get().copied(),
            decoding: Duration::from_micros(self.decoding.load(Ordering::Relaxed)),
            finishes: finishes.clone(),
        }
    }
}
