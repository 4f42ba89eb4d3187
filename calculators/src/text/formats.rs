//! Tables of formats with names that graphs can use, and the choice that a node's option makes.

/// The formats of one kind. The first one that a chat template teaches is the template's.
pub(crate) struct Formats<F: ?Sized + 'static> {
    /// Kind of the formats, for messages.
    pub(crate) of: &'static str,
    pub(crate) all: &'static [NamedFormat<F>],
}

/// A format with a name that graphs can use.
pub(crate) struct NamedFormat<F: ?Sized + 'static> {
    /// Name of the format, followed by other names for it.
    pub(crate) names: &'static [&'static str],
    pub(crate) format: &'static F,
    /// Lists of texts in chat templates. A template that contains all texts of one list teaches the
    /// format.
    pub(crate) taught_by: &'static [&'static [&'static str]],
}

/// The value of an option such as `tool_parser`.
pub(crate) enum FormatChoice<F> {
    /// Empty: the next source in order decides.
    Open,
    /// `none`: the text stays unchanged.
    None,
    /// The format with the given name.
    Format(F),
}

impl<F: ?Sized> Formats<F> {
    /// Returns the choice for an option's value.
    ///
    /// # Errors
    /// No format has this name. The error lists the names.
    pub(crate) fn named(&self, name: &str) -> Result<FormatChoice<&'static F>, String> {
        match name {
            "" => return Ok(FormatChoice::Open),
            "none" => return Ok(FormatChoice::None),
            _ => {}
        }
        let mut all = self.all.iter();
        let found = all.find(|format| format.names.contains(&name));
        found.map(|found| FormatChoice::Format(found.format)).ok_or_else(|| {
            let known: Vec<_> = self.all.iter().map(|format| format.names[0]).collect();
            let (of, known) = (self.of, known.join(", "));
            format!("`{name}` is not a format of {of}: use {known} or none, or leave it to the chat template")
        })
    }

    /// Returns the format that a chat template teaches, if it teaches one.
    pub(crate) fn taught_by(&self, template: &str) -> Option<&'static NamedFormat<F>> {
        let has = |marks: &&[&str]| marks.iter().all(|mark| template.contains(mark));
        let mut all = self.all.iter();
        all.find(|format| format.taught_by.iter().any(has))
    }
}

impl<F> FormatChoice<F> {
    /// Converts the format of the choice with `with`.
    pub(crate) fn map<T>(self, with: impl FnOnce(F) -> T) -> FormatChoice<T> {
        match self {
            Self::Open => FormatChoice::Open,
            Self::None => FormatChoice::None,
            Self::Format(format) => FormatChoice::Format(with(format)),
        }
    }

    /// Returns the format, or the one from `decide` if the option leaves it open.
    pub(crate) fn or_else(self, decide: impl FnOnce() -> Option<F>) -> Option<F> {
        match self {
            Self::Open => decide(),
            Self::None => None,
            Self::Format(format) => Some(format),
        }
    }
}
