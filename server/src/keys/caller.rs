//! The key of one request: what the request may do, and what it has taken of the key's limits, to
//! be given back when the request has ended.

use std::{
    mem::take,
    sync::{Arc, Mutex, OnceLock, PoisonError, atomic::Ordering::Relaxed},
    time::Duration,
};

use graphmill_calculators::payload::{Need, Quota, Tally, Terms};
use graphmill_engine::{Error, Result};
use graphmill_llm::Tenant;

use super::{bucket::Lack, key::Key, usage};
use crate::metrics::KeyCounts;

/// The name of a request's key, in the extensions of its answer.
#[derive(Clone, Debug)]
pub(crate) struct Label(pub(crate) Arc<str>);

/// Whose request it is. What it has taken is given back at the end of its answer, and what its
/// session does after that is counted when this is dropped.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(super) key: Arc<Key>,
    /// Whether requests of other keys compete with it.
    competes: bool,
    held: Mutex<Held>,
    tally: OnceLock<Arc<Tally>>,
    counts: KeyCounts,
}

/// What a request has taken.
#[derive(Debug, Default)]
struct Held {
    tokens: u64,
    sequences: u32,
    /// Of what waits: this request, and the tokens of its prompts.
    queued: (u64, u64),
    /// Tokens of prompts and generated ones that were settled.
    settled: (u32, u32),
    /// When to ask again, if it was refused.
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

    /// The name of its key.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.key.entry.name
    }

    /// The name of its key, where requests of other keys compete with it.
    pub(crate) fn rival(&self) -> Option<&Arc<str>> {
        self.competes.then(|| self.name())
    }

    /// Whether its key is for changing the server, and for requests of others.
    pub(crate) fn administers(&self) -> bool {
        self.key.entry.administers()
    }

    /// Says where the tokens of the request are counted.
    pub(crate) fn is_tallied(&self, tally: Arc<Tally>) {
        self.tally.get_or_init(|| tally);
    }

    /// Whether it may use a graph, or an adapter of it.
    pub(crate) fn sees(&self, graph: &str, adapter: Option<&str>) -> bool {
        match adapter {
            None => self.key.entry.may_use(graph),
            Some(adapter) => self.key.entry.may_use(&format!("{graph}:{adapter}")),
        }
    }

    /// Counts a request for a graph that the key is not for. Its answer is that of a graph that does
    /// not exist.
    pub(crate) fn model_refused(&self) {
        self.counts.refused(&self.key.label, "model");
    }

    /// Its key among others, where requests of other keys compete with it.
    pub(crate) fn tenant(&self) -> Option<Tenant> {
        self.competes.then_some(Tenant {
            number: self.key.usage.number,
            weight: self.key.entry.weight,
            places: 1,
        })
    }

    /// What nodes have to know of the key.
    pub(crate) fn terms(self: &Arc<Self>) -> Terms {
        let entry = &self.key.entry;
        Terms {
            max_priority: entry.max_priority,
            cache_salt: Arc::clone(&entry.salt),
            quota: Arc::clone(self) as Arc<dyn Quota>,
        }
    }

    /// When to ask again, if a limit of the key was the reason to refuse.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.held().retry_after
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_sequences(&self, sequences: u32, n: u32) -> Result<()> {
        let Some(most) = self.key.entry.max_concurrent_sequences else {
            return Ok(());
        };
        let name = self.name();
        if sequences > most.get() {
            self.counts.refused(&self.key.label, "sequences");
            let message = format!(
                "the request is for {sequences} sequences, and the key `{name}` may have {most} at once"
            );
            let error = Error::invalid(message).with_code("too_many_sequences");
            // With one choice for each, it is the prompts that are too many.
            return Err(if n > 1 { error.with_field("n") } else { error });
        }
        let fits = |taken: u32| {
            taken
                .checked_add(sequences)
                .filter(|taken| *taken <= most.get())
        };
        let counter = &self.key.usage.sequences;
        if counter.fetch_update(Relaxed, Relaxed, fits).is_err() {
            self.counts.refused(&self.key.label, "sequences");
            self.held().retry_after = Some(Duration::from_secs(1));
            let message =
                format!("the key `{name}` has as many sequences as it may at once: {most}");
            return Err(exceeded(message));
        }
        self.held().sequences += sequences;
        Ok(())
    }

    /// Counts the tokens of prompts that wait.
    fn queue_tokens(&self, tokens: u64) -> Result<()> {
        let most = self.key.entry.max_queued_prompt_tokens;
        let queued = &self.key.usage.queued;
        usage::add(&queued.prompt_tokens, tokens, most, true).map_err(|waiting| {
            let name = self.name();
            self.counts.refused(&self.key.label, "queued_tokens");
            exceeded(format!(
                "prompts of {waiting} tokens of the key `{name}` are waiting, and {tokens} more are too many (max_queued_prompt_tokens)"
            ))
        })?;
        self.held().queued.1 += tokens;
        self.counts.queued(&self.key.label, 0, tokens as i64);
        Ok(())
    }

    fn take_tokens(&self, tokens: u64) -> Result<()> {
        let Some(bucket) = &self.key.usage.tokens else {
            return Ok(());
        };
        let (name, most) = (self.name(), bucket.per_minute());
        match bucket.take(tokens) {
            Ok(()) => {
                self.held().tokens += tokens;
                Ok(())
            }
            Err(Lack::Never) => {
                self.counts.refused(&self.key.label, "tokens");
                let message = format!(
                    "the prompt and `max_tokens` are {tokens} tokens, and the key `{name}` may have {most} a minute"
                );
                Err(Error::invalid(message).with_code("tokens_per_minute_exceeded"))
            }
            Err(Lack::For(wait)) => {
                self.counts.refused(&self.key.label, "tokens");
                self.held().retry_after = Some(wait);
                let message =
                    format!("the key `{name}` has no {tokens} tokens left of its {most} a minute");
                Err(exceeded(message))
            }
        }
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
            self.counts.refused(&self.key.label, "queued_requests");
            exceeded(format!(
                "{waiting} requests of the key `{}` are waiting, as many as may (max_queued_requests)",
                self.name()
            ))
        })?;
        self.held().queued.0 += 1;
        self.counts.queued(&self.key.label, 1, 0);
        Ok(())
    }

    fn admitted(&self) {
        let (requests, tokens) = take(&mut self.held().queued);
        let queued = &self.key.usage.queued;
        queued.requests.fetch_sub(requests, Relaxed);
        queued.prompt_tokens.fetch_sub(tokens, Relaxed);
        self.counts
            .queued(&self.key.label, -(requests as i64), -(tokens as i64));
    }

    fn reserve(&self, need: &Need) -> Result<()> {
        self.queue_tokens(need.prompt_tokens)?;
        self.take_sequences(need.sequences, need.n)?;
        self.take_tokens(need.prompt_tokens + need.generated_tokens.unwrap_or(0))
    }
}

impl Caller {
    fn settle(&self) {
        self.admitted();
        let mut held = self.held();
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

impl Drop for Caller {
    fn drop(&mut self) {
        self.settle();
    }
}

/// Settles a request's account when it is dropped, at the end of the answer.
#[derive(Debug)]
pub(crate) struct Settlement(pub(crate) Arc<Caller>);

impl Drop for Settlement {
    fn drop(&mut self) {
        self.0.settle();
    }
}
