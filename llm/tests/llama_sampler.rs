//! The sampler against llama.cpp's own: the same logits leave the same tokens, with the same probabilities.

#![cfg(feature = "llama")]

use graphmill_llm::{Sampler, SamplingParams, Scratch, Token};
use llama_cpp_2::sampling::LlamaSampler;
use llama_cpp_2::token::LlamaToken;
use llama_cpp_2::token::data::LlamaTokenData;
use llama_cpp_2::token::data_array::LlamaTokenDataArray;
use proptest::prelude::*;

/// What llama.cpp's samplers leave, in our order of steps.
fn theirs(logits: &[f32], params: &SamplingParams, generated: &[Token]) -> Vec<(Token, f64)> {
    let mut penalties = LlamaSampler::penalties(
        logits.len() as i32,
        generated.len() as i32,
        params.repetition_penalty,
        params.frequency_penalty,
        params.presence_penalty,
    );
    penalties.accept_many(generated.iter().map(|token| LlamaToken(*token)));
    let steps = [
        penalties,
        LlamaSampler::temp(params.temperature),
        LlamaSampler::top_k(params.top_k),
        LlamaSampler::top_p(params.top_p, 1),
        LlamaSampler::min_p(params.min_p, 1),
        LlamaSampler::dist(1),
    ];
    let tokens = (0..).zip(logits);
    let tokens = tokens.map(|(token, logit)| LlamaTokenData::new(LlamaToken(token), *logit, 0.0));
    let mut left = LlamaTokenDataArray::from_iter(tokens, false);
    left.apply_sampler(&mut LlamaSampler::chain_simple(steps));
    let left = left.data.iter();
    left.map(|token| (token.id().0, f64::from(token.p())))
        .collect()
}

fn ours(logits: &[f32], params: &SamplingParams, generated: &[Token]) -> Vec<(Token, f64)> {
    let mut sampler = Sampler::new(params.clone(), &[]);
    for token in generated {
        sampler.accept(*token);
    }
    sampler.distribution(logits, &[], &mut Scratch::default())
}

fn by_probability(mut tokens: Vec<(Token, f64)>) -> Vec<(Token, f64)> {
    tokens.sort_by(|left, right| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0)));
    tokens
}

/// Rank by rank the same probability. Tokens of the same probability may change places, and where a cut falls between such
/// tokens, which of them are left may differ, not how many.
fn assert_same(logits: &[f32], params: &SamplingParams, generated: &[Token]) {
    let ours = by_probability(ours(logits, params, generated));
    let theirs = by_probability(theirs(logits, params, generated));
    let sizes = (ours.len(), theirs.len());
    // Sums are rounded differently, so a cut may fall one token earlier or later where the tail is thinner than the rounding.
    let common = sizes.0.min(sizes.1);
    let behind = |tokens: &[(Token, f64)]| tokens[common..].iter().map(|(_, p)| p).sum::<f64>();
    assert!(
        behind(&ours) + behind(&theirs) < 2e-4,
        "{sizes:?} tokens are left of {params:?}"
    );
    for (ours, theirs) in ours.iter().zip(&theirs) {
        let error = (ours.1 - theirs.1).abs();
        assert!(
            error < 2e-4 * theirs.1 + 1e-6,
            "{ours:?} and {theirs:?} in {params:?}"
        );
    }
    let lowest = theirs[common - 1].1;
    for (token, probability) in &ours[..common] {
        let is_there = theirs.iter().any(|(other, _)| other == token);
        assert!(
            is_there || (probability - lowest).abs() < 2e-4 * lowest + 1e-6,
            "token {token} is not left of {params:?}"
        );
    }
}

fn params() -> impl Strategy<Value = SamplingParams> {
    (
        0.2_f32..2.0,
        prop_oneof![Just(0), 1..80_i32, 900..1500_i32],
        prop_oneof![Just(1.0_f32), 0.05_f32..0.999],
        prop_oneof![Just(0.0_f32), 0.001_f32..0.5],
        prop_oneof![Just(1.0_f32), 0.8_f32..1.5],
        prop_oneof![Just(0.0_f32), -0.5_f32..0.5],
        prop_oneof![Just(0.0_f32), -0.5_f32..0.5],
    )
        .prop_map(
            |(temperature, top_k, top_p, min_p, repetition, frequency, presence)| SamplingParams {
                temperature,
                top_k,
                top_p,
                min_p,
                repetition_penalty: repetition,
                frequency_penalty: frequency,
                presence_penalty: presence,
                ..SamplingParams::default()
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(80) })]

    #[test]
    fn any_row_leaves_the_same(
        logits in prop::collection::vec(-12.0_f32..12.0, 2..3_000),
        generated in prop::collection::vec(0..2, 0..8),
        params in params(),
    ) {
        assert_same(&logits, &params, &generated);
    }

    #[test]
    fn rows_full_of_ties_leave_the_same(
        logits in prop::collection::vec(-8_i8..8, 2..3_000),
        params in params(),
    ) {
        let logits: Vec<f32> = logits.into_iter().map(f32::from).collect();
        assert_same(&logits, &params, &[]);
    }

    #[test]
    fn rows_of_real_size_with_a_few_likely_tokens_leave_the_same(
        likely in prop::collection::vec((0..60_000_usize, 0.0_f32..12.0), 1..200),
        params in params(),
    ) {
        let mut logits: Vec<f32> = (0..60_000).map(|index| (index as f32 * 0.7).sin() * 3.0 - 9.0).collect();
        for (token, logit) in likely {
            logits[token] = logit;
        }
        assert_same(&logits, &params, &[]);
    }
}
