//! What the samples of a load amount to.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    drive::Sample,
    plan::Role,
    stats::{Spread, common_rate, fairness},
};

/// The times that a request has to keep to be of use.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Limits {
    /// Until its first token, in milliseconds.
    pub ttft_ms: f64,
    /// Between its tokens on average, in milliseconds.
    pub tpot_ms: f64,
}

/// A load in numbers. Times of tokens are those of the streams; arrivals have numbers of their own.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// From the first request to the end of the last answer.
    pub seconds: f64,
    /// Requests sent.
    pub requests: usize,
    /// Requests that failed, by what went wrong.
    pub errors: BTreeMap<String, usize>,
    /// Tokens generated.
    pub tokens: u64,
    /// Tokens generated a second.
    pub tokens_per_second: f64,
    /// Tokens generated a second while all streams were generating.
    pub decode_per_second: Option<f64>,
    /// Requests a second that kept the limits.
    pub good_per_second: f64,
    /// From a request to its first token.
    pub ttft_ms: Spread,
    /// Between the tokens of a request on average.
    pub tpot_ms: Spread,
    /// Between two pieces of text.
    pub itl_ms: Spread,
    /// Jain's index of the rates that the streams got.
    pub fairness: f64,
    /// Pieces of text for each token.
    pub pieces_per_token: f64,
    /// How the prompts were computed.
    pub prompts: Prompts,
    /// Where long prompts arrive: what that did.
    pub arrivals: Option<Arrivals>,
    /// What the processes took; filled in by who knows them.
    pub cost: Cost,
}

/// Tokens of prompts.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Prompts {
    /// All tokens.
    pub tokens: u64,
    /// Tokens taken from a cache; `None` if the server does not say.
    pub cached: Option<u64>,
    /// Tokens that were no part of the conversation so far.
    pub new: u64,
}

impl Prompts {
    /// Tokens that were computed, as far as the server says.
    pub fn computed(&self) -> Option<u64> {
        self.cached.map(|cached| self.tokens.saturating_sub(cached))
    }
}

/// What prompts do that arrive while streams decode.
#[derive(Clone, Debug, Serialize)]
pub struct Arrivals {
    /// Their time to the first token.
    pub ttft_ms: Spread,
    /// The same of such a prompt alone; zeros if there was none.
    pub alone_ttft_ms: Spread,
    /// Between two pieces of the streams' text before the first of them came.
    pub before_itl_ms: Spread,
    /// The same from then until the last of them had its first token.
    pub during_itl_ms: Spread,
    /// Pieces of the streams' text a second before the first of them came.
    pub before_per_second: f64,
    /// The same from then until the last of them had its first token.
    pub during_per_second: f64,
    /// The same after that, until the first stream ended; zero if one had ended already.
    pub after_per_second: f64,
    /// The time that this text and these prompts take one after the other, by the rates before and
    /// after and the time of a prompt alone, for each second that they took together. Below 1,
    /// computing them side by side loses throughput. None if no such prompt was alone, or if a
    /// stream ended before the last of them had its first token: what it would have had is not
    /// known.
    pub gain: Option<f64>,
    /// Their prompts' tokens.
    pub prompts: Prompts,
}

/// What the processes of a load took.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Cost {
    /// The share of the machine's processors that the load generator took.
    pub generator_share: f64,
    /// Processor seconds of the server, if it is a process of this machine.
    pub server_seconds: Option<f64>,
    /// Processor seconds of the server that was not asked, if there is one.
    pub idle_server_seconds: Option<f64>,
    /// The most memory that the server has had so far, in MiB.
    pub server_peak_mib: Option<f64>,
    /// The most KV cells that were in use, if the server says.
    pub kv_cells: Option<u64>,
}

impl Summary {
    /// Of the samples of a load that took `seconds`.
    pub fn from_samples(samples: &[Sample], seconds: f64, limits: Limits) -> Self {
        let mut errors = BTreeMap::new();
        for error in samples.iter().filter_map(|sample| sample.error.clone()) {
            *errors.entry(error).or_default() += 1;
        }
        let good: Vec<&Sample> = samples
            .iter()
            .filter(|sample| sample.error.is_none())
            .collect();
        let of_role = |role: Role| -> Vec<&Sample> {
            good.iter()
                .copied()
                .filter(|sample| sample.role == role)
                .collect()
        };
        let (streams, arrivals, alone) = (
            of_role(Role::Stream),
            of_role(Role::Arrival),
            of_role(Role::Alone),
        );
        let tokens: u64 = streams.iter().map(|sample| u64::from(sample.tokens)).sum();
        let pieces: usize = streams.iter().map(|sample| sample.pieces.len()).sum();
        let kept = |sample: &&&Sample| {
            ttft(sample) <= limits.ttft_ms && tpot(sample).unwrap_or(0.0) <= limits.tpot_ms
        };
        Self {
            seconds,
            requests: samples.len(),
            errors,
            tokens,
            tokens_per_second: rate(tokens as f64, span(&streams)),
            decode_per_second: decode_rate(&streams),
            good_per_second: rate(streams.iter().filter(kept).count() as f64, span(&streams)),
            ttft_ms: Spread::from_values(streams.iter().map(|sample| ttft(sample)).collect()),
            tpot_ms: Spread::from_values(
                streams.iter().filter_map(|sample| tpot(sample)).collect(),
            ),
            itl_ms: Spread::from_values(gaps(&streams, f64::MIN, f64::MAX)),
            fairness: fairness(&stream_rates(&streams)),
            pieces_per_token: rate(pieces as f64, tokens as f64),
            prompts: prompts(&streams),
            arrivals: (!arrivals.is_empty()).then(|| arrivals_among(&streams, &arrivals, &alone)),
            cost: Cost::default(),
        }
    }

    /// Requests that failed.
    pub fn failed(&self) -> usize {
        self.errors.values().sum()
    }
}

/// A number for each second, or for each of something else; 0 where there is nothing.
fn rate(count: f64, of: f64) -> f64 {
    if of > 0.0 { count / of } else { 0.0 }
}

/// Milliseconds to the first piece of text, or to the end of an answer that has none.
fn ttft(sample: &Sample) -> f64 {
    let first = sample.pieces.first().copied().unwrap_or(sample.ended);
    1e3 * (first - sample.sent)
}

/// Milliseconds for each token after the first.
fn tpot(sample: &Sample) -> Option<f64> {
    let (first, last) = (sample.pieces.first()?, sample.pieces.last()?);
    (sample.tokens > 1).then(|| 1e3 * (last - first) / f64::from(sample.tokens - 1))
}

/// Seconds from the first request to the end of the last answer.
fn span(samples: &[&Sample]) -> f64 {
    let begun = samples
        .iter()
        .map(|sample| sample.sent)
        .fold(f64::MAX, f64::min);
    let ended = samples
        .iter()
        .map(|sample| sample.ended)
        .fold(0.0, f64::max);
    (ended - begun).max(0.0)
}

/// The rate of all streams while all of them generate, where each of them asked once. A piece of
/// text may be of several tokens; its tokens are spread evenly over the pieces.
fn decode_rate(streams: &[&Sample]) -> Option<f64> {
    let mut actors: Vec<usize> = streams.iter().map(|sample| sample.actor).collect();
    actors.dedup();
    if actors.len() < streams.len() {
        return None;
    }
    let times: Vec<Vec<f64>> = streams.iter().map(|sample| sample.pieces.clone()).collect();
    let tokens: u64 = streams.iter().map(|sample| u64::from(sample.tokens)).sum();
    let pieces: usize = times.iter().map(Vec::len).sum();
    Some(common_rate(&times)? * rate(tokens as f64, pieces as f64))
}

/// Milliseconds between the pieces of text that came from `begin` to `end`.
fn gaps(samples: &[&Sample], begin: f64, end: f64) -> Vec<f64> {
    let of_sample = |sample: &&Sample| -> Vec<f64> {
        let pairs = sample.pieces.windows(2);
        let inside = pairs.filter(|pair| pair[1] > begin && pair[1] <= end);
        inside.map(|pair| 1e3 * (pair[1] - pair[0])).collect()
    };
    samples.iter().flat_map(of_sample).collect()
}

/// Tokens a second that each actor got, from its first request to its last answer.
fn stream_rates(streams: &[&Sample]) -> Vec<f64> {
    let mut actors: BTreeMap<usize, Vec<&Sample>> = BTreeMap::new();
    for sample in streams {
        actors.entry(sample.actor).or_default().push(sample);
    }
    let of_actor = |samples: &Vec<&Sample>| {
        let tokens: u32 = samples.iter().map(|sample| sample.tokens).sum();
        rate(f64::from(tokens), span(samples))
    };
    actors.values().map(of_actor).collect()
}

fn prompts(samples: &[&Sample]) -> Prompts {
    let sum =
        |number: fn(&Sample) -> u32| samples.iter().map(|sample| u64::from(number(sample))).sum();
    let cached = samples
        .iter()
        .map(|sample| sample.cached_tokens.map(u64::from));
    Prompts {
        tokens: sum(|sample| sample.prompt_tokens),
        cached: cached.sum(),
        new: sum(|sample| sample.new_tokens),
    }
}

fn arrivals_among(streams: &[&Sample], arrivals: &[&Sample], alone: &[&Sample]) -> Arrivals {
    let spread = |samples: &[&Sample]| {
        Spread::from_values(samples.iter().map(|sample| ttft(sample)).collect())
    };
    let first_piece = |sample: &&Sample| sample.pieces.first().copied().unwrap_or(sample.ended);
    // All streams decode from `quiet` on; the first arrival comes at `begin`, the last one is
    // served at `end`.
    let quiet = streams.iter().map(first_piece).fold(0.0, f64::max);
    let begin = arrivals
        .iter()
        .map(|sample| sample.sent)
        .fold(f64::MAX, f64::min);
    let end = arrivals.iter().map(first_piece).fold(0.0, f64::max);
    let pieces = |from: f64, to: f64| {
        let times = streams.iter().flat_map(|sample| &sample.pieces);
        rate(
            times.filter(|time| **time > from && **time <= to).count() as f64,
            to - from,
        )
    };
    let first_end = streams.iter().map(|sample| sample.ended);
    let first_end = first_end.fold(f64::MAX, f64::min);
    let (before_per_second, during_per_second) = (pieces(quiet, begin), pieces(begin, end));
    let after_per_second = pieces(end, first_end);
    // A token takes longer the more come before it: halfway, as long as before and after on
    // average.
    let alone_per_second = if after_per_second > 0.0 {
        2.0 / (1.0 / before_per_second + 1.0 / after_per_second)
    } else {
        before_per_second
    };
    let alone_ttft_ms = spread(alone);
    let prompts_alone = alone_ttft_ms.p50 / 1000.0 * arrivals.len() as f64;
    let gain = rate(during_per_second, alone_per_second) + rate(prompts_alone, end - begin);
    Arrivals {
        ttft_ms: spread(arrivals),
        alone_ttft_ms,
        before_itl_ms: Spread::from_values(gaps(streams, quiet, begin)),
        during_itl_ms: Spread::from_values(gaps(streams, begin, end)),
        before_per_second,
        during_per_second,
        after_per_second,
        gain: (!alone.is_empty() && first_end >= end).then_some(gain),
        prompts: prompts(arrivals),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        ttft_ms: 1000.0,
        tpot_ms: 600.0,
    };

    fn sample(role: Role, actor: usize, sent: f64, pieces: &[f64]) -> Sample {
        Sample {
            role,
            actor,
            sent,
            pieces: pieces.to_vec(),
            ended: pieces.last().copied().unwrap_or(sent),
            prompt_tokens: 100,
            cached_tokens: Some(60),
            new_tokens: 30,
            tokens: pieces.len() as u32,
            error: None,
        }
    }

    fn near(value: f64, expected: f64) {
        assert!(
            (value - expected).abs() < 1e-6,
            "{value} instead of {expected}"
        );
    }

    #[test]
    fn times_and_rates_follow_from_the_samples() {
        let samples = [
            sample(Role::Stream, 0, 0.0, &[0.5, 1.0, 1.5, 2.0]),
            sample(Role::Stream, 1, 0.0, &[1.5, 2.0, 2.5, 4.0]),
        ];
        let summary = Summary::from_samples(&samples, 4.0, LIMITS);
        assert_eq!(
            (summary.requests, summary.tokens, summary.failed()),
            (2, 8, 0)
        );
        near(summary.tokens_per_second, 2.0);
        near(summary.ttft_ms.mean, 1000.0);
        near(summary.tpot_ms.max, 2500.0 / 3.0);
        near(summary.itl_ms.max, 1500.0);
        // Only the first kept the limits.
        near(summary.good_per_second, 0.25);
        near(summary.decode_per_second.expect("they overlap"), 4.0);
        assert_eq!(
            (
                summary.prompts.tokens,
                summary.prompts.computed(),
                summary.prompts.new
            ),
            (200, Some(80), 60)
        );
        near(summary.fairness, 0.9);
    }

    #[test]
    fn failures_are_counted_by_kind_and_leave_the_times_alone() {
        let mut failed = sample(Role::Stream, 1, 0.0, &[9.0]);
        failed.error = Some("HTTP 503".to_owned());
        let good = sample(Role::Stream, 0, 0.0, &[1.0, 2.0]);
        let summary = Summary::from_samples(&[failed, good], 2.0, LIMITS);
        assert_eq!(summary.errors, BTreeMap::from([("HTTP 503".to_owned(), 1)]));
        assert_eq!((summary.tokens, summary.ttft_ms.count), (2, 1));
        near(summary.ttft_ms.max, 1000.0);
    }

    #[test]
    fn arrivals_split_the_streams_time() {
        let samples = [
            sample(Role::Alone, 0, 0.0, &[1.0, 1.1]),
            sample(Role::Stream, 1, 1.0, &[2.0, 3.0, 4.0, 8.0, 9.0]),
            sample(Role::Arrival, 2, 4.0, &[8.5, 8.6]),
        ];
        let summary = Summary::from_samples(&samples, 9.0, LIMITS);
        let arrivals = summary.arrivals.expect("there are some");
        near(arrivals.ttft_ms.p50, 4500.0);
        near(arrivals.alone_ttft_ms.p50, 1000.0);
        near(arrivals.before_itl_ms.max, 1000.0);
        near(arrivals.during_itl_ms.max, 4000.0);
        near(arrivals.before_per_second, 1.0);
        // One piece of text that takes one second alone at first and half a second at last, and a
        // prompt of one second.
        near(arrivals.after_per_second, 2.0);
        near(arrivals.gain.expect("the stream went on"), 1.75 / 4.5);
        assert_eq!((summary.ttft_ms.count, summary.tokens), (1, 5));
    }

    #[test]
    fn nothing_is_said_of_the_gain_where_a_stream_ended_before_the_prompts_were_served() {
        let samples = [
            sample(Role::Alone, 0, 0.0, &[1.0, 1.1]),
            sample(Role::Stream, 1, 1.0, &[2.0, 3.0, 4.0, 8.0]),
            sample(Role::Stream, 2, 1.0, &[2.0, 3.0, 4.0, 8.0, 9.0]),
            sample(Role::Arrival, 3, 4.0, &[8.5, 8.6]),
        ];
        let arrivals = Summary::from_samples(&samples, 9.0, LIMITS).arrivals;
        assert_eq!(arrivals.expect("there are some").gain, None);
    }

    #[test]
    fn nothing_is_said_of_the_gain_where_no_prompt_was_alone() {
        let samples = [
            sample(Role::Stream, 1, 1.0, &[2.0, 3.0, 4.0, 8.0, 9.0]),
            sample(Role::Arrival, 2, 4.0, &[8.5, 8.6]),
        ];
        let arrivals = Summary::from_samples(&samples, 9.0, LIMITS).arrivals;
        assert_eq!(arrivals.expect("there are some").gain, None);
    }
}
