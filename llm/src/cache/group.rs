//! Who may share cells with whom.

use std::sync::Arc;

use crate::backend::Adapter;

/// Sequences share cells only with those of the same group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ShareGroup {
    /// Other weights make other cells of the same tokens.
    pub(crate) adapter: Option<Adapter>,
    /// Clients that must not learn what others asked.
    pub(crate) salt: Arc<str>,
}
