//! What a request took, counted by the nodes that know, for whoever runs the session: a server's
//! log.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// Tokens of a request, and when the first one came. Who runs a session puts one into its
/// [`Account`](super::Account) and reads it at the end.
#[derive(Debug, Default)]
pub struct Tally {
    // Independent counts for display, hence `Relaxed` throughout.
    prompt: AtomicU32,
    cached: AtomicU32,
    generated: AtomicU32,
    first: OnceLock<Instant>,
}

/// The counts of a [`Tally`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tallied {
    /// Tokens of the prompts, each counted once.
    pub prompt: u32,
    /// Of these, those that were not computed.
    pub cached: u32,
    /// Tokens that were generated.
    pub generated: u32,
    /// When the first of them came.
    pub first: Option<Instant>,
}

impl Tally {
    /// A prompt, or a text to embed, was given to an engine.
    pub(crate) fn prompt(&self, tokens: usize) {
        self.prompt.fetch_add(tokens as u32, Ordering::Relaxed);
    }

    /// Tokens of a prompt were reused instead of computed.
    pub(crate) fn cached(&self, tokens: u32) {
        self.cached.fetch_add(tokens, Ordering::Relaxed);
    }

    /// Tokens were generated.
    pub(crate) fn generated(&self, tokens: u32) {
        self.generated.fetch_add(tokens, Ordering::Relaxed);
        if tokens > 0 && self.first.get().is_none() {
            self.first.get_or_init(Instant::now);
        }
    }

    /// The counts so far.
    pub fn read(&self) -> Tallied {
        let number = |count: &AtomicU32| count.load(Ordering::Relaxed);
        Tallied {
            prompt: number(&self.prompt),
            cached: number(&self.cached),
            generated: number(&self.generated),
            first: self.first.get().copied(),
        }
    }
}
