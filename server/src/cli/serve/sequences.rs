//! Flags that limit sequences of requests.

use std::time::Duration;

use clap::{Args, value_parser};

use crate::{app::state::Options, cli::heading, kserve::SequenceLimits};

#[derive(Debug, Args)]
#[command(rename_all = "snake_case", next_help_heading = heading::LIMITS)]
pub(super) struct SequenceFlags {
    /// Maximum number of open sequences of requests (`sequence_id`).
    ///
    /// Each holds the state of its graph's nodes, and keeps the graph in memory.
    #[arg(long, value_name = "COUNT", default_value_t = 1_024, value_parser = value_parser!(u32).range(1..))]
    max_sequences: u32,
    /// Maximum number of open sequences of one key; of one client address if there are no keys.
    #[arg(long, value_name = "COUNT", default_value_t = 256, value_parser = value_parser!(u32).range(1..))]
    max_sequences_per_key: u32,
    /// Seconds without a request after which a sequence ends.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = value_parser!(u32).range(1..))]
    sequence_idle_seconds: u32,
}

impl SequenceFlags {
    pub(super) fn apply(&self, options: &mut Options) {
        options.sequences = SequenceLimits {
            all: self.max_sequences as usize,
            of_a_key: self.max_sequences_per_key as usize,
            idle: Duration::from_secs(self.sequence_idle_seconds.into()),
        };
    }
}
