//! Tables of formats that have names in graphs, and what an option of a node says about them.

/// The formats of one kind; the first that a chat template teaches is the template's.
pub(crate) struct Formats<F: ?Sized + 'static> {
    /// What they are formats of.
    pub(crate) of: &'static str,
    pub(crate) all: &'static [Named<F>],
}

/// A format that has a name in graphs.
pub(crate) struct Named<F: ?Sized + 'static> {
    /// The name, and others for the same.
    pub(crate) names: &'static [&'static str],
    pub(crate) format: &'static F,
    /// The texts in a chat template that teaches it: all of one of these lists.
    pub(crate) taught_by: &'static [&'static [&'static str]],
}

/// The value of an option such as `tool_parser`.
pub(crate) enum Choice<F> {
    /// Empty: the next source in order decides.
    Open,
    /// `none`: the text stays as it is.
    None,
    /// This one.
    Format(F),
}

impl<F: ?Sized> Formats<F> {
    /// The format of an option's value.
    ///
    /// # Errors
    /// What is wrong with the value.
    pub(crate) fn named(&self, name: &str) -> Result<Choice<&'static F>, String> {
        match name {
            "" => return Ok(Choice::Open),
            "none" => return Ok(Choice::None),
            _ => {}
        }
        let mut all = self.all.iter();
        let found = all.find(|format| format.names.contains(&name));
        found.map(|found| Choice::Format(found.format)).ok_or_else(|| {
            let known: Vec<_> = self.all.iter().map(|format| format.names[0]).collect();
            let (of, known) = (self.of, known.join(", "));
            format!("`{name}` is no format of {of}: use {known} or none, or leave it to the chat template")
        })
    }

    /// The format that a chat template teaches, if it teaches one.
    pub(crate) fn taught_by(&self, template: &str) -> Option<&'static Named<F>> {
        let has = |marks: &&[&str]| marks.iter().all(|mark| template.contains(mark));
        let mut all = self.all.iter();
        all.find(|format| format.taught_by.iter().any(has))
    }
}

impl<F> Choice<F> {
    /// The same choice of what `with` makes of a format.
    pub(crate) fn map<T>(self, with: impl FnOnce(F) -> T) -> Choice<T> {
        match self {
            Self::Open => Choice::Open,
            Self::None => Choice::None,
            Self::Format(format) => Choice::Format(with(format)),
        }
    }

    /// The format, or the one that `decide` gives where the option leaves it open.
    pub(crate) fn or_else(self, decide: impl FnOnce() -> Option<F>) -> Option<F> {
        match self {
            Self::Open => decide(),
            Self::None => None,
            Self::Format(format) => Some(format),
        }
    }
}
