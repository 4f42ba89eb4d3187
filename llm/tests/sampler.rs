//! The sampler against a plain reference that sorts the whole vocabulary and computes in double
//! precision.

use std::collections::BTreeMap;

use graphmill_llm::{MirostatParams, MirostatVersion, Sampler, SamplingParams, Scratch, Token};
use proptest::prelude::*;

/// The tokens that can be drawn, with their probabilities.
fn reference(logits: &[f32], params: &SamplingParams) -> BTreeMap<Token, f64> {
    let temperature = f64::from(params.temperature);
    let mut ranked: Vec<(Token, f64)> = (0..)
        .zip(logits.iter().map(|logit| f64::from(*logit)))
        .collect();
    ranked.sort_by(|left, right| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0)));
    if params.top_k > 0 {
        ranked.truncate(params.top_k as usize);
    }
    let highest = ranked[0].1;
    for (_, weight) in &mut ranked {
        *weight = ((*weight - highest) / temperature).exp();
    }
    let total: f64 = ranked.iter().map(|(_, weight)| weight).sum();
    let mut mass = 0.0;
    let mut kept = 0;
    for (_, weight) in &ranked {
        if kept > 0 && mass >= f64::from(params.top_p) * total {
            break;
        }
        mass += weight;
        kept += 1;
    }
    ranked.truncate(kept);
    ranked.retain(|(_, weight)| *weight >= f64::from(params.min_p));
    if params.typical_p < 1.0 {
        keep_typical(&mut ranked, f64::from(params.typical_p));
    }
    if params.xtc_probability > 0.0 {
        let total: f64 = ranked.iter().map(|(_, weight)| weight).sum();
        let threshold = f64::from(params.xtc_threshold) * total;
        let top = ranked
            .iter()
            .filter(|(_, weight)| *weight >= threshold)
            .count();
        ranked.drain(..top.saturating_sub(1));
    }
    let total: f64 = ranked.iter().map(|(_, weight)| weight).sum();
    ranked
        .into_iter()
        .map(|(token, weight)| (token, weight / total))
        .filter(|(_, probability)| *probability > 0.0)
        .collect()
}

/// Keeps the tokens whose surprise is nearest to the entropy, likeliest first again.
fn keep_typical(ranked: &mut Vec<(Token, f64)>, share: f64) {
    let total: f64 = ranked.iter().map(|(_, weight)| weight).sum();
    let surprise = |weight: f64| -(weight / total).ln();
    let entropy: f64 = ranked
        .iter()
        .map(|(_, weight)| weight / total * surprise(*weight))
        .sum();
    let distance = |weight: f64| (surprise(weight) - entropy).abs();
    ranked.sort_by(|left, right| {
        distance(left.1)
            .total_cmp(&distance(right.1))
            .then(left.0.cmp(&right.0))
    });
    let mut mass = 0.0;
    let kept = ranked.iter().position(|(_, weight)| {
        mass += weight;
        mass > share * total
    });
    ranked.truncate(kept.map_or(usize::MAX, |last| last + 1));
    ranked.sort_by(|left, right| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0)));
}

/// How often each token comes in this many draws with different seeds.
fn draws(logits: &[f32], params: &SamplingParams, count: u64) -> BTreeMap<Token, f64> {
    let mut scratch = Scratch::default();
    let mut counts = BTreeMap::new();
    for seed in 0..count {
        let params = SamplingParams {
            seed: Some(seed),
            ..params.clone()
        };
        let sampled = Sampler::new(params, &[])
            .sample(logits, None, &[], &mut scratch)
            .expect("finite logits");
        *counts.entry(sampled.token).or_insert(0.0) += 1.0 / count as f64;
    }
    counts
}

fn params() -> impl Strategy<Value = SamplingParams> {
    (
        0.2_f32..2.0,
        prop_oneof![Just(0), Just(-1), 1..80_i32],
        prop_oneof![Just(1.0_f32), 0.05_f32..1.0],
        prop_oneof![Just(0.0_f32), 0.001_f32..0.5],
    )
        .prop_map(|(temperature, top_k, top_p, min_p)| SamplingParams {
            temperature,
            top_k,
            top_p,
            min_p,
            ..SamplingParams::default()
        })
}

/// Whether a cut lies so close to a token that the order of additions decides.
fn is_marginal(logits: &[f32], params: &SamplingParams) -> bool {
    let near = |params: SamplingParams| reference(logits, &params).len();
    let nudge = 1e-5;
    let lower = SamplingParams {
        top_p: params.top_p - nudge,
        min_p: (params.min_p - nudge).max(0.0),
        ..params.clone()
    };
    let upper = SamplingParams {
        top_p: params.top_p + nudge,
        min_p: params.min_p + nudge,
        ..params.clone()
    };
    near(lower.clone())
        != near(SamplingParams {
            min_p: lower.min_p,
            ..upper.clone()
        })
        || near(SamplingParams {
            top_p: lower.top_p,
            ..upper.clone()
        }) != near(SamplingParams {
            top_p: upper.top_p,
            ..lower
        })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    #[test]
    fn draws_follow_the_reference_distribution(
        logits in prop::collection::vec(-12.0_f32..12.0, 1..600),
        params in params(),
    ) {
        prop_assume!(!is_marginal(&logits, &params));
        let expected = reference(&logits, &params);
        let count = 4_000;
        let found = draws(&logits, &params, count);
        for token in found.keys() {
            prop_assert!(expected.contains_key(token), "token {} is outside of the kept set", token);
        }
        for (token, probability) in expected {
            // Six standard deviations of a share of that many draws, and a few draws for rare
            // tokens.
            let tolerance = 6.0 * (probability * (1.0 - probability) / count as f64).sqrt() + 8.0 / count as f64;
            let share = found.get(&token).copied().unwrap_or(0.0);
            prop_assert!((share - probability).abs() <= tolerance, "token {}: {} drawn, {} expected", token, share, probability);
        }
    }

    #[test]
    fn the_kept_set_is_exact_on_a_vocabulary_of_real_size(seed in 0..1_000_u64, params in params()) {
        // Logits as of a language model: a normal bulk and a few high ones, made from a fixed
        // recurrence.
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut uniform = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1_u32 << 24) as f32
        };
        let logits: Vec<f32> = (0..50_000).map(|_| (0..6).map(|_| uniform()).sum::<f32>() * 4.0 - 12.0).collect();
        prop_assume!(!is_marginal(&logits, &params));
        let expected = reference(&logits, &params);
        for token in draws(&logits, &params, 40).keys() {
            prop_assert!(expected.contains_key(token), "token {} is outside of the kept set", token);
        }
    }

    #[test]
    fn greedy_takes_the_first_of_the_highest(logits in prop::collection::vec(-3_i8..3, 1..200)) {
        let logits: Vec<f32> = logits.into_iter().map(f32::from).collect();
        let highest = logits.iter().copied().fold(f32::MIN, f32::max);
        let first = logits.iter().position(|logit| *logit >= highest).expect("there is a highest");
        let sampled = Sampler::new(SamplingParams::greedy(), &[]).sample(&logits, None, &[], &mut Scratch::default());
        prop_assert_eq!(sampled.expect("finite logits").token, first as Token);
    }
}

fn greedy_after(
    params: SamplingParams,
    prompt: &[Token],
    generated: &[Token],
    logits: &[f32],
) -> Token {
    let mut sampler = Sampler::new(
        SamplingParams {
            temperature: 0.0,
            ..params
        },
        prompt,
    );
    for token in generated {
        sampler.accept(*token);
    }
    sampler
        .sample(logits, None, &[], &mut Scratch::default())
        .expect("finite logits")
        .token
}

#[test]
fn typical_tokens_and_xtc_leave_what_the_reference_leaves() {
    let logits: Vec<f32> = (0..40)
        .map(|index| (index as f32 * 1.3).sin() * 3.0)
        .collect();
    for (typical_p, xtc_probability, xtc_threshold) in [
        (0.2, 0.0, 0.1),
        (0.7, 0.0, 0.1),
        (1.0, 1.0, 0.03),
        (0.9, 1.0, 0.05),
        (1.0, 1.0, 0.0),
        (0.0, 0.0, 0.1),
    ] {
        let params = SamplingParams {
            typical_p,
            xtc_probability,
            xtc_threshold,
            ..SamplingParams::default()
        };
        let mut scratch = Scratch::default();
        Sampler::new(params.clone(), &[])
            .sample(&logits, None, &[], &mut scratch)
            .expect("finite logits");
        let found: BTreeMap<Token, f64> = scratch.distribution().into_iter().collect();
        let expected = reference(&logits, &params);
        assert_eq!(
            found.keys().collect::<Vec<_>>(),
            expected.keys().collect::<Vec<_>>(),
            "{params:?}"
        );
        for (token, probability) in expected {
            assert!((found[&token] - probability).abs() < 1e-6, "{params:?}");
        }
    }
}

#[test]
fn xtc_is_applied_as_often_as_it_says() {
    let params = SamplingParams {
        xtc_probability: 0.25,
        xtc_threshold: 0.2,
        ..SamplingParams::default()
    };
    // Two tokens of equal probability, of which XTC drops the first.
    let shares = draws(&[1.0, 1.0], &params, 8_000);
    let expected = 0.75 * 0.5;
    assert!((shares[&0] - expected).abs() < 0.03, "{shares:?}");
}

#[test]
fn mirostat_approaches_its_target() {
    let logits: Vec<f32> = (0..2_000)
        .map(|rank| -1.1 * (rank as f32 + 1.0).ln())
        .collect();
    for version in [MirostatVersion::One, MirostatVersion::Two] {
        for tau in [2.0, 4.0] {
            let mirostat = MirostatParams {
                version,
                tau,
                eta: 0.1,
            };
            let params = SamplingParams {
                mirostat: Some(mirostat),
                seed: Some(1),
                ..SamplingParams::default()
            };
            let mut sampler = Sampler::new(params, &[]);
            let mut scratch = Scratch::default();
            let mut surprise = 0.0;
            for step in 0..1_500 {
                let token = sampler
                    .sample(&logits, None, &[], &mut scratch)
                    .expect("finite logits")
                    .token;
                let distribution: BTreeMap<_, _> = scratch.distribution().into_iter().collect();
                if step >= 500 {
                    surprise -= distribution[&token].log2() / 1_000.0;
                }
            }
            assert!(
                (surprise - f64::from(tau)).abs() < 0.3,
                "{version:?}: {surprise} bits, not {tau}"
            );
        }
    }
}

#[test]
fn a_seed_fixes_the_draws() {
    let logits: Vec<f32> = (0..100).map(|index| (index as f32 * 0.37).sin()).collect();
    let run = |seed| {
        let mut sampler = Sampler::new(
            SamplingParams {
                seed: Some(seed),
                ..SamplingParams::default()
            },
            &[],
        );
        let mut scratch = Scratch::default();
        (0..50)
            .map(|_| {
                sampler
                    .sample(&logits, None, &[], &mut scratch)
                    .expect("finite logits")
                    .token
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn presence_and_frequency_count_generated_tokens_only() {
    let logits = [2.0, 1.9, 0.0];
    let presence = SamplingParams {
        presence_penalty: 0.5,
        ..SamplingParams::default()
    };
    assert_eq!(greedy_after(presence.clone(), &[0, 0], &[], &logits), 0);
    assert_eq!(greedy_after(presence, &[], &[0], &logits), 1);
    let frequency = SamplingParams {
        frequency_penalty: 0.06,
        ..SamplingParams::default()
    };
    assert_eq!(greedy_after(frequency.clone(), &[], &[0], &logits), 0);
    assert_eq!(greedy_after(frequency, &[], &[0, 0], &logits), 1);
}

#[test]
fn repetition_counts_the_prompt_and_handles_both_signs() {
    let repetition = SamplingParams {
        repetition_penalty: 2.0,
        ..SamplingParams::default()
    };
    assert_eq!(greedy_after(repetition.clone(), &[0], &[], &[2.0, 1.5]), 1);
    assert_eq!(greedy_after(repetition.clone(), &[], &[0], &[2.0, 1.5]), 1);
    assert_eq!(greedy_after(repetition, &[0], &[], &[-1.0, -1.5]), 1);
}

#[test]
fn bias_and_bans_decide() {
    let biased = SamplingParams {
        logit_bias: [(2, 100.0)].into_iter().collect(),
        ..SamplingParams::greedy()
    };
    assert_eq!(greedy_after(biased, &[], &[], &[1.0, 2.0, 0.0]), 2);
    let mut sampler = Sampler::new(SamplingParams::greedy(), &[]);
    let left = sampler
        .sample(&[1.0, 2.0], None, &[1], &mut Scratch::default())
        .expect("one token is left");
    assert_eq!(left.token, 0);
    assert_eq!(
        sampler.sample(&[1.0, 2.0], None, &[0, 1], &mut Scratch::default()),
        None
    );
    assert_eq!(
        sampler.sample(&[f32::NAN, f32::NAN], None, &[], &mut Scratch::default()),
        None
    );
}

#[test]
fn log_probabilities_are_those_of_the_plain_logits() {
    let params = SamplingParams {
        logprobs: Some(2),
        logit_bias: [(0, 50.0)].into_iter().collect(),
        ..SamplingParams::greedy()
    };
    let sampled = Sampler::new(params, &[])
        .sample(&[0.0, 2.0, 1.0], None, &[], &mut Scratch::default())
        .expect("finite logits");
    let logprob = sampled.logprob.expect("asked for");
    let total = (1.0_f32 + 2.0_f32.exp() + 1.0_f32.exp()).ln();
    assert_eq!(logprob.token, 0);
    assert!((logprob.logprob + total).abs() < 1e-5);
    assert_eq!(
        logprob
            .top
            .iter()
            .map(|(token, _)| *token)
            .collect::<Vec<_>>(),
        [1, 2]
    );
    assert!((logprob.top[0].1 - (2.0 - total)).abs() < 1e-5);
}
