//! Loading the models of a spec, and creating their contexts.

use std::path::Path;
use std::sync::Arc;

use super::device_memory::Available;
use super::ffi::HiddenOf;
use super::model;
use super::plan::ContextPlan;
use super::process::environment;
use super::vocab::LlamaVocabulary;
use super::{LlamaCpp, eagle3, mtp, vision};
use crate::backend::interface::{DraftSupport, LoadedBackends, Serve};
use crate::model::vocab::{Vocab, check_vocabulary};
use crate::protocol::LoadError;
use crate::settings::LlmEngineSpec;

/// Loads the models and runs `serve` with a context on each.
pub(crate) fn open(spec: &LlmEngineSpec, serve: &mut Serve<'_>) -> Result<(), LoadError> {
    let environment = environment(&spec.model, spec.plugin_config.numa)?;
    let mut available = Available::now();
    let mut drafter = match spec.draft_spec() {
        Some(spec) => {
            let weights = model::load(&spec).map_err(rename_to_draft)?;
            Some((spec, weights))
        }
        None => None,
    };
    let weights = model::load(spec)?;
    mtp::check(spec, &weights)?;
    eagle3::check_main(spec, &weights)?;
    let (mut hidden, mut draft_plan) = (None, None);
    // The draft model is planned first, so that the main model's plan counts its memory.
    if let Some((draft_spec, draft)) = &mut drafter {
        hidden = eagle3::prepare(spec, &weights, draft_spec, draft)?;
        let plan = ContextPlan::new(draft_spec, draft, &available, environment.numa)
            .map_err(rename_to_draft)?;
        let mut takes = plan.takes.clone();
        eagle3::count_buffers(&mut takes, spec, &weights, hidden.as_ref());
        available.draft = takes;
        draft_plan = Some(plan);
    }
    let projector = vision::load(spec, &weights, &mut available)?;
    let mut plan = ContextPlan::new(spec, &weights, &available, environment.numa)?;
    let drafts_from_hidden = hidden.is_some();
    plan.hidden = hidden.or(plan.hidden);
    let mut backend = LlamaCpp::new(spec, &weights, &plan, environment)?;
    let mut draft = match (&drafter, draft_plan) {
        (Some((spec, weights)), Some(mut plan)) => {
            if drafts_from_hidden {
                plan.drafts_for = Some(backend.context.raw());
                plan.hidden = Some(HiddenOf::Model);
            }
            Some(LlamaCpp::new(spec, weights, &plan, environment).map_err(rename_to_draft)?)
        }
        _ => mtp::open(spec, &weights, &plan, &backend.context, environment)?,
    };
    check_going_back(spec, &backend, draft.as_ref())?;
    let context = backend.capacity.cells_per_sequence as usize;
    let vocab = LlamaVocabulary::new(Arc::clone(&weights.model), &spec.model, context);
    if let Some((spec, weights)) = &drafter {
        let draft = LlamaVocabulary::new(Arc::clone(&weights.model), &spec.model, context);
        check_vocabulary(&vocab, &draft)?;
    }
    serve(LoadedBackends {
        backend: &mut backend,
        draft: draft.as_mut().map(|draft| draft as _),
        vocab: Arc::new(vocab),
        projector,
    });
    Ok(())
}

/// Refuses drafts if sequences cannot go back behind a wrong one.
fn check_going_back(
    spec: &LlmEngineSpec,
    main: &LlamaCpp<'_>,
    draft: Option<&LlamaCpp<'_>>,
) -> Result<(), LoadError> {
    let knobs = &spec.plugin_config;
    let wanted = [
        ("prompt_lookup", knobs.prompt_lookup),
        ("mtp", knobs.mtp),
        ("draft_models_path", spec.draft.is_some()),
    ];
    if main.drafts == DraftSupport::Never
        && let Some((field, _)) = wanted.into_iter().find(|(_, wanted)| *wanted)
    {
        let message = if knobs.rollback_states == Some(0) {
            "needs `rollback_states` above 0: this model's recurrent state cannot go back to before a wrong draft otherwise"
        } else {
            "cannot be used with this model: its recurrent state cannot go back to before a wrong draft"
        };
        return Err(LoadError::spec(field, message));
    }
    if spec.draft.is_some() && draft.is_some_and(|draft| draft.drafts == DraftSupport::Never) {
        let message = "names a model that cannot draft: its recurrent state cannot go back to before a wrong draft";
        return Err(LoadError::spec("draft_models_path", message));
    }
    Ok(())
}

/// Renames the options in an error to those of the draft model.
fn rename_to_draft(mut error: LoadError) -> LoadError {
    if let LoadError::Spec { field, .. } = &mut error {
        *field = match *field {
            "device" => "draft_device",
            "cache_size" => "draft_cache_size",
            other => other,
        };
    }
    error
}

/// Loads only the vocabulary of a model.
pub(crate) fn open_vocab(path: &Path) -> Result<Arc<dyn Vocab>, LoadError> {
    let model = model::load_vocab(path)?;
    // With the vocabulary alone, llama.cpp does not read the model's shape, but keeps the metadata.
    let length = model.number("context_length");
    Ok(Arc::new(LlamaVocabulary::new(
        Arc::new(model),
        path,
        length.unwrap_or(i32::MAX as usize),
    )))
}
