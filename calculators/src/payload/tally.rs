//! Token counts and times of a request. Its nodes record them for the host of the session: for a
//! server's log, traces, the limits of keys, the `usage` of answers, and the times that it reports
//! to clients.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use graphmill_llm::{DraftCounts, SlotWait, Usage};
use indexmap::IndexMap;

use super::Finish;

/// Token counts and times of a request, for each node. The owner of a session puts one into its
/// [`Account`](super::Account) and reads it at the end.
#[derive(Debug, Default)]
pub struct Tally(Mutex<IndexMap<Arc<str>, TallyCounts>>);

/// The counts of a [`Tally`].
#[derive(Clone, Debug, Default)]
pub struct TallyCounts {
    /// Tokens of the prompts, each counted once.
    pub prompt: u32,
    /// Number of these that were not computed, because they were cached.
    pub cached: u32,
    /// Number of these that stand for sounds.
    pub sounds: u32,
    /// Tokens that were generated, for all choices.
    pub generated: u32,
    /// Drafted tokens; `None` if there were none.
    pub drafts: Option<DraftCounts>,
    /// When the first prompt was given to an LLM engine.
    pub submitted: Option<Instant>,
    /// When the first token came.
    pub first: Option<Instant>,
    /// Time that generations waited for a slot: the first one of each prompt until its admission,
    /// and preempted ones, as long as no other one ran meanwhile.
    pub queued: Option<Duration>,
    /// Time from the submissions to the first tokens, without these waits.
    pub prefill: Option<Duration>,
    /// Time from the first tokens to the last ones so far, without these waits.
    pub decoding: Duration,
    /// Limit to which `max_tokens` of the request was lowered.
    pub lowered: Option<u32>,
    /// Reasons why generations ended, in the order in which they ended.
    pub finishes: Vec<Finish>,
    /// A wait that is not in `queued` yet, because no output has reported it.
    pub(crate) wait: Option<OpenWait>,
}

/// A wait for a slot that no output has reported yet. It may go on, and its generation may end in
/// it.
#[derive(Clone, Debug)]
pub(crate) struct OpenWait {
    pub(crate) slot: Arc<SlotWait>,
    /// Part of the wait that outputs have reported.
    pub(crate) counted: Duration,
    /// Time of the last token, or else of the submission.
    pub(crate) since: Instant,
}

impl TallyCounts {
    /// Returns the token counts of an answer.
    pub fn usage(&self) -> Usage {
        Usage {
            prompt_tokens: self.prompt,
            cached_tokens: self.cached,
            sound_tokens: self.sounds,
            generated_tokens: self.generated,
            drafts: self.drafts,
            ..Usage::default()
        }
    }

    /// Returns the counts, including the wait that no output has reported.
    fn read(&self) -> Self {
        let mut read = self.clone();
        if let Some(wait) = read.wait.take() {
            let now = Instant::now();
            let uncounted = wait.slot.until(now).saturating_sub(wait.counted);
            *read.queued.get_or_insert_default() += uncounted.min(now - wait.since);
        }
        read
    }

    fn add(&mut self, other: &Self) {
        let earlier = |a: Option<Instant>, b: Option<Instant>| a.into_iter().chain(b).min();
        let both =
            |a: Option<Duration>, b: Option<Duration>| a.into_iter().chain(b).reduce(|a, b| a + b);
        self.prompt += other.prompt;
        self.cached += other.cached;
        self.sounds += other.sounds;
        self.generated += other.generated;
        self.draft(other.drafts);
        self.submitted = earlier(self.submitted, other.submitted);
        self.first = earlier(self.first, other.first);
        self.queued = both(self.queued, other.queued);
        self.prefill = both(self.prefill, other.prefill);
        self.decoding += other.decoding;
        self.lowered = self.lowered.or(other.lowered);
        self.finishes.extend_from_slice(&other.finishes);
    }

    /// Counts prompts with this many tokens in all, and notes the time of the first submission.
    pub(crate) fn submit(&mut self, tokens: u32) {
        self.prompt += tokens;
        self.submitted.get_or_insert_with(Instant::now);
    }

    /// Adds drafted tokens to the counts, if there were any.
    pub(crate) fn draft(&mut self, drafts: Option<DraftCounts>) {
        if let Some(drafts) = drafts {
            let sum = self.drafts.get_or_insert_default();
            sum.accepted += drafts.accepted;
            sum.rejected += drafts.rejected;
        }
    }
}

impl Tally {
    fn lock(&self) -> MutexGuard<'_, IndexMap<Arc<str>, TallyCounts>> {
        // Each change is one addition, which either happened completely or not at all.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the counts of a node.
    pub(crate) fn count(&self, node: &Arc<str>, change: impl FnOnce(&mut TallyCounts)) {
        change(self.lock().entry(Arc::clone(node)).or_default());
    }

    /// Returns the counts of a node so far.
    pub fn node_counts(&self, node: &str) -> TallyCounts {
        let nodes = self.lock();
        nodes.get(node).map(TallyCounts::read).unwrap_or_default()
    }

    /// Returns the counts of all nodes together so far.
    pub fn read(&self) -> TallyCounts {
        let mut all = TallyCounts::default();
        for counts in self.lock().values() {
            all.add(&counts.read());
        }
        all
    }
}
