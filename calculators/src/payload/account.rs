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
    /// When the request came; none where it came by no network.
    pub received: Option<Instant>,
    /// Counts of the request's tokens.
    pub tally: Arc<Tally>,
    /// Tenant of the request; `None` where nobody competes with it.
    pub tenant: Option<Tenant>,
    /// Terms of the sender's key; none where there are no keys.
    pub terms: Option<Terms>,
    /// True if requests may bring chat templates of their own.
    pub trusts_templates: bool,
    /// Tokens that language models generated in an earlier run, and generate in this one.
    pub recorded: Option<RecordedTokens>,
    /// The priority level of the request where nodes batch tensors, 1 for the first; 0 if it names
    /// none. Language models take `priority` of a request's body instead.
    pub batch_priority: u32,
}

/// Terms of a key: what it allows and demands.
#[derive(Clone, Debug)]
pub struct Terms {
    /// The highest priority it may have.
    pub max_priority: Option<i32>,
    /// The salt: what was computed is shared only among requests of the same one. One that a request
    /// names comes on top.
    pub cache_salt: Arc<str>,
    /// The rest that the key has left.
    pub quota: Arc<dyn Quota>,
}

/// The most that a request that generates may need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Tokens of its prompts.
    pub prompt_tokens: u64,
    /// Most tokens of all its choices, as far as it says.
    pub generated_tokens: Option<u64>,
    /// Its choices, for all prompts.
    pub sequences: u32,
    /// Its choices for each prompt.
    pub n: u32,
}

/// The limits of a key.
pub trait Quota: fmt::Debug + Send + Sync {
    /// Counts a request that generates among those that wait, before its prompt is made.
    ///
    /// # Errors
    /// That too many of them wait.
    fn enqueue(&self) -> Result<()>;

    /// Reserves what a request may need, until it has ended. Its prompts wait from now on.
    ///
    /// # Errors
    /// The reason why it may not have as much, or not now.
    fn reserve(&self, need: &Need) -> Result<()>;

    /// Says that the request has begun to generate, so that it waits no longer.
    fn admitted(&self);
}

impl Account {
    /// The account of a session, if its host has one.
    pub(crate) fn of(run: &RunCx) -> Option<&Self> {
        run.extension.as_deref()?.downcast_ref()
    }
}

/// The priority level of a session where nodes batch tensors; 0 if its request names none.
pub(crate) fn batch_priority_of(run: &RunCx) -> u32 {
    Account::of(run).map_or(0, |account| account.batch_priority)
}

impl Tally {
    /// The tally of a session, if its host wants one.
    pub(crate) fn of(run: &RunCx) -> Option<&Self> {
        Some(&Account::of(run)?.tally)
    }
}

impl Terms {
    /// The terms of a session, if it has any.
    pub(crate) fn of(run: &RunCx) -> Option<&Self> {
        Account::of(run)?.terms.as_ref()
    }
}
