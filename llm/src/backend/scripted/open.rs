//! Opens the script that a spec names.

use super::ScriptedBackend;
use crate::backend::{Backend, LoadedBackends, Serve};
use crate::model::vocab::check_vocabulary;
use crate::protocol::LoadError;
use crate::settings::LlmEngineSpec;

/// Plays the script of a spec, and the script of its draft model.
pub(crate) fn open(spec: &LlmEngineSpec, serve: &mut Serve<'_>) -> Result<(), LoadError> {
    let (mut backend, vocab) = ScriptedBackend::load(spec)?;
    if spec.vision.is_some() {
        return Err(LoadError::spec(
            "mmproj",
            "cannot be used with a script, which reads no images",
        ));
    }
    if spec.plugin_config.mtp {
        let model = spec.model.display();
        let message = format!("cannot be used with `{model}`: a script has no MTP layers");
        return Err(LoadError::spec("mtp", message));
    }
    if spec.draft.as_ref().is_some_and(|draft| draft.eagle3) {
        return Err(LoadError::spec(
            "draft_eagle3_mode",
            "cannot be used with a script, which has no hidden states",
        ));
    }
    let mut draft = match spec.draft_spec() {
        None => None,
        Some(draft) => {
            let (draft, draft_vocab) = ScriptedBackend::load(&draft)?;
            check_vocabulary(&*vocab, &*draft_vocab)?;
            Some(draft)
        }
    };
    serve(LoadedBackends {
        backend: &mut backend,
        draft: draft.as_mut().map(|draft| draft as &mut dyn Backend),
        vocab,
        projector: None,
    });
    Ok(())
}
