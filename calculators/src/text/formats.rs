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

impl<F: ?Sized> Formats<F> {
    /// Returns the format that an option such as `tool_parser` names. `None` for `none`, which leaves
    /// the text unchanged, and for an empty value, with which the next source in order decides.
    ///
    /// # Errors
    /// No format has this name. The error lists the names.
    pub(crate) fn named(&self, name: &str) -> Result<Option<&'static F>, String> {
        if matches!(name, "" | "none") {
            return Ok(None);
        }
        let mut all = self.all.iter();
        let found = all.find(|format| format.names.contains(&name));
        found.map(|found| Some(found.format)).ok_or_else(|| {
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
