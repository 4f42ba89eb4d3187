//! Errors of models that cannot be loaded, with the options that name the files.

use graphmill_engine::{Error, INVALID_RESOURCE, Kind};
use graphmill_llm::{LlmEngineSpec, LoadError, SpecError};

/// Option that names the model.
pub(super) const MODEL: &str = "models_path";
/// Option that names the draft model.
pub(super) const DRAFT: &str = "draft_models_path";
/// Option that names the projector, which reads images and sounds.
pub(super) const PROJECTOR: &str = "mmproj";

/// Converts the error of a model's path to an error of the graph.
pub(crate) fn unusable(error: SpecError) -> Error {
    let kind = match error {
        SpecError::Missing { .. } | SpecError::NoModel { .. } => Kind::NotFound,
        _ => Kind::InvalidArgument,
    };
    Error::new(kind, error.to_string()).with_source(error)
}

/// Converts the error of a path that belongs to a part of the model, named by an option.
pub(super) fn unusable_part(option: &'static str, error: SpecError) -> Error {
    let mut unusable = unusable(error).with_field(option);
    unusable.message = format!("`{option}`: {}", unusable.message);
    unusable
}

/// Adds the option that names the file to an error of loading.
pub(super) fn at_fault(spec: &LlmEngineSpec, error: LoadError) -> Error {
    let option = match &error {
        LoadError::Spec { field, .. } => (*field).to_owned(),
        LoadError::Read { path, .. }
        | LoadError::Script { path, .. }
        | LoadError::Model { path, .. }
        | LoadError::Memory { path, .. }
        | LoadError::BackendMissing { path, .. } => {
            let adapter = spec.adapters.iter().position(|it| it.path == *path);
            let is_projector = spec.vision.as_ref().is_some_and(|it| it.mmproj == *path);
            let is_draft = spec.draft.as_ref().is_some_and(|it| it.model == *path);
            match adapter {
                Some(at) => adapter_option(at),
                None if is_draft && spec.model != *path => DRAFT.to_owned(),
                None if is_projector && spec.model != *path => PROJECTOR.to_owned(),
                None => MODEL.to_owned(),
            }
        }
        _ => return not_loaded(error),
    };
    not_loaded(error).with_field(option)
}

pub(super) fn adapter_option(at: usize) -> String {
    format!("lora_adapters/{at}/path")
}

pub(super) fn not_loaded(error: LoadError) -> Error {
    let is_wrong = matches!(error, LoadError::Script { .. });
    let failed = Error::unavailable(error.to_string()).with_source(error);
    if is_wrong {
        return failed.with_code(INVALID_RESOURCE);
    }
    failed
}
