//! Workloads by name, and their sizes.

use clap::ValueEnum;
use serde::Serialize;

/// The workloads there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Streams that ask one short prompt after another, each prompt new.
    Short,
    /// Streams that all decode at once, a long answer each: the rate to compare with the ceiling.
    Decode,
    /// Requests at once that share a long system prompt and differ in a short question.
    Shared,
    /// A second request with the system prompt of a first one that is still generating.
    LivePrefix,
    /// Chats that grow, turn by turn, with the replies of the server in them.
    Chat,
    /// Long prompts that arrive while streams decode, after one that arrives alone.
    Arrivals,
    /// Requests at random times, at shares of the rate that the server can bear.
    Poisson,
    /// Requests for a single token.
    OneToken,
    /// Requests at random times with the lengths of people's conversations.
    Trace,
    /// Many streams at once.
    Many,
    /// One stream, for text that can be guessed from what came before.
    Repeat,
}

/// The sizes of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sizes {
    /// Streams, chats or requests at once.
    pub streams: usize,
    /// Requests of each stream, or turns of each chat; in open loops, requests in all.
    pub turns: usize,
    /// Tokens of a prompt, without what is shared.
    pub prompt_tokens: usize,
    /// Tokens of the shared system prompt.
    pub shared_tokens: usize,
    /// Tokens of an answer.
    pub max_tokens: u32,
    /// Long prompts that arrive.
    pub arrivals: usize,
    /// Tokens of a long prompt that arrives.
    pub arrival_tokens: usize,
    /// Seconds between two of them.
    pub every: f64,
    /// Requests a second of an open loop.
    pub rate: f64,
}

impl Workload {
    /// Its name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// The usual sizes.
    pub fn sizes(self) -> Sizes {
        let usual = Sizes {
            streams: 8,
            turns: 4,
            prompt_tokens: 128,
            shared_tokens: 0,
            max_tokens: 64,
            arrivals: 0,
            arrival_tokens: 2048,
            every: 0.0,
            rate: 0.0,
        };
        match self {
            Self::Short => usual,
            Self::Decode => Sizes {
                turns: 1,
                max_tokens: 128,
                ..usual
            },
            Self::Shared => Sizes {
                streams: 16,
                turns: 1,
                prompt_tokens: 32,
                shared_tokens: 1024,
                ..usual
            },
            Self::LivePrefix => Sizes {
                streams: 1,
                turns: 1,
                prompt_tokens: 32,
                shared_tokens: 1024,
                max_tokens: 128,
                ..usual
            },
            Self::Chat => Sizes {
                streams: 4,
                turns: 10,
                prompt_tokens: 32,
                max_tokens: 48,
                ..usual
            },
            Self::Arrivals => Sizes {
                turns: 1,
                prompt_tokens: 64,
                max_tokens: 1024,
                arrivals: 3,
                every: 8.0,
                ..usual
            },
            Self::Poisson => Sizes {
                streams: 32,
                turns: 96,
                rate: 1.0,
                ..usual
            },
            Self::OneToken => Sizes {
                turns: 8,
                max_tokens: 1,
                ..usual
            },
            Self::Trace => Sizes {
                turns: 64,
                prompt_tokens: 96,
                max_tokens: 96,
                rate: 1.0,
                ..usual
            },
            Self::Many => Sizes {
                streams: 256,
                turns: 1,
                prompt_tokens: 64,
                ..usual
            },
            Self::Repeat => Sizes {
                streams: 1,
                turns: 3,
                prompt_tokens: 128,
                max_tokens: 192,
                ..usual
            },
        }
    }
}
