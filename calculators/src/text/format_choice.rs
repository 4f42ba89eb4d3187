//! What an option of a node says about a format.

/// The value of an option such as `tool_parser`.
pub(crate) enum FormatChoice<F> {
    /// Empty: whoever is asked next decides.
    Open,
    /// `none`: the text stays as it is.
    None,
    /// This one.
    Format(F),
}

impl<F> FormatChoice<F> {
    /// The format, or the one that `decide` gives where the option leaves it open.
    pub(crate) fn or_else(self, decide: impl FnOnce() -> Option<F>) -> Option<F> {
        match self {
            Self::Open => decide(),
            Self::None => None,
            Self::Format(format) => Some(format),
        }
    }
}
