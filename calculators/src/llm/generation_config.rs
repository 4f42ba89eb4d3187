//! `generation_config.json`: the sampling defaults that come with a model.

use std::path::Path;

use graphmill_engine::{Error, FileSource, Result};
use graphmill_llm::SamplingParams;
use serde::Deserialize;

/// Name of the file beside a model, as Hugging Face's transformers writes it.
const FILE: &str = "generation_config.json";

/// Defaults for requests and graphs that do not set a value. Other fields of the file concern other
/// programs. Its seed is ignored, as it would make all answers alike.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct GenerationConfig {
    /// True to sample; `false` always takes the likeliest token.
    pub do_sample: Option<bool>,
    /// Temperature of sampling, at least 0.
    pub temperature: Option<f32>,
    /// Probability that the likeliest tokens must reach together. The others are dropped.
    pub top_p: Option<f32>,
    /// Number of the likeliest tokens that are kept.
    pub top_k: Option<i32>,
    /// Minimum probability of a kept token, relative to the likeliest one.
    pub min_p: Option<f32>,
    /// Penalty of tokens that have already occurred.
    pub repetition_penalty: Option<f32>,
    /// Maximum number of tokens of an answer.
    pub max_new_tokens: Option<u32>,
}

impl GenerationConfig {
    /// Reads the named file, or the one beside a model. If none is named and none exists, nothing
    /// is set.
    pub(super) fn beside(
        model: &Path,
        named: Option<&Path>,
        files: &dyn FileSource,
        n_vocab: usize,
    ) -> Result<Self> {
        let path = model.with_file_name(named.unwrap_or(FILE.as_ref()));
        let wrong = |reason: String| Error::invalid(format!("`{}`: {reason}", path.display()));
        let bytes = match files.read(&path) {
            Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            read => read.map_err(|error| wrong(error.to_string()))?,
        };
        let mut config: Self =
            serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
        if config.do_sample == Some(false) {
            config.temperature = Some(0.0);
        }
        let usual = SamplingParams::default();
        let penalty = config.repetition_penalty;
        let sampling = SamplingParams {
            temperature: config.temperature.unwrap_or(usual.temperature),
            top_p: config.top_p.unwrap_or(usual.top_p),
            top_k: config.top_k.unwrap_or(usual.top_k),
            min_p: config.min_p.unwrap_or(usual.min_p),
            repetition_penalty: penalty.unwrap_or(usual.repetition_penalty),
            ..usual
        };
        let checked = sampling.validate(n_vocab);
        checked.map_err(|error| wrong(error.to_string()))?;
        Ok(config)
    }
}
