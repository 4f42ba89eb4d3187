//! What a model is for.

/// What can be done with a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelKind {
    /// It continues texts.
    Generates,
    /// It makes vectors of texts.
    Embeds,
    /// It scores texts beside a query.
    Ranks,
}
