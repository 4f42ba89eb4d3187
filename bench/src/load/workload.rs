//! Workloads by name, and their sizes.

use std::time::Duration;

use clap::ValueEnum;

/// A kind of load, chosen by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
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
    /// Long prompts that arrive while streams decode.
    Arrivals,
}

/// The sizes of a workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sizes {
    /// Number of concurrent streams, chats or requests.
    pub(crate) streams: usize,
    /// Number of requests of each stream, or of turns of each chat.
    pub(crate) turns: usize,
    /// Number of tokens in a prompt without its shared part.
    pub(crate) prompt_tokens: usize,
    /// Number of tokens in the shared system prompt.
    pub(crate) shared_tokens: usize,
    /// Maximum number of tokens in an answer.
    pub(crate) max_tokens: u32,
    /// True if each question is sent with all messages before it.
    pub(crate) remembers: bool,
    /// Number of prompts that arrive while the streams decode.
    pub(crate) arrivals: usize,
    /// Number of tokens in such a prompt.
    pub(crate) arrival_tokens: usize,
    /// Number of pieces of text that the last stream has received when the first such prompt
    /// arrives.
    pub(crate) arrival_after: usize,
    /// Time between two such prompts.
    pub(crate) every: Duration,
}

impl Workload {
    /// Returns the name on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Returns the sizes that the command line may change.
    pub(crate) fn sizes(self) -> Sizes {
        let usual = Sizes {
            streams: 8,
            turns: 1,
            prompt_tokens: 128,
            shared_tokens: 0,
            max_tokens: 64,
            remembers: false,
            arrivals: 0,
            arrival_tokens: 2048,
            arrival_after: 64,
            every: Duration::from_secs(8),
        };
        let shared = Sizes {
            streams: 16,
            prompt_tokens: 32,
            shared_tokens: 1024,
            ..usual
        };
        match self {
            Self::Short => Sizes { turns: 4, ..usual },
            Self::Decode => Sizes {
                max_tokens: 128,
                ..usual
            },
            Self::Shared => shared,
            Self::LivePrefix => Sizes {
                streams: 1,
                max_tokens: 128,
                arrivals: 1,
                arrival_tokens: 32,
                arrival_after: 8,
                ..shared
            },
            Self::Chat => Sizes {
                streams: 4,
                turns: 10,
                prompt_tokens: 32,
                max_tokens: 48,
                remembers: true,
                ..usual
            },
            Self::Arrivals => Sizes {
                prompt_tokens: 64,
                max_tokens: 1024,
                arrivals: 3,
                ..usual
            },
        }
    }
}
