//! The audit log: management operations, who requested them, and their results.

/// A management operation that was done, or refused.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Audit<'a> {
    /// What was wanted: `administer`, `cancel`, `edit`, `load`, `record`, `reload`, `scale`, `set`,
    /// `set default`, `stop`, `tap`, `try` or `unload`.
    pub(crate) action: &'a str,
    /// The name of the key or the operator; never a key itself. None where the server cannot know.
    pub(crate) actor: Option<&'a str>,
    /// What it is about: the server, a request, a path.
    pub(crate) subject: &'a str,
    /// `done`, `refused` or `failed`.
    pub(crate) outcome: &'a str,
    /// Why, where that is not plain.
    pub(crate) reason: Option<&'a str>,
}

/// Writes a line with the target `audit`, which is logged whatever the level.
pub(crate) fn audit(audit: &Audit<'_>) {
    let Audit {
        action,
        actor,
        subject,
        outcome,
        reason,
    } = *audit;
    tracing::info!(
        target: "audit",
        audit = action,
        actor,
        subject,
        outcome,
        reason,
        "{action} of {subject}: {outcome}"
    );
}
