//! The plan of a workload: clients, and their requests over time.

use std::time::Duration;

use super::{
    random::Random,
    words::{self, Measure},
    workload::Sizes,
};

/// Maximum number of tokens of the answer to a prompt that arrives.
const ARRIVAL_ANSWER: u32 = 2;

/// A client that sends a request, waits for the answer, and sends the next.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Actor {
    /// The actor that it waits for before it begins, and the number of pieces of text that this
    /// actor must have received.
    pub(crate) after: Option<(usize, usize)>,
    /// Time that it waits after that.
    pub(crate) delay: Duration,
    /// The system prompt of its requests.
    pub(crate) system: Option<String>,
    /// Questions that it asks, in order.
    pub(crate) turns: Vec<String>,
    /// Maximum number of tokens of each answer.
    pub(crate) max_tokens: u32,
    /// True if each question is sent with all messages before it.
    pub(crate) remembers: bool,
}

/// Makes a plan: actors that act by themselves. Another `seed` or another `name` makes other texts
/// of the same sizes, so that nothing is in a cache.
pub(crate) fn plan(name: &str, sizes: &Sizes, measure: Measure, seed: u64) -> Vec<Actor> {
    let seed = Random::named(seed, name).next_u64();
    let text = |name: &str, words| words::text(&mut Random::named(seed, name), words);
    let shares = sizes.shared_tokens > 0;
    let system = shares.then(|| text("system", measure.words_inside(sizes.shared_tokens)));
    // Only what comes first in a prompt has what the chat template adds.
    let question = |actor: usize, turn: usize, tokens| {
        let inside = shares || (sizes.remembers && turn > 0);
        let words = if inside {
            measure.words_inside(tokens)
        } else {
            measure.words(tokens)
        };
        text(&format!("{actor}/{turn}"), words)
    };
    let stream = |actor| Actor {
        after: None,
        delay: Duration::ZERO,
        system: system.clone(),
        turns: (0..sizes.turns)
            .map(|turn| question(actor, turn, sizes.prompt_tokens))
            .collect(),
        max_tokens: sizes.max_tokens,
        remembers: sizes.remembers,
    };
    let arrival = |number| Actor {
        after: Some((sizes.streams.saturating_sub(1), sizes.arrival_after)),
        delay: sizes.every * number as u32,
        system: system.clone(),
        turns: vec![question(sizes.streams + number, 0, sizes.arrival_tokens)],
        max_tokens: ARRIVAL_ANSWER,
        remembers: false,
    };
    let streams = (0..sizes.streams).map(stream);
    streams.chain((0..sizes.arrivals).map(arrival)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::workload::Workload;

    /// A word is a token, and nothing else is one.
    const ONE: Measure = Measure {
        constant: 0.0,
        per_word: 1.0,
    };

    fn of(workload: Workload, seed: u64) -> Vec<Actor> {
        plan(&workload.name(), &workload.sizes(), ONE, seed)
    }

    #[test]
    fn seeds_make_other_texts_of_the_same_sizes() {
        let [one, same, other] = [1, 1, 2].map(|seed| of(Workload::Short, seed));
        assert_eq!(one, same);
        assert_eq!(one.len(), other.len());
        assert_ne!(one[0].turns[0], other[0].turns[0]);
    }

    #[test]
    fn prompts_differ_unless_they_are_shared() {
        let short = of(Workload::Short, 1);
        let mut texts: Vec<&String> = short.iter().flat_map(|actor| &actor.turns).collect();
        let count = texts.len();
        texts.sort_unstable();
        texts.dedup();
        assert_eq!((count, texts.len()), (32, 32));
        assert!(texts.iter().all(|text| text.split(' ').count() == 128));
        let shared = of(Workload::Shared, 1);
        let system = shared[0].system.as_ref().expect("there is one");
        assert_eq!(system.split(' ').count(), 1024);
        assert!(
            shared
                .iter()
                .all(|actor| actor.system.as_ref() == Some(system))
        );
    }

    #[test]
    fn arrivals_come_after_the_streams_decode() {
        let actors = of(Workload::Arrivals, 1);
        let arrives = |actor: &&Actor| actor.after.is_some();
        assert_eq!(
            (actors.len(), actors.iter().filter(arrives).count()),
            (11, 3)
        );
        let last = actors.last().expect("there are some");
        let expected = (Some((7, 64)), Duration::from_secs(16));
        assert_eq!((last.after, last.delay), expected);
    }
}
