//! The key of one request: the request's permissions, and the share of the key's limits that it
//! holds until its end.

use std::{
    mem::take,
    num::NonZeroU32,
    sync::{Arc, OnceLock, atomic::Ordering::Relaxed},
    time::Duration,
};

use graphmill_calculators::payload::{GenerationBounds, Quota, Tally, Terms};
use graphmill_engine::{Error, Result};
use graphmill_llm::Tenant;
use parking_lot::Mutex;

use super::{key::Key, usage};
use crate::metrics::KeyCounts;

/// Name of a request's key, as an extension of its answer.
#[derive(Clone, Debug)]
pub(crate) struct KeyName(pub(crate) Arc<str>);

/// The key of a request and the limits that it holds. They are released at the end of its answer.
/// Tokens that its session uses later are counted on drop.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(super) key: Arc<Key>,
    /// True if requests of other keys compete with it.
    competes: bool,
    held: Mutex<LimitShare>,
    tally: OnceLock<Arc<Tally>>,
    counts: KeyCounts,
}

/// The share of the key's limits that a request holds.
#[derive(Debug, Default)]
struct LimitShare {
    tokens: u64,
    sequences: u32,
    /// Waiting requests (0 or 1), and waiting prompt tokens.
    queued: (u64, u64),
    /// Prompt tokens and generated tokens that were settled.
    settled: (u32, u32),
    /// Time to retry after, if a limit refused it.
    retry_after: Option<Duration>,
}

impl Caller {
    pub(super) fn new(key: Arc<Key>, competes: bool, counts: KeyCounts) -> Self {
        Self {
            key,
            competes,
            held: Mutex::default(),
            tally: OnceLock::new(),
            counts,
        }
    }

    /// Returns the name of the key.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.key.entry.name
    }

    /// Returns the name of the key, if requests of other keys compete with it.
    pub(crate) fn rival(&self) -> Option<&Arc<str>> {
        self.competes.then(|| self.name())
    }

    /// Returns true if the key has admin scope: changes of the server, and access to requests of
    /// other keys.
    pub(crate) fn administers(&self) -> bool {
        self.key.entry.administers()
    }

    /// Sets the tally of the request's tokens.
    pub(crate) fn set_tally(&self, tally: Arc<Tally>) {
        self.tally.get_or_init(|| tally);
    }

    /// Returns true if the key allows a graph, or an adapter of it.
    pub(crate) fn sees(&self, graph: &str, adapter: Option<&str>) -> bool {
        match adapter {
            None => self.key.entry.may_use(graph),
            Some(adapter) => self.key.entry.may_use(&format!("{graph}:{adapter}")),
        }
    }

    /// Counts a request for a graph that the key does not allow. Its answer is the same as for an
    /// unknown graph.
    pub(crate) fn model_refused(&self) {
        self.counts.refused(&self.key.label, "model");
    }

    /// Returns the key's identity for fair scheduling, if requests of other keys compete with it.
    pub(crate) fn tenant(&self) -> Option<Tenant> {
        self.competes.then_some(Tenant {
            number: self.key.usage.number,
            weight: self.key.entry.weight,
            places: 1,
        })
    }

    /// Returns the key's settings that nodes apply.
    pub(crate) fn terms(self: &Arc<Self>) -> Terms {
        let entry = &self.key.entry;
        Terms {
            max_priority: entry.max_priority,
            cache_salt: Arc::clone(&entry.salt),
            quota: Arc::clone(self) as Arc<dyn Quota>,
        }
    }

    /// Returns the time to retry after, if a limit of the key refused the request.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.held.lock().retry_after
    }

    fn take_sequences(&self, sequences: u32, n: u32) -> Result<()> {
        let Some(most) = self.key.entry.max_concurrent_sequences.map(NonZeroU32::get) else {
            return Ok(());
        };
        let name = self.name();
        if sequences > most {
            self.counts.refused(&self.key.label, "sequences");
            let message = format!(
                "the request needs {sequences} sequences, but the key `{name}` may have at most {most} at once"
            );
            let error = Error::invalid(message).with_code("too_many_sequences");
            // With `n` of 1, the prompts are too many, not the choices.
            return Err(if n > 1 { error.with_field("n") } else { error });
        }
        let fits = |taken: u32| taken.checked_add(sequences).filter(|sum| *sum <= most);
        let counter = &self.key.usage.sequences;
        if counter.fetch_update(Relaxed, Relaxed, fits).is_err() {
            self.counts.refused(&self.key.label, "sequences");
            self.held.lock().retry_after = Some(Duration::from_secs(1));
            let message =
                format!("the key `{name}` has reached its limit of {most} sequences at once");
            return Err(exceeded(message));
        }
        self.held.lock().sequences += sequences;
        Ok(())
    }

    /// Counts the tokens of waiting prompts.
    fn queue_tokens(&self, tokens: u64) -> Result<()> {
        let most = self.key.entry.max_queued_prompt_tokens;
        let queued = &self.key.usage.queued;
        usage::add(&queued.prompt_tokens, tokens, most, true).map_err(|waiting| {
            let name = self.name();
            self.counts.refused(&self.key.label, "queued_tokens");
            exceeded(format!(
                "the key `{name}` has {waiting} prompt tokens waiting, and {tokens} more exceed its limit (max_queued_prompt_tokens)"
            ))
        })?;
        self.held.lock().queued.1 += tokens;
        self.counts.queued(&self.key.label, 0, tokens as i64);
        Ok(())
    }

    fn take_tokens(&self, tokens: u64) -> Result<()> {
        let Some(bucket) = &self.key.usage.tokens else {
            return Ok(());
        };
        let (name, most) = (self.name(), bucket.per_minute());
        let Err(wait) = bucket.take(tokens) else {
            self.held.lock().tokens += tokens;
            return Ok(());
        };
        self.counts.refused(&self.key.label, "tokens");
        if tokens > u64::from(most.get()) {
            let message = format!(
                "the prompt and `max_tokens` need {tokens} tokens, but the key `{name}` may use at most {most} per minute"
            );
            return Err(Error::invalid(message).with_code("tokens_per_minute_exceeded"));
        }
        self.held.lock().retry_after = Some(wait);
        let message =
            format!("the key `{name}` does not have {tokens} tokens left of its {most} per minute");
        Err(exceeded(message))
    }

    fn settle(&self) {
        self.admitted();
        let mut held = self.held.lock();
        let tally = self.tally.get().map(|tally| tally.read());
        let tally = tally.unwrap_or_default();
        let (prompt, generated) = held.settled;
        let (prompt, generated) = (tally.prompt - prompt, tally.generated - generated);
        held.settled = (tally.prompt, tally.generated);
        let (tokens, sequences) = (take(&mut held.tokens), take(&mut held.sequences));
        drop(held);
        let usage = &self.key.usage;
        usage.sequences.fetch_sub(sequences, Relaxed);
        if let Some(bucket) = &usage.tokens {
            bucket.settle(tokens, u64::from(prompt) + u64::from(generated));
        }
        self.counts.used(&self.key.label, prompt, generated);
    }
}

fn exceeded(message: String) -> Error {
    Error::exhausted(message).with_code("rate_limit_exceeded")
}

impl Quota for Caller {
    fn enqueue(&self) -> Result<()> {
        let most = self.key.entry.max_queued_requests;
        let queued = &self.key.usage.queued;
        usage::add(&queued.requests, 1, most, false).map_err(|waiting| {
            let name = self.name();
            self.counts.refused(&self.key.label, "queued_requests");
            exceeded(format!(
                "{waiting} requests of the key `{name}` are waiting, which is its limit (max_queued_requests)"
            ))
        })?;
        self.held.lock().queued.0 += 1;
        self.counts.queued(&self.key.label, 1, 0);
        Ok(())
    }

    fn admitted(&self) {
        let (requests, tokens) = take(&mut self.held.lock().queued);
        let queued = &self.key.usage.queued;
        queued.requests.fetch_sub(requests, Relaxed);
        queued.prompt_tokens.fetch_sub(tokens, Relaxed);
        self.counts
            .queued(&self.key.label, -(requests as i64), -(tokens as i64));
    }

    fn reserve(&self, need: &GenerationBounds) -> Result<()> {
        self.queue_tokens(need.prompt_tokens)?;
        self.take_sequences(need.sequences, need.n)?;
        self.take_tokens(need.prompt_tokens + need.generated_tokens.unwrap_or(0))
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.settle();
    }
}

/// Releases the limits that a request holds on drop, at the end of the answer.
#[derive(Debug)]
pub(crate) struct Settlement(pub(crate) Arc<Caller>);

impl Drop for Settlement {
    fn drop(&mut self) {
        self.0.settle();
    }
}
