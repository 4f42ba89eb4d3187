//! The purpose of this process.

use std::env;
use std::sync::LazyLock;

/// Environment variable that marks a process which tries a model.
pub(crate) const TRIAL_VARIABLE: &str = "GRAPHMILL_TRY_MODEL";

/// Returns true if this process was started to try a model.
pub(crate) fn is_trial() -> bool {
    static IS_TRIAL: LazyLock<bool> = LazyLock::new(|| env::var_os(TRIAL_VARIABLE).is_some());
    *IS_TRIAL
}
