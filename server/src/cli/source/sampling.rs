//! Flags for defaults of requests, which become options of the request node.

use clap::Args;

use super::options::{GivenFlag, given, same};
use crate::cli::heading;

#[derive(Clone, Debug, Default, Args)]
#[command(
    rename_all = "snake_case",
    next_help_heading = heading::SAMPLING
)]
pub(in crate::cli) struct SamplingFlags {
    /// Sampling temperature: 0 always takes the likeliest token.
    #[arg(long, visible_alias = "temp", value_name = "NUMBER")]
    temperature: Option<f32>,
    /// Keeps the likeliest tokens until their probabilities sum to this.
    #[arg(long, value_name = "NUMBER")]
    top_p: Option<f32>,
    /// Keeps this number of likeliest tokens; -1 keeps all.
    #[arg(long, value_name = "COUNT")]
    top_k: Option<i32>,
    /// Keeps tokens with at least this share of the likeliest token's probability.
    #[arg(long, value_name = "NUMBER")]
    min_p: Option<f32>,
    /// Penalty for tokens that have already occurred; 1 is no penalty.
    #[arg(long, visible_alias = "repeat_penalty", value_name = "NUMBER")]
    repetition_penalty: Option<f32>,
    /// Maximum number of tokens in an answer.
    #[arg(long, visible_aliases = ["max_tokens", "predict"], alias = "n_predict", value_name = "TOKENS")]
    max_new_tokens: Option<u32>,
}

impl SamplingFlags {
    /// Returns the flags that the command line has.
    pub(super) fn given(&self) -> Vec<GivenFlag> {
        let flags = [
            same("temperature", self.temperature),
            same("top_p", self.top_p),
            same("top_k", self.top_k),
            same("min_p", self.min_p),
            same("repetition_penalty", self.repetition_penalty),
            given("max_new_tokens", "max_tokens", self.max_new_tokens),
        ];
        flags.into_iter().flatten().collect()
    }
}
