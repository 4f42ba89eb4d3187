//! Speculation on made-up texts, whose acceptance is known.

use super::Speculation;
use super::learned::Confidence;
use super::lookup::Lookup;
use super::worth::{LinearCost, Steps, Yield};
use crate::protocol::{DraftCounts, Token};
use crate::protocol::{DraftSource, SpeculationParams};
use crate::schedule::cost::{CostModel, StepSize};

mod streams;

const PARAMS: SpeculationParams = SpeculationParams {
    num_assistant_tokens: 5,
    source: DraftSource::Text { max_ngram_size: 3 },
};

/// Numbers that look random and are the same in every run.
fn noise(count: usize, below: i32) -> Vec<Token> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as Token
    };
    (0..count).map(|_| next()).collect()
}

/// What the steps of a sequence come to that generates `answer` after `prompt`, alone: steps,
/// drafted and accepted tokens.
#[derive(Debug, PartialEq)]
struct Outcome {
    steps: usize,
    drafts: DraftCounts,
}

fn steps(decodes: u32, cost: LinearCost) -> Steps {
    Steps {
        decodes,
        cost,
        same_length: false,
        controlled: true,
    }
}

fn generate(prompt: &[Token], answer: &[Token], others: u32) -> Outcome {
    let mut speculation = Speculation::new(PARAMS, prompt);
    let mut text = prompt.to_vec();
    let mut taken_steps = 0;
    let end = prompt.len() + answer.len();
    while text.len() < end {
        let left = end - text.len();
        speculation.draft(&text, left as u32 - 1);
        let price = steps(1 + others, LinearCost::ASSUMED).price(0.0);
        let chances = speculation.chances();
        speculation.keep(chances.partition_point(|chance| *chance > price));
        let before = text.len();
        let rest = &answer[before - prompt.len()..];
        let right = speculation.drafts().iter().zip(rest);
        let taken = 1 + right.take_while(|(draft, token)| draft == token).count();
        for token in &rest[..taken] {
            text.push(*token);
            speculation.observe(&text);
        }
        speculation.settle(&text[before..]);
        taken_steps += 1;
    }
    Outcome {
        steps: taken_steps,
        drafts: speculation.counts(),
    }
}

#[test]
fn the_longest_match_decides_and_then_the_latest() {
    let mut lookup = Lookup::new(3);
    lookup.follow(&[1, 2, 3, 9, 2, 3, 8, 1, 2, 3]);
    assert_eq!(lookup.matched(), 3);
    assert_eq!(
        lookup.predict(&[1, 2, 3, 9, 2, 3, 8, 1, 2, 3], &[]),
        Some(9)
    );
    let text = [2, 3, 9, 2, 3, 8, 7, 3];
    let mut lookup = Lookup::new(3);
    lookup.follow(&text);
    assert_eq!((lookup.matched(), lookup.predict(&text, &[])), (1, Some(8)));
}

#[test]
fn a_text_without_the_end_before_predicts_nothing() {
    let mut lookup = Lookup::new(3);
    lookup.follow(&[1, 2, 3]);
    assert_eq!(lookup.predict(&[1, 2, 3], &[]), None);
    assert_eq!(lookup.matched(), 0);
}

#[test]
fn a_draft_overlaps_what_it_repeats() {
    let mut speculation = Speculation::new(PARAMS, &[4, 5, 4, 5]);
    speculation.draft(&[4, 5, 4, 5], 9);
    assert_eq!(speculation.drafts(), [4, 5, 4, 5, 4]);
    speculation.draft(&[4, 5, 4, 5], 2);
    assert_eq!(speculation.drafts(), [4, 5]);
}

#[test]
fn chances_fall_along_a_draft() {
    let speculation = &mut Speculation::new(PARAMS, &[7; 20]);
    speculation.draft(&[7; 20], 5);
    assert_eq!(speculation.chances().len(), 5);
    assert!(
        speculation
            .chances()
            .is_sorted_by(|earlier, later| earlier > later)
    );
}

#[test]
fn a_text_that_repeats_itself_takes_a_third_of_the_steps() {
    let passage = noise(50, 1000);
    let outcome = generate(&passage, &passage.repeat(4), 0);
    assert!(outcome.steps < 70, "{outcome:?}");
    assert!(outcome.drafts.rejected < 10, "{outcome:?}");
}

#[test]
fn a_text_of_chance_drafts_next_to_nothing() {
    // Few different tokens, so that short matches abound.
    for below in [2, 10, 1000] {
        let text = noise(2000, below);
        let outcome = generate(&text[..200], &text[200..], 0);
        let rows = outcome.drafts.accepted + outcome.drafts.rejected;
        let cost = LinearCost::ASSUMED.for_rows(1) * outcome.steps as f64
            + (LinearCost::ASSUMED.for_rows(2) - LinearCost::ASSUMED.for_rows(1)) * f64::from(rows);
        assert!(cost < 1.01 * 1800.0, "{below}: {cost} for {outcome:?}");
    }
}

#[test]
fn short_texts_of_chance_cost_little_even_if_some_tokens_are_frequent() {
    let mut cost = 0.0;
    // The square of a uniform number: a few tokens make up most of the text.
    for text in noise(200 * 96, 1600).chunks(96) {
        let text: Vec<_> = text.iter().map(|token| token * token / 64_000).collect();
        let outcome = generate(&text[..16], &text[16..], 0);
        let rows = outcome.drafts.accepted + outcome.drafts.rejected;
        cost += LinearCost::ASSUMED.for_rows(1) * outcome.steps as f64
            + (LinearCost::ASSUMED.for_rows(2) - LinearCost::ASSUMED.for_rows(1)) * f64::from(rows);
    }
    assert!(cost < 1.01 * 200.0 * 80.0, "{cost}");
}

#[test]
fn drafting_starts_again_when_a_text_begins_to_repeat() {
    let passage = noise(60, 1000);
    let mut answer = noise(1000, 3);
    answer.extend(passage.repeat(5));
    let outcome = generate(&passage, &answer, 0);
    assert!(outcome.drafts.accepted > 200, "{outcome:?}");
}

#[test]
fn a_full_batch_drafts_only_what_is_all_but_certain() {
    // The earlier place is right three times out of four.
    let passage = noise(400, 1000);
    let answer: Vec<_> = (0..)
        .zip(&passage)
        .map(|(index, token)| if index % 4 == 3 { 5000 + index } else { *token })
        .collect();
    let alone = generate(&passage, &answer, 0);
    let beside = generate(&passage, &answer, 63);
    assert!(alone.drafts.accepted > 150, "{alone:?}");
    assert!(beside.drafts.rejected <= 20, "{beside:?}");
}

#[test]
fn a_draft_has_to_be_as_likely_as_what_its_time_would_give() {
    let price = |decodes, more| steps(decodes, LinearCost::ASSUMED).price(more);
    let assert_near =
        |price: f32, expected: f32| assert!((price - expected).abs() < 1e-3, "{price}");
    assert_near(price(1, 0.0), 0.3);
    // Beside others a token takes less time, and a row as much as before.
    assert_near(price(8, 0.0), 0.3 / (3.1 / 8.0));
    assert!(price(64, 0.0) > 0.95);
    // The time of a draft model counts too.
    assert_near(price(1, 0.2), 0.5);
}

#[test]
fn a_row_costs_as_assumed_until_steps_of_several_sizes_tell() {
    let decodes = |tokens| StepSize {
        decode_tokens: tokens,
        ..StepSize::default()
    };
    let mut model = CostModel::default();
    let rows = |model: &CostModel| {
        let cost = LinearCost::learned(model, &decodes(1));
        cost.for_rows(6) / cost.for_rows(1)
    };
    let assumed = LinearCost::ASSUMED.for_rows(6) / LinearCost::ASSUMED.for_rows(1);
    for _ in 0..50 {
        model.observe(&decodes(1), 20_000.0);
    }
    assert!((rows(&model) - assumed).abs() < 0.01);
    for number in 0..50 {
        let tokens = 1 + number % 6;
        model.observe(&decodes(tokens), 18_000.0 + 2_000.0 * f64::from(tokens));
    }
    assert!((rows(&model) - 1.5).abs() < 0.01);
    // A price from long ago may be wrong, and would not be found out if it kept rows from being
    // tried.
    for _ in 0..100 {
        model.observe(&decodes(1), 20_000.0);
    }
    assert!((rows(&model) - assumed).abs() < 0.01);
}

#[test]
fn a_new_text_begins_with_what_others_taught_and_learns_anew() {
    let mut all = Confidence::new();
    for _ in 0..200 {
        all.observe(0.99, false);
        all.observe(0.3, true);
    }
    let mut new = all.as_assumption();
    assert!(new.chance(0.99) < 0.1 && new.chance(0.3) > 0.9);
    assert!((0.4..0.6).contains(&new.mean()));
    for _ in 0..20 {
        new.observe(0.99, true);
    }
    assert!(new.chance(0.99) > 0.7);
    assert!(all.chance(0.99) < 0.1);
}

#[test]
fn a_pass_of_its_own_pays_for_a_long_draft_beside_few_others() {
    let beside = |others: u32| {
        let level = Yield {
            tokens: f64::from(1 + others),
            rows: 1 + others,
            passes: 1,
        };
        let apart = Yield {
            tokens: f64::from(1 + others) + 4.5,
            rows: 1 + others + 5,
            passes: 2,
        };
        apart.rate(LinearCost::ASSUMED) > level.rate(LinearCost::ASSUMED)
    };
    assert!(beside(1));
    assert!(!beside(16));
}
