//! Flags for defaults of requests, which become options of the request node.

use clap::Args;

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
    /// Keeps the likeliest tokens that together reach this share of the probability.
    #[arg(long, value_name = "NUMBER")]
    top_p: Option<f32>,
    /// Keeps this number of likeliest tokens; -1 keeps all.
    #[arg(long, value_name = "COUNT")]
    top_k: Option<i32>,
    /// Keeps tokens with at least this share of the likeliest token's probability.
    #[arg(long, value_name = "NUMBER")]
    min_p: Option<f32>,
    /// Penalty for tokens that already occur; 1 is no penalty.
    #[arg(long, visible_alias = "repeat_penalty", value_name = "NUMBER")]
    repetition_penalty: Option<f32>,
    /// Maximum number of tokens in an answer.
    #[arg(long, visible_aliases = ["max_tokens", "predict"], alias = "n_predict", value_name = "TOKENS")]
    max_new_tokens: Option<u32>,
}

impl SamplingFlags {
    /// Returns the given flags: names, fields of the options, and values.
    pub(super) fn given(&self) -> Vec<(&'static str, &'static str, String)> {
        let number = |number: Option<f32>| number.map(|number| number.to_string());
        let rows = [
            ("temperature", "temperature", number(self.temperature)),
            ("top_p", "top_p", number(self.top_p)),
            ("top_k", "top_k", self.top_k.map(|count| count.to_string())),
            ("min_p", "min_p", number(self.min_p)),
            (
                "repetition_penalty",
                "repetition_penalty",
                number(self.repetition_penalty),
            ),
            (
                "max_new_tokens",
                "max_tokens",
                self.max_new_tokens.map(|most| most.to_string()),
            ),
        ];
        let given = rows
            .into_iter()
            .filter_map(|(flag, field, value)| Some((flag, field, value?)));
        given.collect()
    }
}
