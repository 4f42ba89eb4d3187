//! The plan of a workload: clients, and their requests over time.

use std::time::Duration;

use serde::Serialize;

use super::{
    words::{self, Measure},
    workload::{Sizes, Workload},
};
use crate::load::random::Random;

/// A plan: actors that act by themselves.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Who acts.
    pub actors: Vec<Actor>,
}

/// A client that sends a request, waits for the answer, and sends the next.
#[derive(Clone, Debug, PartialEq)]
pub struct Actor {
    /// What part it has.
    pub role: Role,
    /// What it waits for before it begins.
    pub after: Option<After>,
    /// How long it waits then.
    pub delay: Duration,
    /// The system prompt of its requests.
    pub system: Option<String>,
    /// What it asks, in order.
    pub turns: Vec<Turn>,
    /// Whether each question is sent with all that was said before.
    pub remembers: bool,
}

/// A part in a plan; each is summed up by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// What the workload is about.
    Stream,
    /// A long prompt among running streams, or the second of two requests.
    Arrival,
    /// The same with nothing else running, to compare with.
    Alone,
}

/// An event that an actor waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Another actor has had so many pieces of text.
    Pieces(usize, usize),
    /// Another actor has ended.
    End(usize),
}

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Its text.
    pub text: String,
    /// Most tokens of the answer.
    pub max_tokens: u32,
}

impl Workload {
    /// The plan of a workload. Another `seed` makes other texts of the same sizes, and so does
    /// another workload or number of streams, so that nothing is in a cache.
    pub fn plan(self, sizes: &Sizes, measure: Measure, seed: u64) -> Plan {
        let name = format!("{} {}", self.name(), sizes.streams);
        let maker = Maker {
            sizes,
            measure,
            seed: Random::named(seed, &name).next_u64(),
        };
        let actors = match self {
            Self::Short | Self::Decode | Self::OneToken | Self::Many | Self::Repeat => {
                let turns = || maker.fresh_turns(self == Self::Repeat);
                (0..sizes.streams)
                    .map(|number| stream(turns()(number)))
                    .collect()
            }
            Self::Shared => {
                let system = maker.system();
                let asks = |number| Actor {
                    system: Some(system.clone()),
                    ..stream(vec![maker.turn(number, 0)])
                };
                (0..sizes.streams).map(asks).collect()
            }
            Self::LivePrefix => maker.live_prefix(),
            Self::Chat => {
                let chat = |number| {
                    let turns = (0..sizes.turns)
                        .map(|turn| maker.turn(number, turn))
                        .collect();
                    Actor {
                        remembers: true,
                        ..stream(turns)
                    }
                };
                (0..sizes.streams).map(chat).collect()
            }
            Self::Arrivals => maker.arrivals(),
            Self::Poisson | Self::Trace => maker.open_loop(self == Self::Trace),
        };
        Plan { actors }
    }
}

/// An actor that begins at once and forgets.
fn stream(turns: Vec<Turn>) -> Actor {
    Actor {
        role: Role::Stream,
        after: None,
        delay: Duration::ZERO,
        system: None,
        turns,
        remembers: false,
    }
}

/// Makes texts of the sizes of a workload.
struct Maker<'a> {
    sizes: &'a Sizes,
    measure: Measure,
    seed: u64,
}

impl Maker<'_> {
    fn random(&self, name: &str) -> Random {
        Random::named(self.seed, name)
    }

    fn words(&self, name: &str, words: usize) -> String {
        words::text(&mut self.random(name), words)
    }

    /// A question of the usual size.
    fn turn(&self, actor: usize, turn: usize) -> Turn {
        let words = if self.sizes.shared_tokens > 0 || turn > 0 {
            self.measure.words_inside(self.sizes.prompt_tokens)
        } else {
            self.measure.words(self.sizes.prompt_tokens)
        };
        Turn {
            text: self.words(&format!("{actor}/{turn}"), words),
            max_tokens: self.sizes.max_tokens,
        }
    }

    /// Questions that have nothing to do with each other; of words that come again and again if
    /// they are `repetitive`.
    fn fresh_turns(&self, repetitive: bool) -> impl Fn(usize) -> Vec<Turn> {
        move |actor| {
            let turn = |number| {
                let name = format!("{actor}/{number}");
                let words = self.measure.words(self.sizes.prompt_tokens);
                let text = if repetitive {
                    let phrase = self.words(&name, 12);
                    vec![phrase; words.div_ceil(12)].join(" ")
                } else {
                    self.words(&name, words)
                };
                Turn {
                    text,
                    max_tokens: self.sizes.max_tokens,
                }
            };
            (0..self.sizes.turns).map(turn).collect()
        }
    }

    fn system(&self) -> String {
        self.words(
            "system",
            self.measure.words_inside(self.sizes.shared_tokens),
        )
    }

    fn live_prefix(&self) -> Vec<Actor> {
        let system = self.system();
        let first = Actor {
            system: Some(system.clone()),
            ..stream(vec![self.turn(0, 0)])
        };
        let second = Actor {
            role: Role::Arrival,
            after: Some(After::Pieces(0, 8)),
            system: Some(system),
            ..stream(vec![Turn {
                max_tokens: 16,
                ..self.turn(1, 0)
            }])
        };
        vec![first, second]
    }

    fn arrivals(&self) -> Vec<Actor> {
        let long = |number: usize| {
            let words = self.measure.words(self.sizes.arrival_tokens);
            stream(vec![Turn {
                text: self.words(&format!("long {number}"), words),
                max_tokens: 2,
            }])
        };
        let mut actors = vec![Actor {
            role: Role::Alone,
            ..long(0)
        }];
        for number in 0..self.sizes.streams {
            let after = Some(After::End(0));
            actors.push(Actor {
                after,
                ..stream(vec![self.turn(number, 0)])
            });
        }
        for number in 0..self.sizes.arrivals {
            actors.push(Actor {
                role: Role::Arrival,
                // By then the others are decoding, and have been for long enough to know how fast
                // they are alone.
                after: Some(After::Pieces(self.sizes.streams, 64)),
                delay: Duration::from_secs_f64(self.sizes.every * number as f64),
                ..long(number + 1)
            });
        }
        actors
    }

    fn open_loop(&self, people: bool) -> Vec<Actor> {
        let mut times = self.random("times");
        let mut at = 0.0;
        let ask = |number: usize| {
            let mut actor = stream(if people {
                vec![self.conversation(number)]
            } else {
                vec![self.turn(number, 0)]
            });
            actor.delay = Duration::from_secs_f64(at);
            at += times.exponential() / self.sizes.rate;
            actor
        };
        (0..self.sizes.turns).map(ask).collect()
    }

    /// A question and an answer with lengths as people's have: most are short, some are long. The
    /// sizes are the medians.
    fn conversation(&self, number: usize) -> Turn {
        let mut lengths = self.random(&format!("lengths {number}"));
        let mut length = |median: usize, most: usize| {
            ((median as f64 * (1.1 * lengths.normal()).exp()) as usize).clamp(4, most)
        };
        let words = self.measure.words(length(self.sizes.prompt_tokens, 1024));
        Turn {
            text: self.words(&format!("{number}"), words),
            max_tokens: length(self.sizes.max_tokens as usize, 768) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    const ONE: Measure = Measure {
        constant: 0.0,
        per_word: 1.0,
    };

    fn plan(workload: Workload, seed: u64) -> Plan {
        workload.plan(&workload.sizes(), ONE, seed)
    }

    #[test]
    fn a_seed_makes_the_same_plan_and_another_one_other_texts() {
        for workload in Workload::value_variants() {
            assert_eq!(plan(*workload, 1), plan(*workload, 1), "{workload:?}");
            let (one, other) = (plan(*workload, 1), plan(*workload, 2));
            assert_eq!(one.actors.len(), other.actors.len());
            assert_ne!(
                one.actors[0].turns[0].text, other.actors[0].turns[0].text,
                "{workload:?}"
            );
        }
    }

    #[test]
    fn prompts_differ_unless_they_are_shared() {
        let short = plan(Workload::Short, 1);
        let mut texts: Vec<&str> = short
            .actors
            .iter()
            .flat_map(|actor| &actor.turns)
            .map(|turn| turn.text.as_str())
            .collect();
        let count = texts.len();
        texts.sort_unstable();
        texts.dedup();
        assert_eq!((count, texts.len()), (32, 32));
        assert!(texts.iter().all(|text| text.split(' ').count() == 128));
        let shared = plan(Workload::Shared, 1);
        let system = shared.actors[0].system.as_ref().expect("there is one");
        assert_eq!(system.split(' ').count(), 1024);
        assert!(
            shared
                .actors
                .iter()
                .all(|actor| actor.system.as_ref() == Some(system))
        );
    }

    #[test]
    fn open_loops_have_their_rate_on_average() {
        let sizes = Sizes {
            turns: 4000,
            rate: 5.0,
            ..Workload::Trace.sizes()
        };
        let plan = Workload::Trace.plan(&sizes, ONE, 3);
        let last = plan
            .actors
            .last()
            .expect("there are some")
            .delay
            .as_secs_f64();
        assert!((last - 800.0).abs() < 60.0, "{last}");
        let words = |actor: &Actor| actor.turns[0].text.split(' ').count();
        let mut lengths: Vec<usize> = plan.actors.iter().map(words).collect();
        lengths.sort_unstable();
        assert!((80..112).contains(&lengths[2000]), "{}", lengths[2000]);
    }

    #[test]
    fn arrivals_come_after_the_streams_decode() {
        let plan = plan(Workload::Arrivals, 1);
        let roles = |role| {
            plan.actors
                .iter()
                .filter(|actor| actor.role == role)
                .count()
        };
        assert_eq!(
            (
                roles(Role::Alone),
                roles(Role::Stream),
                roles(Role::Arrival)
            ),
            (1, 8, 3)
        );
        let last = plan.actors.last().expect("there are some");
        assert_eq!(
            (last.after, last.delay),
            (Some(After::Pieces(8, 64)), Duration::from_secs(16))
        );
        assert_eq!(plan.actors[8].role, Role::Stream);
    }
}
