//! The backend of a Triton model, by name or by file.

use std::path::Path;

use graphmill_grammar::{ast, suggest};

use super::{TritonReader, model::ModelConfig, place::place, versions};

/// Backends by the values of `platform` and `backend`.
const BACKENDS: &[(&str, Backend)] = &[
    ("onnxruntime_onnx", Backend::Onnx),
    ("onnxruntime", Backend::Onnx),
    ("llamacpp", Backend::Llama),
    ("llama.cpp", Backend::Llama),
    ("ensemble", Backend::Ensemble),
];

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Backend {
    Onnx,
    Llama,
    Ensemble,
}

impl Backend {
    /// Returns the usual file name of a model of this backend.
    pub(super) const fn file_name(self) -> &'static str {
        match self {
            Self::Onnx => "model.onnx",
            Self::Llama => "model.gguf",
            Self::Ensemble => "",
        }
    }
}

impl TritonReader<'_> {
    /// Determines the backend from its name, or else from the files of the versions.
    pub(super) fn backend(
        &mut self,
        folder: &Path,
        config: &ModelConfig,
        tree: &ast::Message,
    ) -> Option<Backend> {
        let fields = [("platform", &config.platform), ("backend", &config.backend)];
        let set = fields.into_iter().find(|(_, name)| !name.is_empty());
        let Some((field, name)) = set else {
            let named = config.default_model_filename.as_str();
            let is_it = |it: &Backend| match Path::new(it.file_name()).extension() {
                ending if !named.is_empty() => Path::new(named).extension() == ending,
                _ => versions::with(folder, it.file_name()).next().is_some(),
            };
            let mut known = [Backend::Onnx, Backend::Llama].into_iter().filter(is_it);
            if let (Some(backend), None) = (known.next(), known.next()) {
                return Some(backend);
            }
            self.wrong(
                tree.head(),
                "`backend` is missing: `onnxruntime` or `llamacpp`",
            );
            return None;
        };
        let known = BACKENDS.iter().find(|(known, _)| known == name);
        if known.is_none() {
            let names = BACKENDS.iter().map(|(name, _)| *name);
            let near = suggest::nearest(name, names.clone());
            let hint = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
            let names = names.join(", ");
            let message =
                format!("models of `{name}` are not supported, only models of {names}{hint}");
            self.wrong(place(tree, field), message);
        }
        known.map(|(_, backend)| *backend)
    }
}
