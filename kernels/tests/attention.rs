//! Attention: as exact as its types allow, and each row bit-identical whatever other rows are
//! computed with it.

use crate::attention_case::{Case, Random, UNSEEN, half, row_bytes};
use graphmill_kernels::{Kernels, Numbers};
use proptest::prelude::*;

const KINDS: [Numbers; 8] = [
    Numbers::F32,
    Numbers::F16,
    Numbers::Bf16,
    Numbers::Q8_0,
    Numbers::Q5_1,
    Numbers::Q5_0,
    Numbers::Q4_1,
    Numbers::Q4_0,
];

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|number| number.to_bits()).collect()
}

/// All instructions of this CPU that compute attention; where there are none, there is nothing to
/// test.
fn attending() -> Vec<Kernels> {
    let mut all = Kernels::all();
    all.retain(Kernels::attends);
    if all.is_empty() {
        eprintln!("skipped: there are no instructions for attention");
    }
    all
}

#[test]
fn every_kind_is_exact() {
    for kernels in attending() {
        for numbers in KINDS {
            Case::prompt(kernels, numbers, 1, 300, 1).assert_exact();
            Case::prompt(kernels, numbers, 40, 40, 2).assert_exact();
            Case::prompt(kernels, numbers, 19, 530, 3).assert_exact();
        }
    }
}

#[test]
fn every_shape_is_exact() {
    for kernels in attending() {
        for (heads, kv_heads, key_size, value_size) in [
            (1, 1, 8, 8),
            (4, 4, 80, 80),
            (4, 1, 64, 64),
            (7, 1, 72, 40),
            (16, 2, 256, 256),
            (14, 2, 128, 128),
            (40, 1, 24, 17),
            (3, 1, 576, 512),
        ] {
            let case = Case::prompt(kernels, Numbers::F16, 9, 270, 4);
            let case = case.shape(heads, kv_heads, key_size, value_size);
            case.assert_exact();
            let whole = case.compute(1);
            let row = heads * value_size;
            for token in 0..case.tokens {
                let alone = case.only(token..token + 1).compute(1);
                for stream in 0..case.streams {
                    let expected = &whole[(stream * case.tokens + token) * row..][..row];
                    assert_eq!(bits(&alone[stream * row..][..row]), bits(expected));
                }
            }
        }
    }
}

#[test]
fn sinks_caps_and_biases_are_exact() {
    for kernels in attending() {
        let case = Case::prompt(kernels, Numbers::F16, 5, 300, 5).shape(8, 2, 64, 64);
        Case {
            cap: 0.5,
            ..case.clone()
        }
        .assert_exact();
        let sinks = Some((0..8).map(|head| head as f32 - 4.0).collect());
        Case {
            sinks,
            ..case.clone()
        }
        .assert_exact();
        let mut biased = Case {
            max_bias: 8.0,
            ..case
        };
        for (index, number) in biased.mask.iter_mut().enumerate() {
            let (row, cell) = (index / biased.cells, index % biased.cells);
            if *number != UNSEEN {
                *number =
                    half(-((biased.cells - biased.tokens + row % biased.tokens - cell) as f32));
            }
        }
        biased.assert_exact();
    }
}

#[test]
fn a_token_that_sees_nothing_has_zeros() {
    for kernels in attending() {
        let mut case = Case::prompt(kernels, Numbers::F16, 3, 64, 6);
        case.see(|_, token, _| token != 1);
        case.assert_exact();
    }
}

/// Asserts that results are finite where they are so in 64 bits, and exact there, and that some are
/// not.
#[track_caller]
fn assert_spoiled(case: &Case, what: &str) {
    let out = case.compute(3);
    for (index, row) in out.chunks_exact(case.value_size).enumerate() {
        let (token, head) = (index / case.heads, index % case.heads);
        let exact = case.exact(token / case.tokens, token % case.tokens, head);
        for (ours, (exact, size)) in row.iter().zip(exact) {
            assert_eq!(
                ours.is_finite(),
                exact.is_finite(),
                "{what}: {ours} for {exact}"
            );
            let error = (f64::from(*ours) - exact).abs();
            assert!(
                !exact.is_finite() || error <= 2e-6 * size,
                "{what}: {ours} for {exact}"
            );
        }
    }
    assert!(out.iter().any(|number| !number.is_finite()), "{what}");
}

#[test]
fn what_is_not_finite_stays_so() {
    for kernels in attending() {
        for numbers in [Numbers::F32, Numbers::F16, Numbers::Bf16] {
            // A token alone, and rows that fill vectors; more cells than a block has.
            for tokens in [1, 9] {
                let sound = Case::prompt(kernels, numbers, tokens, 300, 11);
                for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                    let what =
                        |part: &str| format!("{bad} in {part}, {numbers:?}, {tokens} tokens");
                    let mut case = sound.clone();
                    let query = case.queries.len() - case.key_size;
                    case.queries[query] = bad;
                    assert_spoiled(&case, &what("a query"));
                    let bytes: &[u8] = match numbers {
                        Numbers::F32 => &bad.to_le_bytes(),
                        Numbers::F16 if bad.is_nan() => &[0x00, 0x7e],
                        Numbers::F16 => &[0x00, if bad > 0.0 { 0x7c } else { 0xfc }],
                        _ => &bad.to_le_bytes()[2..],
                    };
                    // The first number of a cell that all tokens see.
                    let row = row_bytes(numbers, case.key_size);
                    let cell = 7 * case.kv_heads * row;
                    let mut case = sound.clone();
                    case.keys[cell..cell + bytes.len()].copy_from_slice(bytes);
                    assert_spoiled(&case, &what("a key"));
                    let mut case = sound.clone();
                    case.values[cell..cell + bytes.len()].copy_from_slice(bytes);
                    assert_spoiled(&case, &what("a value"));
                }
            }
        }
    }
}

#[test]
fn what_sees_nothing_has_zeros_whatever_it_asks() {
    for kernels in attending() {
        for tokens in [1, 40] {
            let mut case = Case::prompt(kernels, Numbers::F16, tokens, 300, 12);
            case.see(|stream, _, _| stream == 1);
            let row = case.heads * case.key_size;
            case.queries[..tokens * row].fill(f32::NAN);
            let out = case.compute(2);
            let (unseeing, seeing) = out.split_at(tokens * case.heads * case.value_size);
            assert!(
                unseeing.iter().all(|number| *number == 0.0),
                "{tokens} tokens"
            );
            assert!(
                seeing
                    .iter()
                    .all(|number| *number != 0.0 && number.is_finite())
            );
        }
    }
}

#[test]
fn neighbors_and_threads_change_no_bit() {
    for kernels in attending() {
        let (tokens, cells) = (75, 1400);
        let row = 6 * 64;
        let case = Case::prompt(kernels, Numbers::F16, tokens, cells, 7);
        let whole = case.compute(1);
        for threads in [2, 3, 16, 100, 1000] {
            assert_eq!(
                bits(&case.compute(threads)),
                bits(&whole),
                "{threads} threads"
            );
        }
        for some in [0..1, 74..75, 3..20, 40..75] {
            for threads in [1, 40] {
                let alone = case.only(some.clone()).compute(threads);
                for stream in 0..case.streams {
                    let expected =
                        &whole[(stream * tokens + some.start) * row..][..some.len() * row];
                    let alone = &alone[stream * some.len() * row..][..some.len() * row];
                    assert_eq!(bits(alone), bits(expected), "tokens {some:?}");
                }
            }
        }
    }
}

#[test]
fn cells_of_others_change_no_bit() {
    for kernels in attending() {
        let mut case = Case::prompt(kernels, Numbers::F16, 12, 512, 8);
        // Tokens of three sequences in a unified KV cache.
        case.see(|_, token, cell| cell % 3 == token % 3 && cell < 400 + token);
        case.assert_exact();
        let before = case.compute(1);
        // Cells that tokens 1, 4, 7... do not see become NaN.
        let row = row_bytes(case.numbers, case.value_size);
        for (index, rows) in case
            .values
            .chunks_exact_mut(row * case.kv_heads)
            .enumerate()
        {
            if index % case.cells % 3 != 1 {
                rows.chunks_exact_mut(2)
                    .for_each(|number| number.copy_from_slice(&[0, 0x7e]));
            }
        }
        for (index, rows) in case.keys.chunks_exact_mut(row * case.kv_heads).enumerate() {
            if index % case.cells % 3 != 1 {
                rows.chunks_exact_mut(2)
                    .for_each(|number| number.copy_from_slice(&[0, 0x7c]));
            }
        }
        let after = case.compute(1);
        let of_token = case.heads * case.value_size;
        let tokens = before
            .chunks_exact(of_token)
            .zip(after.chunks_exact(of_token));
        for (index, (before, after)) in tokens.enumerate() {
            if index % case.tokens % 3 == 1 {
                assert_eq!(bits(before), bits(after));
            } else {
                assert!(after.iter().all(|number| number.is_nan()));
            }
        }
    }
}

#[test]
fn sharp_attention_takes_the_largest() {
    for kernels in attending() {
        let mut case = Case::prompt(kernels, Numbers::F32, 4, 700, 10);
        case.queries.iter_mut().for_each(|number| *number *= 400.0);
        let out = case.compute(1);
        let rows = out.chunks_exact(case.value_size).enumerate();
        for (index, row) in rows {
            let (token, head) = (index / case.heads, index % case.heads);
            let exact = case.exact(token / case.tokens, token % case.tokens, head);
            for (ours, (exact, _)) in row.iter().zip(exact) {
                // Scores of hundreds have fewer bits behind the point.
                assert!((f64::from(*ours) - exact).abs() < 2e-3, "{ours} {exact}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn whatever_is_seen(kind in 0..KINDS.len(), tokens in 1..40usize, cells in 1..600usize, sees in 1..5u64, threads in 1..9usize, seed: u64) {
        for kernels in attending() {
        let mut case = Case::prompt(kernels, KINDS[kind], 1, cells, seed);
        let mut random = Random(seed);
        case.tokens = tokens;
        case.queries = (0..case.streams * tokens * case.heads * case.key_size).map(|_| random.unit()).collect();
        case.mask = (0..case.streams * tokens * cells).map(|_| if random.bits() % 5 < sees { 0 } else { UNSEEN }).collect();
        case.assert_exact();
        let all = case.compute(threads);
        let last = case.only(tokens - 1..tokens).compute(1);
        let row = case.heads * case.value_size;
        prop_assert_eq!(bits(&last[..row]), bits(&all[(tokens - 1) * row..tokens * row]));
        }
    }
}
