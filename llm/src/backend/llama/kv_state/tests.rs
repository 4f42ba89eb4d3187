use std::num::NonZero;

use super::{StateLayout, build, number, parse};
use crate::backend::interface::SavedPart;

const F32: u32 = 0;

/// A cache of one layer with two cells in the second of two streams. Its keys are also its values.
fn cache(state: &mut Vec<u8>, keys: [f32; 2], transposed: u32) {
    for field in [2, 0, 2] {
        number(state, field);
    }
    for position in [0, 1] {
        for field in [position, 1, 0] {
            number(state, field);
        }
    }
    for field in [transposed, 1, 0, 0, F32, 4, 0] {
        number(state, field);
    }
    state.extend(keys.iter().flat_map(|key| key.to_ne_bytes()));
}

#[test]
fn a_cache_without_values_ends_before_any_bytes() {
    let layout = StateLayout {
        caches: 2,
        before_rest: 2,
    };
    for transposed in [0, 1] {
        let mut state = vec![0; 8];
        cache(&mut state, [1.0, 2.0], transposed);
        let behind = state.len();
        cache(&mut state, [3.0, 4.0], transposed);
        let parsed = parse(&state, layout, 0, None).expect("two caches");
        let saved = parsed.cells(&(1..2)).expect("the cell is there");
        let keys = [2.0_f32, 4.0].map(f32::to_ne_bytes);
        assert!(saved.planes().eq(keys.iter().map(<[u8; 4]>::as_slice)));
        // What a number of bytes and the number of columns would be, were there values.
        for numbers in [[0, u32::MAX], [2, u32::MAX], [u32::MAX, u32::MAX]] {
            let mut state = state.clone();
            for (at, number) in numbers.into_iter().enumerate() {
                let at = behind + 4 * (at + 1);
                state[at..at + 4].copy_from_slice(&number.to_ne_bytes());
            }
            assert!(parse(&state, layout, 0, None).is_err());
        }
    }
}

#[test]
fn only_the_first_cache_has_extensions() {
    let layout = StateLayout {
        caches: 2,
        before_rest: 1,
    };
    // Position, column, line and token of three cells of an image, two of which are in a line.
    let places = [[5_u32, 6, 5, 9], [5, 5, 5, 9], [5, 5, 6, 9]];
    let cache = |state: &mut Vec<u8>, extended: bool, order: [usize; 3]| {
        number(state, 1);
        number(state, 3);
        for [position, extension @ ..] in order.map(|cell| places[cell]) {
            number(state, position);
            number(state, 1);
            for field in extension.into_iter().filter(|_| extended) {
                number(state, field);
            }
            number(state, 0);
        }
        for field in [0, 1, 0, 0, F32, 4, 0] {
            number(state, field);
        }
        for cell in order {
            number(state, cell as u32);
        }
    };
    let state = |order| {
        let mut state = vec![0; 8];
        cache(&mut state, true, order);
        state.extend([7; 5]);
        cache(&mut state, false, order);
        state
    };
    let written = state([0, 1, 2]);
    let extension = NonZero::new(12).map(|bytes| (bytes, 8));
    let parsed = parse(&written, layout, 5, extension).expect("two caches");
    let cells = parsed.cells(&(5..8)).expect("the cells are there");
    let mut built = Vec::new();
    let part = SavedPart {
        cells: 0..3,
        saved: &cells,
    };
    build(&parsed.form, 5, &[part], &[7; 5], &mut built);
    // By line and then by column.
    assert_eq!(built, state([1, 0, 2]));
}
