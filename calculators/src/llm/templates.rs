//! The chat template of a model: a file that the graph names, a file beside the model, or the one
//! inside it.

use std::path::Path;

use graphmill_engine::{Error, FileSource, Result};
use graphmill_llm::Vocab;

use super::faults::MODEL;
use super::model_spec::ModelSpec;
use crate::text::chat_template::{ChatTemplate, TemplateError};

/// File beside a model that replaces the chat template inside it.
pub(super) const FILE: &str = "chat_template.jinja";

/// Reads the template that replaces the model's own, if the spec names one.
pub(super) fn chosen(spec: &ModelSpec, files: &dyn FileSource) -> Result<Option<ChatTemplate>> {
    match &spec.chat_template {
        Some(path) => named(path, files).map(Some),
        None => beside(&spec.engine.model, files).map_err(|error| error.with_field(MODEL)),
    }
}

/// Reads the template that a graph names.
pub(super) fn named(path: &Path, files: &dyn FileSource) -> Result<ChatTemplate> {
    read(path, files).map_err(|error| error.with_field("chat_template_file"))
}

/// Compiles the template stored with the model. If it does not compile, chats fail and completions
/// still work.
pub(super) fn own(
    vocab: &dyn Vocab,
    name: Option<&str>,
) -> Option<Result<ChatTemplate, TemplateError>> {
    let compiled = ChatTemplate::new(vocab.chat_template(name)?);
    if let Err(error) = &compiled {
        tracing::warn!(model = vocab.model_name(), %error, "the model's chat template cannot be used");
    }
    Some(compiled)
}

fn beside(model: &Path, files: &dyn FileSource) -> Result<Option<ChatTemplate>> {
    let path = model.with_file_name(FILE);
    match files.read(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        _ => read(&path, files).map(Some),
    }
}

fn read(path: &Path, files: &dyn FileSource) -> Result<ChatTemplate> {
    let unreadable = |reason: String| {
        Error::invalid(format!(
            "cannot read the chat template `{}`: {reason}",
            path.display()
        ))
    };
    let bytes = files
        .read(path)
        .map_err(|error| unreadable(error.to_string()).with_source(error))?;
    let source = String::from_utf8(bytes).map_err(|_| unreadable("it is not UTF-8".to_owned()))?;
    ChatTemplate::new(&source).map_err(|error| {
        let file = path.display();
        let message = match &error {
            TemplateError::Syntax { line, message } => {
                format!("chat template `{file}:{line}`: {message}")
            }
            other => format!("chat template `{file}`: {other}"),
        };
        Error::invalid(message).with_source(error)
    })
}
