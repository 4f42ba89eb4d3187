//! Summaries of the samples of a load: rates, latencies and failures.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    drive::Sample,
    stats::{common_rate, quantile},
};

/// Sums up samples of a load. Gaps between pieces of text count only `from` a time `until` another.
pub(crate) fn summary(samples: &[&Sample], (from, until): (f64, f64)) -> Value {
    let failed = samples.iter().filter(|sample| sample.reply.error.is_some());
    let mut good = samples.to_vec();
    good.retain(|sample| sample.reply.error.is_none());
    let sum = |number: fn(&Sample) -> u64| good.iter().map(|it| number(it)).sum::<u64>();
    let cached: Option<u64> = good.iter().map(|sample| sample.reply.cached_tokens).sum();
    let prompt_tokens = sum(|sample| sample.reply.prompt_tokens);
    let waits = good.iter().map(|it| first_piece(it) - it.reply.sent);
    let ttft = ascending(waits);
    let tpot = ascending(good.iter().filter_map(|sample| tpot(sample)));
    let gaps = good.iter().flat_map(|sample| {
        let pairs = sample.reply.pieces.windows(2);
        let inside = pairs.filter(|pair| pair[1] > from && pair[1] <= until);
        inside.map(|pair| pair[1] - pair[0])
    });
    let itl = ascending(gaps);
    let ms = |seconds: &[f64], at| 1e3 * quantile(seconds, at);
    json!({
        "tokens_per_second": sum(|sample| sample.reply.tokens) as f64 / span(&good),
        "all_decoding": decode_rate(&good),
        "TTFT_p50_ms": ms(&ttft, 0.5),
        "TTFT_p99_ms": ms(&ttft, 0.99),
        "TPOT_p50_ms": ms(&tpot, 0.5),
        "ITL_p50_ms": ms(&itl, 0.5),
        "ITL_p99_ms": ms(&itl, 0.99),
        "ITL_max_ms": ms(&itl, 1.0),
        "prompt_tokens": prompt_tokens,
        "new": sum(|sample| sample.new_tokens),
        "computed": cached.map(|cached| prompt_tokens.saturating_sub(cached)),
        "errors": failed.count(),
    })
}

/// The time from the first of what arrives until the last of it has its first text: all time if
/// nothing arrives.
pub(crate) fn while_arriving(arrivals: &[&Sample]) -> (f64, f64) {
    if arrivals.is_empty() {
        return (f64::MIN, f64::MAX);
    }
    let sent = arrivals.iter().map(|sample| sample.reply.sent);
    let served = arrivals.iter().map(|sample| first_piece(sample));
    (sent.fold(f64::MAX, f64::min), served.fold(0.0, f64::max))
}

/// Counts the failures by their text.
pub(crate) fn errors(samples: &[Sample]) -> BTreeMap<&str, usize> {
    let mut errors = BTreeMap::new();
    for error in samples.iter().filter_map(|it| it.reply.error.as_deref()) {
        *errors.entry(error).or_default() += 1;
    }
    errors
}

fn ascending(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Returns the time of the first piece of text, or the end of an answer that has none.
fn first_piece(sample: &Sample) -> f64 {
    let pieces = &sample.reply.pieces;
    pieces.first().copied().unwrap_or(sample.reply.ended)
}

/// Seconds for each token after the first.
fn tpot(sample: &Sample) -> Option<f64> {
    let reply = &sample.reply;
    let time = reply.pieces.last()? - reply.pieces.first()?;
    (reply.tokens > 1).then(|| time / (reply.tokens - 1) as f64)
}

/// Seconds from the first request to the end of the last answer.
fn span(samples: &[&Sample]) -> f64 {
    let sent = samples.iter().map(|sample| sample.reply.sent);
    let ended = samples.iter().map(|sample| sample.reply.ended);
    ended.fold(0.0, f64::max) - sent.fold(f64::MAX, f64::min)
}

/// The rate of all streams while all of them generate, where each of them asked once. A piece of
/// text may be of several tokens; its tokens are spread evenly over the pieces.
fn decode_rate(streams: &[&Sample]) -> Option<f64> {
    let mut actors: Vec<usize> = streams.iter().map(|sample| sample.actor).collect();
    actors.dedup();
    if actors.len() < streams.len() {
        return None;
    }
    let times = streams.iter().map(|it| it.reply.pieces.as_slice());
    let times: Vec<&[f64]> = times.collect();
    let tokens: u64 = streams.iter().map(|sample| sample.reply.tokens).sum();
    let pieces: usize = times.iter().map(|times| times.len()).sum();
    Some(common_rate(&times)? * tokens as f64 / pieces as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::client::Reply;

    fn sample(actor: usize, sent: f64, pieces: &[f64]) -> Sample {
        let reply = Reply {
            sent,
            pieces: pieces.to_vec(),
            ended: pieces.last().copied().unwrap_or(sent),
            prompt_tokens: 100,
            cached_tokens: Some(60),
            tokens: pieces.len() as u64,
            ..Reply::default()
        };
        Sample {
            actor,
            arrives: false,
            new_tokens: 30,
            reply,
        }
    }

    fn near(value: &Value, expected: f64) {
        let value = value.as_f64().expect("a number");
        assert!(
            (value - expected).abs() < 1e-6,
            "{value} instead of {expected}"
        );
    }

    #[test]
    fn times_and_rates_follow_from_the_samples() {
        let samples = [
            sample(0, 0.0, &[0.5, 1.0, 1.5, 2.0]),
            sample(1, 0.0, &[1.5, 2.0, 2.5, 4.0]),
        ];
        let summary = summary(&samples.each_ref(), while_arriving(&[]));
        near(&summary["tokens_per_second"], 2.0);
        near(&summary["TTFT_p50_ms"], 1000.0);
        near(&summary["TPOT_p50_ms"], 2000.0 / 3.0);
        near(&summary["ITL_max_ms"], 1500.0);
        near(&summary["all_decoding"], 4.0);
        let prompts = ["prompt_tokens", "new", "computed"].map(|name| summary[name].as_u64());
        assert_eq!(prompts, [Some(200), Some(60), Some(80)]);
    }

    #[test]
    fn failures_are_counted_by_kind_and_leave_the_times_alone() {
        let mut failed = sample(1, 0.0, &[9.0]);
        failed.reply.error = Some("HTTP 503".to_owned());
        let samples = [failed, sample(0, 0.0, &[1.0, 2.0])];
        let summary = summary(&samples.each_ref(), while_arriving(&[]));
        assert_eq!(summary["errors"], json!(1));
        assert_eq!(errors(&samples), BTreeMap::from([("HTTP 503", 1)]));
        near(&summary["TTFT_p99_ms"], 1000.0);
    }

    #[test]
    fn gaps_count_while_something_arrives() {
        let arrival = sample(2, 4.0, &[8.5, 8.6]);
        let stream = sample(1, 1.0, &[2.0, 3.0, 4.0, 7.0, 9.5]);
        near(
            &summary(&[&stream], while_arriving(&[&arrival]))["ITL_max_ms"],
            3000.0,
        );
    }
}
