//! The account of a request, which accompanies it through a graph: its tenant, limits and counts.
//! The host of the session sets it.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use graphmill_engine::{Result, RunCx};
use graphmill_llm::Tenant;

use super::Tally;
use crate::llm::RecordedTokens;

/// The account that a server puts into [`RunCx::extension`].
#[derive(Debug, Default)]
pub struct Account {
    /// When the request arrived; `None` if it did not come over a network.
    pub received: Option<Instant>,
    /// Counts of the request's tokens.
    pub tally: Arc<Tally>,
    /// Tenant of the request; `None` where nobody competes with it.
    pub tenant: Option<Tenant>,
    /// Terms of the sender's key; `None` where there are no keys.
    pub terms: Option<Terms>,
    /// True if requests may bring chat templates of their own.
    pub trusts_templates: bool,
    /// Tokens that language models generated in an earlier run, or generate in this one.
    pub recorded: Option<RecordedTokens>,
    /// Priority level of the request in nodes that batch tensors: 1 is the first, 0 is not set.
    /// Language models take `priority` of a request's body instead.
    pub batch_priority: u32,
}

/// Terms of a key: what it allows and demands.
#[derive(Clone, Debug)]
pub struct Terms {
    /// Highest priority that a request may have; `None` is no limit.
    pub max_priority: Option<i32>,
    /// Salt of the key. Only requests with the same salt share what was computed. A salt in the
    /// request is added to it.
    pub cache_salt: Arc<str>,
    /// Remaining limits of the key.
    pub quota: Arc<dyn Quota>,
}

/// Upper bounds of the tokens and choices of a request that generates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GenerationBounds {
    /// Tokens of all its prompts together.
    pub prompt_tokens: u64,
    /// Maximum number of tokens of all its choices; `None` if the request sets no limit.
    pub generated_tokens: Option<u64>,
    /// Number of its choices, for all prompts.
    pub sequences: u32,
    /// Number of its choices for each prompt.
    pub n: u32,
}

/// The limits of a key.
pub trait Quota: fmt::Debug + Send + Sync {
    /// Counts a request that generates as waiting, before its prompt is made.
    ///
    /// # Errors
    /// Too many of the key's requests wait.
    fn enqueue(&self) -> Result<()>;

    /// Reserves the needs of a request until it has ended. Its prompts count as waiting from now
    /// on.
    ///
    /// # Errors
    /// The key's limits do not allow so much, or not now.
    fn reserve(&self, need: &GenerationBounds) -> Result<()>;

    /// Records that the request has begun to generate, and no longer waits.
    fn admitted(&self);
}

impl Account {
    /// Returns the account of a session, if its host has set one.
    pub(crate) fn find(run: &RunCx) -> Option<&Self> {
        run.extension.as_deref()?.downcast_ref()
    }
}

/// Returns the priority level of a session in nodes that batch tensors; 0 if its request sets none.
pub(crate) fn batch_priority_of(run: &RunCx) -> u32 {
    Account::find(run).map_or(0, |account| account.batch_priority)
}

impl Tally {
    /// Returns the tally of a session, if its host has set one.
    pub(crate) fn find(run: &RunCx) -> Option<&Self> {
        Some(&Account::find(run)?.tally)
    }
}

impl Terms {
    /// Returns the terms of a session, if it has any.
    pub(crate) fn find(run: &RunCx) -> Option<&Self> {
        Account::find(run)?.terms.as_ref()
    }
}
