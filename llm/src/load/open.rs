//! Opening the models of a spec: checks its files, tries its models, and selects their backend.

use std::path::Path;

use super::trial::Task;
use super::{count_memory, small, trial};
use crate::backend::interface::{Serve, ServeEmbedding};
#[cfg(feature = "llama")]
use crate::backend::llama;
use crate::backend::scripted;
use crate::model::ModelKind;
use crate::model::files::ModelFiles;
use crate::protocol::LoadError;
use crate::settings::{BackendKind, EmbeddingSpec, LlmEngineSpec};

/// Checks the files of a spec, which is cheap, and then tries its models. Must be called before
/// [`open`].
///
/// # Errors
/// [`LoadError`] for a file that cannot be loaded.
pub(crate) fn prepare(spec: &LlmEngineSpec) -> Result<ModelFiles, LoadError> {
    if spec.backend != BackendKind::Llama {
        return Ok(ModelFiles::default());
    }
    let mut paths = vec![spec.model.as_path()];
    paths.extend(spec.draft.iter().map(|draft| draft.model.as_path()));
    paths.extend(spec.vision.iter().map(|vision| vision.mmproj.as_path()));
    paths.extend(spec.adapters.iter().map(|adapter| adapter.path.as_path()));
    let files = read_files(&paths)?;
    let task = || Task::Generates(small::engine(spec, files.bytes()));
    trial::try_task(task, &spec.model, &files)?;
    Ok(files)
}

/// Does the same as [`prepare`], before [`open_embedding`].
///
/// # Errors
/// Those of [`prepare`].
pub(crate) fn prepare_embedding(spec: &EmbeddingSpec) -> Result<ModelFiles, LoadError> {
    let files = read_files(&[spec.model.as_path()])?;
    let task = || Task::Embeds(small::embedding(spec, files.bytes()));
    trial::try_task(task, &spec.model, &files)?;
    Ok(files)
}

fn read_files(paths: &[&Path]) -> Result<ModelFiles, LoadError> {
    let files = ModelFiles::read(paths.iter().copied())?;
    #[cfg(feature = "llama")]
    for path in paths {
        llama::check_header(path)?;
    }
    Ok(files)
}

/// Loads the models of a spec on the calling thread and runs `serve` with their backends, which
/// borrow the weights and are dropped before this returns.
pub(crate) fn open(spec: &LlmEngineSpec, serve: &mut Serve<'_>) -> Result<(), LoadError> {
    count_memory();
    if let Some(draft) = spec.draft_spec()
        && draft.backend != spec.backend
    {
        let (draft, model) = (draft.model.display(), spec.model.display());
        let message = format!("names `{draft}`, expected a model of the same kind as `{model}`");
        return Err(LoadError::spec("draft_models_path", message));
    }
    match spec.backend {
        BackendKind::Scripted => scripted::open(spec, serve),
        #[cfg(feature = "llama")]
        BackendKind::Llama => llama::open(spec, serve),
        #[cfg(not(feature = "llama"))]
        BackendKind::Llama => Err(missing(&spec.model)),
    }
}

#[cfg(not(feature = "llama"))]
fn missing(path: &Path) -> LoadError {
    LoadError::BackendMissing {
        path: path.to_owned(),
        backend: "llama.cpp",
        feature: "llama",
    }
}

/// Loads the model of a spec on the calling thread and runs `serve` with its backend, as [`open`]
/// does.
pub(crate) fn open_embedding(
    spec: &EmbeddingSpec,
    serve: &mut ServeEmbedding<'_>,
) -> Result<(), LoadError> {
    count_memory();
    #[cfg(feature = "llama")]
    return llama::open_embedding(spec, serve);
    #[cfg(not(feature = "llama"))]
    {
        let _ = serve;
        Err(missing(&spec.model))
    }
}

/// Checks the headers of model files and refuses impossible ones, without loading a model. Scripted
/// models have no header.
///
/// # Errors
/// [`LoadError`] for a file that cannot be read or is not a model.
pub fn check_headers<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Result<(), LoadError> {
    let mut of_llama = paths
        .into_iter()
        .filter(|path| BackendKind::for_model(path) == BackendKind::Llama);
    #[cfg(feature = "llama")]
    return of_llama.try_for_each(llama::check_header);
    #[cfg(not(feature = "llama"))]
    of_llama.next().map_or(Ok(()), |path| Err(missing(path)))
}

/// Returns true if a file's header is that of a LoRA adapter, which needs a model.
pub fn is_adapter(path: &Path) -> bool {
    #[cfg(feature = "llama")]
    if BackendKind::for_model(path) == BackendKind::Llama {
        return llama::is_adapter(path).unwrap_or(false);
    }
    let _ = path;
    false
}

/// Reads the purpose of a model from the header of its file. A scripted model generates.
///
/// # Errors
/// [`LoadError`] for a file that cannot be read or is not a model.
pub fn kind_of(path: &Path) -> Result<ModelKind, LoadError> {
    #[cfg(feature = "llama")]
    if BackendKind::for_model(path) == BackendKind::Llama {
        return llama::kind_of(path);
    }
    let _ = path;
    Ok(ModelKind::Generates)
}
