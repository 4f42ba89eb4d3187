//! The audit log: management operations, who requested them, and their results.

use super::log;

/// A management operation that was attempted.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Audit<'a> {
    /// Kind of operation: `administer`, `cancel`, `edit`, `load`, `record`, `reload`, `scale`,
    /// `set`, `set default`, `stop`, `tap`, `try` or `unload`.
    pub(crate) action: &'a str,
    /// Name of the key or the operator, never a key itself; `None` if the server cannot know it.
    pub(crate) actor: Option<&'a str>,
    /// Subject: the server, a request or a path.
    pub(crate) subject: &'a str,
    /// Result: `done`, `refused` or `failed`.
    pub(crate) outcome: &'a str,
    /// Reason of the result, unless it is obvious.
    pub(crate) reason: Option<&'a str>,
}

/// Writes a line with the target `audit`, which is logged at every level.
pub(crate) fn audit(audit: &Audit<'_>) {
    tracing::info!(
        target: "audit",
        audit = audit.action,
        actor = audit.actor,
        subject = audit.subject,
        outcome = audit.outcome,
        reason = audit.reason,
        "{} of {}: {}",
        audit.action,
        log::escaped(audit.subject),
        audit.outcome
    );
}
