use super::passes::{GoesBack, Passes};
use crate::backend::interface::{Adapter, Adapters, BatchToken, Slot};
use crate::settings::Number;

/// Up to so many tokens of a sequence are its last one and drafts; more are a prompt.
const DRAFTS: u32 = 8;

/// A pass costs as much as 4000 cells.
fn divide(parts: &[(u32, u32, u32)]) -> Vec<Vec<(u32, usize)>> {
    divide_with(Passes::new(Some(4_000), None), parts, |_| None)
}

fn divide_with(
    mut passes: Passes,
    parts: &[(u32, u32, u32)],
    adapter: impl Fn(u32) -> Option<u32>,
) -> Vec<Vec<(u32, usize)>> {
    let mut batch = Vec::new();
    for (slot, computed, tokens) in parts {
        batch.extend((0..*tokens).map(|ahead| BatchToken {
            token: 0,
            position: computed + ahead,
            slot: Slot(*slot),
            logits: ahead + 1 == *tokens || *tokens <= DRAFTS,
            hidden: false,
            adapters: adapter(*slot).map(alone).unwrap_or_default(),
        }));
    }
    passes.divide(&batch);
    assert_eq!(passes.len(), passes.iter().count());
    let mut seen: Vec<usize> = passes.iter().flatten().copied().collect();
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..batch.len()), "each token once");
    let slots = |pass: &[usize]| {
        let mut slots: Vec<(u32, usize)> = Vec::new();
        for index in pass {
            let slot = batch[*index].slot.0;
            match slots.last_mut().filter(|(last, _)| *last == slot) {
                Some((_, tokens)) => *tokens += 1,
                None => slots.push((slot, 1)),
            }
        }
        slots
    };
    passes.iter().map(slots).collect()
}

/// Returns the set of the adapter of this number alone, with the scale 1.
fn alone(number: u32) -> Adapters {
    let scale = Number::ONE;
    Adapters::from(Adapter { number, scale })
}

#[test]
fn sequences_of_like_length_decode_in_one_pass() {
    let parts: Vec<_> = (0..32).map(|slot| (slot, 100 + slot, 1)).collect();
    assert_eq!(divide(&parts).len(), 1);
}

#[test]
fn a_long_sequence_decodes_by_itself_where_that_is_cheaper() {
    assert_eq!(
        divide(&[(0, 100, 1), (1, 200, 1), (2, 200, 1), (3, 4_000, 1)]),
        [vec![(0, 1), (1, 1), (2, 1)], vec![(3, 1)]]
    );
    // Beside one short sequence the longer attention costs less than a pass.
    assert_eq!(divide(&[(0, 100, 1), (1, 3_000, 1)]).len(), 1);
}

#[test]
fn a_long_sequence_in_the_middle_needs_a_better_reason() {
    let between = |cells| {
        let mut parts: Vec<_> = (0..9).map(|slot| (slot, 100, 1)).collect();
        parts[4].1 = cells;
        divide(&parts).len()
    };
    // Two more passes, 8000 cells, against 8 times what it is longer.
    assert_eq!(between(1_000), 1);
    assert_eq!(between(2_000), 3);
}

#[test]
fn prompts_are_computed_apart_from_decodes() {
    assert_eq!(
        divide(&[(0, 100, 1), (1, 100, 1), (2, 512, 64)]),
        [vec![(0, 1), (1, 1)], vec![(2, 64)]]
    );
}

#[test]
fn prompts_of_one_length_are_computed_together() {
    assert_eq!(
        divide(&[(0, 0, 64), (1, 0, 64), (2, 0, 30)]),
        [vec![(0, 64), (1, 64)], vec![(2, 30)]]
    );
}

#[test]
fn a_prompt_between_decodes_joins_them_with_a_token() {
    assert_eq!(
        divide(&[(0, 100, 1), (1, 0, 64), (2, 100, 1)]),
        [vec![(0, 1), (1, 1), (2, 1)], vec![(1, 63)]]
    );
}

#[test]
fn gaps_between_slots_are_kept() {
    assert_eq!(divide(&[(0, 9, 1), (2, 9, 1), (3, 9, 1)]).len(), 2);
}

#[test]
fn each_adapter_has_passes_of_its_own_one_after_the_other() {
    let parts = [(0, 9, 1), (1, 9, 1), (2, 9, 1), (3, 9, 1), (4, 9, 2)];
    let adapter = |slot| [None, Some(1), None, Some(0), Some(0)][slot as usize];
    assert_eq!(
        divide_with(Passes::new(None, None), &parts, adapter),
        [vec![(0, 1), (2, 1)], vec![(3, 1), (4, 2)], vec![(1, 1)]]
    );
    assert_eq!(
        divide_with(Passes::new(Some(4_000), None), &parts, adapter),
        [
            vec![(0, 1)],
            vec![(2, 1)],
            vec![(3, 1)],
            vec![(4, 2)],
            vec![(1, 1)]
        ]
    );
    assert_eq!(
        divide_with(Passes::new(None, None), &parts, |_| None).len(),
        1
    );
}

#[test]
fn an_empty_batch_has_no_pass() {
    assert!(divide(&[]).is_empty());
}

/// As with drafts of a model that goes back, whose passes compute up to 16 tokens at once.
fn divide_drafts(unified: bool, parts: &[(u32, u32, u32)]) -> Vec<Vec<(u32, usize)>> {
    let goes_back = GoesBack {
        unified,
        ubatch: 16,
    };
    divide_with(Passes::new(None, Some(goes_back)), parts, |_| None)
}

#[test]
fn drafts_are_computed_after_all_that_moves_states() {
    assert_eq!(
        divide_drafts(true, &[(0, 9, 4), (1, 0, 64), (2, 9, 4), (3, 9, 1)]),
        [vec![(1, 64), (3, 1)], vec![(0, 4), (2, 4)]]
    );
    // With streams, llama.cpp computes neighbors in one pass only.
    assert_eq!(
        divide_drafts(false, &[(0, 9, 4), (1, 0, 64), (2, 9, 4), (3, 9, 4)]),
        [vec![(1, 64)], vec![(2, 4), (3, 4)], vec![(0, 4)]]
    );
}

#[test]
fn drafts_of_other_lengths_are_computed_alone() {
    assert_eq!(
        divide_drafts(
            true,
            &[(0, 9, 2), (1, 9, 3), (2, 9, 3), (3, 9, 2), (4, 9, 3)]
        ),
        [vec![(1, 3), (2, 3), (4, 3)], vec![(0, 2)], vec![(3, 2)]]
    );
}

#[test]
fn no_more_drafts_are_in_a_pass_than_are_computed_at_once() {
    let parts = [(0, 9, 6), (1, 9, 6), (2, 9, 6)];
    assert_eq!(
        divide_drafts(true, &parts),
        [vec![(0, 6), (1, 6)], vec![(2, 6)]]
    );
}

#[test]
fn drafts_of_each_adapter_have_passes_of_their_own() {
    let goes_back = GoesBack {
        unified: true,
        ubatch: 64,
    };
    let parts = [(0, 9, 2), (1, 9, 2), (2, 9, 2), (3, 9, 1)];
    let adapter = |slot| [None, Some(0), Some(0), Some(1)][slot as usize];
    assert_eq!(
        divide_with(Passes::new(None, Some(goes_back)), &parts, adapter),
        [vec![(3, 1)], vec![(1, 2), (2, 2)], vec![(0, 2)]]
    );
}
