//! The sampler against llama.cpp's own: the same logits leave the same tokens, with the same
//! probabilities.

use std::collections::BTreeMap;
use std::mem::ManuallyDrop;

use graphmill_llm::{
    DryParams, MirostatParams, MirostatVersion, Sampler, SamplingParams, Scratch, Token,
};
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::model::params::LlamaModelParams;
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
        LlamaSampler::top_n_sigma(params.top_n_sigma),
        LlamaSampler::temp_ext(
            params.temperature,
            params.dynatemp_range,
            params.dynatemp_exponent,
        ),
        LlamaSampler::top_k(params.top_k),
        LlamaSampler::top_p(params.top_p, 1),
        LlamaSampler::min_p(params.min_p, 1),
        LlamaSampler::typical(params.typical_p, 1),
        LlamaSampler::xtc(params.xtc_probability, params.xtc_threshold, 1, 1),
        LlamaSampler::dist(1),
    ];
    left_by(logits, steps)
}

/// What samplers leave of a row.
fn left_by(logits: &[f32], steps: impl IntoIterator<Item = LlamaSampler>) -> Vec<(Token, f64)> {
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
    let mut scratch = Scratch::default();
    sampler
        .sample(logits, None, &[], &mut scratch)
        .expect("finite logits");
    scratch.distribution()
}

fn by_probability(mut tokens: Vec<(Token, f64)>) -> Vec<(Token, f64)> {
    tokens.sort_by(|left, right| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0)));
    tokens
}

/// Rank by rank the same probability. Tokens of the same probability may change places, and where a
/// cut falls between such tokens, which of them are left may differ, not how many.
fn assert_same(logits: &[f32], params: &SamplingParams, generated: &[Token]) {
    let ours = by_probability(ours(logits, params, generated));
    let theirs = by_probability(theirs(logits, params, generated));
    let sizes = (ours.len(), theirs.len());
    // Sums are rounded differently, so the cut of `top_p` may fall one token earlier or later, or
    // several where the tail is thinner than the rounding. llama.cpp adds up 32-bit shares one by
    // one: beside a sum of almost 1, each is rounded by up to 2^-25.
    let rounding = 2e-4 + logits.len() as f64 * 2_f64.powi(-25);
    let common = sizes.0.min(sizes.1);
    let on_the_cut = usize::from(params.top_p < 1.0);
    let sum = |tokens: &[(Token, f64)]| tokens.iter().map(|(_, p)| p).sum::<f64>();
    let behind = |tokens: &[(Token, f64)]| sum(tokens.get(common + on_the_cut..).unwrap_or(&[]));
    assert!(
        behind(&ours) + behind(&theirs) < rounding,
        "{sizes:?} tokens are left of {params:?}"
    );
    let scale = sum(&theirs[..common]) / sum(&ours[..common]);
    for (ours, theirs) in ours.iter().zip(&theirs) {
        let error = (ours.1 * scale - theirs.1).abs();
        assert!(
            error < 2e-4 * theirs.1 + 1e-6,
            "{ours:?} and {theirs:?} in {params:?}"
        );
    }
    let lowest = theirs[common - 1].1;
    for (token, probability) in &ours[..common] {
        let is_there = theirs.iter().any(|(other, _)| other == token);
        assert!(
            is_there || (probability * scale - lowest).abs() < 2e-4 * lowest + 1e-6,
            "token {token} is not left of {params:?}"
        );
    }
}

/// As many tokens as have `top_p` of all shares, summed in 64 bits: but for those whose shares lie
/// within the rounding of the weights.
fn assert_exact_top_p(logits: &[f32], temperature: f32, top_p: f32) {
    let highest = logits.iter().copied().fold(f32::MIN, f32::max);
    let share = |logit: &f32| (f64::from(logit - highest) / f64::from(temperature)).exp();
    let mut shares: Vec<f64> = logits.iter().map(share).collect();
    shares.sort_by(|left, right| right.total_cmp(left));
    let enough = f64::from(top_p) * shares.iter().sum::<f64>();
    let tokens_with = |mass: f64| {
        let mut sum = 0.0;
        let last = shares.iter().position(|share| {
            sum += share;
            sum >= mass
        });
        last.map_or(shares.len(), |index| index + 1)
    };
    let (fewest, most) = (
        tokens_with(enough * (1.0 - 1e-5)),
        tokens_with(enough * (1.0 + 1e-5)),
    );
    let params = SamplingParams {
        temperature,
        top_p,
        ..SamplingParams::default()
    };
    let count = ours(logits, &params, &[]).len();
    assert!(
        (fewest..=most).contains(&count),
        "{count} tokens are left, not {fewest} to {most}"
    );
}

/// The same tokens with the same shares, but for one that lies on a cut: which of two tokens that
/// are almost equally typical comes first depends on the rounding of sums. Shares below e^-85 are
/// not compared, as low temperatures make them: llama.cpp lists tokens whose shares are too small
/// for a normal number, and here the weights below e^-87 are 0.
fn assert_alike(ours: &[(Token, f64)], theirs: &[(Token, f64)], what: &str) {
    let is_compared = |(_, share): &(Token, f64)| *share > (-85.0_f64).exp();
    let ours: Vec<(Token, f64)> = ours.iter().copied().filter(is_compared).collect();
    let theirs: BTreeMap<Token, f64> = theirs.iter().copied().filter(is_compared).collect();
    let common: Vec<(f64, f64)> = ours
        .iter()
        .filter_map(|(token, share)| Some((*share, *theirs.get(token)?)))
        .collect();
    assert!(
        common.len() + 1 >= ours.len().max(theirs.len()) && !common.is_empty(),
        "{} of {} and {} tokens: {what}",
        common.len(),
        ours.len(),
        theirs.len()
    );
    let (sum, their_sum) = common.iter().fold((0.0, 0.0), |sums, shares| {
        (sums.0 + shares.0, sums.1 + shares.1)
    });
    for (share, their_share) in common {
        let error = (share / sum - their_share / their_sum).abs();
        assert!(
            error < 1e-3 * share + 1e-6,
            "{share} and {their_share}: {what}"
        );
    }
}

fn rare_params() -> impl Strategy<Value = SamplingParams> {
    (
        0.3_f32..2.0,
        prop_oneof![Just(0), 5..200_i32],
        prop_oneof![Just(1.0_f32), 0.05_f32..0.99],
        prop_oneof![Just(0.0_f32), Just(1.0)],
        0.01_f32..0.6,
        prop_oneof![Just(0.0_f32), 0.05_f32..1.5],
        0.5_f32..2.0,
    )
        .prop_map(
            |(temperature, top_k, typical_p, xtc_probability, xtc_threshold, range, exponent)| {
                SamplingParams {
                    temperature,
                    top_k,
                    typical_p,
                    xtc_probability,
                    xtc_threshold,
                    dynatemp_range: range,
                    dynatemp_exponent: exponent,
                    ..SamplingParams::default()
                }
            },
        )
}

/// The model that the project ships.
fn model() -> LlamaModel {
    // Another test of this process may have initialized it.
    let backend = ManuallyDrop::new(LlamaBackend::init().unwrap_or(LlamaBackend {}));
    let params = LlamaModelParams::default().with_vocab_only(true);
    LlamaModel::load_from_file(&backend, MODEL_FILE, &params).expect("a model")
}

const MODEL_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../demos/tiny_chat/model.gguf");

#[test]
fn repetitions_are_found_and_breakers_end_them_as_theirs_do() {
    // Before ours, which initializes llama.cpp for good.
    let model = model();
    let vocab = graphmill_llm::backend::load_vocab(MODEL_FILE.as_ref()).expect("a model");
    let n_vocab = vocab.n_vocab();
    let logits: Vec<f32> = (0..n_vocab)
        .map(|index| (index as f32 * 0.7).sin() * 5.0)
        .collect();
    let texts = [
        "the cat sat on the mat and the cat sat on the",
        "one two: one two: one two",
        "a b c d a b c d a b c",
        "x\ny z x y z\nx y",
        "say \"well\" and say \"well",
        "abcabcabcabcabcabcabcabcabcabcabcabc",
    ];
    let mut penalized = 0;
    for text in texts {
        let tokens = vocab.tokenize(text, false, false).expect("short");
        for (allowed_length, last_tokens, base) in [
            (2, None, 1.75),
            (1, Some(8), 1.2),
            (0, None, 3.0),
            (4, Some(30), 1.0),
        ] {
            let breakers: Vec<String> = ["\n", ":", "\""].map(String::from).into();
            let dry = DryParams {
                multiplier: 0.8,
                base,
                allowed_length,
                last_tokens,
                breakers,
            };
            let params = SamplingParams {
                dry: Some(dry.clone()),
                ..SamplingParams::default()
            };
            let mut sampler =
                Sampler::new(params, &[]).with_vocab(&tokens[..tokens.len() / 2], &vocab);
            let mut their = LlamaSampler::dry(
                &model,
                dry.multiplier,
                dry.base,
                allowed_length as i32,
                last_tokens.map_or(tokens.len() as i32 + 1, |last| last as i32),
                &dry.breakers,
            );
            their.accept_many(tokens.iter().map(|token| LlamaToken(*token)));
            for token in &tokens[tokens.len() / 2..] {
                sampler.accept(*token);
            }
            let mut scratch = Scratch::default();
            sampler
                .sample(&logits, None, &[], &mut scratch)
                .expect("finite logits");
            let ours = scratch.distribution();
            let plain = left_by(&logits, [LlamaSampler::dist(1)]);
            let theirs = left_by(&logits, [their, LlamaSampler::dist(1)]);
            let differs = by_token(&theirs) != by_token(&plain);
            penalized += usize::from(differs);
            assert_alike(&ours, &theirs, &format!("{text} {dry:?}"));
        }
    }
    assert!(penalized > 10, "only {penalized} have a repetition");
}

fn by_token(tokens: &[(Token, f64)]) -> BTreeMap<Token, String> {
    let rounded = |share: f64| format!("{share:.6}");
    tokens
        .iter()
        .map(|(token, share)| (*token, rounded(*share)))
        .collect()
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
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(std::env::var("N").map_or(80, |n| n.parse().unwrap())) })]

    #[test]
    fn any_row_leaves_the_same(
        logits in prop::collection::vec(-12.0_f32..12.0, 2..3_000),
        generated in prop::collection::vec(0..2, 0..8),
        params in params(),
    ) {
        assert_same(&logits, &params, &generated);
        assert_exact_top_p(&logits, params.temperature, params.top_p);
    }

    #[test]
    fn typical_tokens_xtc_and_a_moving_temperature_leave_the_same(
        logits in prop::collection::vec(-8.0_f32..8.0, 2..800),
        params in rare_params(),
    ) {
        let ours = ours(&logits, &params, &[]);
        let theirs = theirs(&logits, &params, &[]);
        assert_alike(&ours, &theirs, &format!("{params:?}"));
    }

    #[test]
    fn the_logits_near_the_highest_are_the_same(
        logits in prop::collection::vec(-8.0_f32..8.0, 2..3_000),
        temperature in 0.3_f32..2.0,
        top_n_sigma in prop_oneof![Just(-1.0_f32), 0.1_f32..4.0],
        top_p in prop_oneof![Just(1.0_f32), 0.3_f32..0.99],
    ) {
        let params = SamplingParams { temperature, top_n_sigma, top_p, ..SamplingParams::default() };
        let ours = ours(&logits, &params, &[]);
        let theirs = theirs(&logits, &params, &[]);
        assert_alike(&ours, &theirs, &format!("{params:?}"));
    }

    #[test]
    fn mirostat_leaves_the_same(
        logits in prop::collection::vec(-8.0_f32..8.0, 2..3_000),
        temperature in 0.3_f32..2.0,
        tau in 0.1_f32..6.0,
        one: bool,
    ) {
        let version = if one { MirostatVersion::One } else { MirostatVersion::Two };
        let mirostat = MirostatParams { version, tau, eta: 0.1 };
        let params = SamplingParams { temperature, mirostat: Some(mirostat), ..SamplingParams::default() };
        let ours = ours(&logits, &params, &[]);
        let their = if one {
            LlamaSampler::mirostat(logits.len() as i32, 1, tau, 0.1, 100)
        } else {
            LlamaSampler::mirostat_v2(1, tau, 0.1)
        };
        let theirs = left_by(&logits, [LlamaSampler::temp(temperature), their]);
        // A count that 32 bits do not hold keeps all tokens here, and one there.
        prop_assume!(!(one && theirs.len() == 1 && ours.len() == logits.len()));
        assert_alike(&ours, &theirs, &format!("{params:?}"));
    }

    #[test]
    fn rows_full_of_ties_leave_the_same(
        logits in prop::collection::vec(-8_i8..8, 2..3_000),
        params in params(),
    ) {
        let logits: Vec<f32> = logits.into_iter().map(f32::from).collect();
        assert_same(&logits, &params, &[]);
        assert_exact_top_p(&logits, params.temperature, params.top_p);
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
        assert_exact_top_p(&logits, params.temperature, params.top_p);
    }
}
