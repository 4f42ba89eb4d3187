//! The header of a GGUF file, checked before llama.cpp reads it: impossible values are refused with
//! the name of their key. Values that depend on the architecture are left to llama.cpp and to the
//! trial of the model.

use std::fs::File;
use std::path::Path;

use super::adapter_tensors;
use super::gguf_reader::{Header, read_header, shown};
use crate::model::ModelKind;
use crate::model::files::FileState;
use crate::protocol::LoadError;

/// The bounds of llama.cpp, which ends the process beyond them.
pub(super) const MAX_LAYERS: i128 = 512;
const MAX_EXPERTS: i128 = 1_024;

/// Architectures that generate by diffusion, which fills in a text in any order.
const DIFFUSION: [&str; 4] = ["dream", "llada", "llada-moe", "rnd1"];
/// Architectures that only encode texts.
const ENCODERS: [&str; 10] = [
    "bert",
    "eurobert",
    "gemma-embedding",
    "jina-bert-v2",
    "jina-bert-v3",
    "modern-bert",
    "neo-bert",
    "nomic-bert",
    "nomic-bert-moe",
    "t5encoder",
];
/// The pooling type of models that score a pair of texts.
const POOLS_A_SCORE: i128 = 4;
/// The names of `RoPE` scalings that llama.cpp knows.
const ROPE_SCALINGS: [&str; 4] = ["none", "linear", "yarn", "longrope"];
/// Integer keys of an architecture, with their minimum and maximum.
const RANGES: [(&str, i128, i128); 7] = [
    ("block_count", 1, MAX_LAYERS),
    ("context_length", 1, i32::MAX as i128),
    ("embedding_length", 1, 1 << 20),
    ("attention.head_count", 0, 1 << 16),
    ("attention.head_count_kv", 0, 1 << 16),
    ("expert_count", 0, MAX_EXPERTS),
    ("expert_used_count", 0, MAX_EXPERTS),
];

/// Refuses a file that is not a regular file, or whose header is not that of a model.
///
/// # Errors
/// [`LoadError::Read`] and [`LoadError::Model`], which name the file.
pub(crate) fn check(path: &Path) -> Result<(), LoadError> {
    read(path, Header::check)
}

/// Returns the purpose of a file's model, from the pooling in its header, or else from its
/// architecture.
///
/// # Errors
/// Those of [`check`].
pub(crate) fn kind(path: &Path) -> Result<ModelKind, LoadError> {
    read(path, |header| Ok(header.kind()))
}

/// Returns true if a file is a LoRA adapter rather than a model.
///
/// # Errors
/// Those of [`check`].
pub(crate) fn is_adapter(path: &Path) -> Result<bool, LoadError> {
    read(path, |header| Ok(header.is_adapter()))
}

/// Refuses a LoRA adapter with tensors that llama.cpp takes, and cannot multiply by. Does nothing
/// for other files. `experts` is the number of experts of its model.
///
/// # Errors
/// Those of [`check`].
pub(super) fn check_adapter(path: &Path, experts: u64) -> Result<(), LoadError> {
    read(path, |header| {
        if header.is_adapter() {
            adapter_tensors::check(&header.tensors, experts)
        } else {
            Ok(())
        }
    })
}

/// Returns the number of the type that most weights of a file have; `None` if the header does not
/// have it.
///
/// # Errors
/// Those of [`check`].
pub(crate) fn file_type(path: &Path) -> Result<Option<u32>, LoadError> {
    read(path, |header| {
        let number = header.integers("general.file_type").first();
        Ok(number.and_then(|number| u32::try_from(*number).ok()))
    })
}

/// Returns the replacements that a file's tokenizer makes in a text; empty if it makes none.
///
/// # Errors
/// Those of [`check`].
pub(crate) fn charsmap(path: &Path) -> Result<Vec<u8>, LoadError> {
    read(path, |header| Ok(header.charsmap().to_vec()))
}

/// Reads the header of a file and passes it to `look`.
fn read<T>(path: &Path, look: impl FnOnce(&Header) -> Result<T, String>) -> Result<T, LoadError> {
    let state = FileState::read(path)?;
    let file = File::open(path).map_err(|source| LoadError::read(path, source))?;
    let looked = read_header(file, state.bytes).and_then(|header| look(&header));
    looked.map_err(|message| LoadError::model(path, message))
}

impl Header {
    fn check(&self) -> Result<(), String> {
        let Some(architecture) = self.text("general.architecture") else {
            return Ok(()); // not the first part of a model, or llama.cpp says what is missing
        };
        if DIFFUSION.contains(&architecture) {
            return Err(format!(
                "it is a diffusion model (`{architecture}`), which does not generate from left to right"
            ));
        }
        for (name, least, most) in RANGES {
            let key = format!("{architecture}.{name}");
            let mut numbers = self.integers(&key).iter();
            if let Some(number) = numbers.find(|number| !(least..=most).contains(*number)) {
                return Err(format!("`{key}` is {number}, expected {least} to {most}"));
            }
        }
        let largest = |name: &str| {
            let numbers = self.integers(&format!("{architecture}.{name}"));
            numbers.iter().copied().max().unwrap_or(0)
        };
        let (experts, used) = (largest("expert_count"), largest("expert_used_count"));
        if used > experts || (experts > 0 && used == 0) {
            return Err(format!(
                "`{architecture}.expert_used_count` is {used}, and `{architecture}.expert_count` is {experts}"
            ));
        }
        let key = format!("{architecture}.rope.scaling.type");
        match self.text(&key) {
            Some(scaling) if !ROPE_SCALINGS.contains(&scaling) => Err(format!(
                "`{key}` is `{}`, expected `{}`",
                shown(scaling),
                ROPE_SCALINGS.join("`, `")
            )),
            _ => Ok(()),
        }
    }

    fn is_adapter(&self) -> bool {
        self.text("general.type") == Some("adapter")
    }

    fn kind(&self) -> ModelKind {
        let Some(architecture) = self.text("general.architecture") else {
            return ModelKind::Generates;
        };
        let pooling = self.integers(&format!("{architecture}.pooling_type"));
        match pooling.first() {
            Some(&POOLS_A_SCORE) => ModelKind::Ranks,
            Some(1..) => ModelKind::Embeds,
            _ if ENCODERS.contains(&architecture) => ModelKind::Embeds,
            _ => ModelKind::Generates,
        }
    }
}
