//! `generation_config.json`: the sampling defaults that come with a model.

use std::path::Path;

use graphmill_engine::{Error, FileSource, Result};
use graphmill_llm::SamplingParams;
use serde::Deserialize;

/// The file beside a model, as Hugging Face's transformers writes it.
const FILE: &str = "generation_config.json";

/// What is used where neither a request nor its graph says anything. The file's other fields
/// concern other programs; a seed in it would make all answers alike.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct GenerationConfig {
    /// `false` always takes the likeliest token.
    pub do_sample: Option<bool>,
    /// Temperature of sampling.
    pub temperature: Option<f32>,
    /// Share of the probability that the likeliest tokens kept must reach.
    pub top_p: Option<f32>,
    /// Number of likeliest tokens kept.
    pub top_k: Option<i32>,
    /// Least probability of a kept token, relative to the likeliest.
    pub min_p: Option<f32>,
    /// Penalty of tokens that are there already.
    pub repetition_penalty: Option<f32>,
    /// Most tokens of an answer.
    pub max_new_tokens: Option<u32>,
}

impl GenerationConfig {
    /// Reads the file beside a model, or the one that is named; nothing is set where there is none
    /// and none is named.
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
        let sampling = config.sampling();
        sampling
            .validate(n_vocab)
            .map_err(|error| wrong(error.to_string()))?;
        Ok(config)
    }

    fn sampling(&self) -> SamplingParams {
        let usual = SamplingParams::default();
        SamplingParams {
            temperature: self.temperature.unwrap_or(usual.temperature),
            top_p: self.top_p.unwrap_or(usual.top_p),
            top_k: self.top_k.unwrap_or(usual.top_k),
            min_p: self.min_p.unwrap_or(usual.min_p),
            repetition_penalty: self.repetition_penalty.unwrap_or(usual.repetition_penalty),
            ..usual
        }
    }
}
