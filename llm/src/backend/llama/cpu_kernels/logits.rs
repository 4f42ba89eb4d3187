//! Logits stay where they were computed.
//!
//! llama.cpp copies the logits of a batch out of the buffer that they were computed in, on one
//! thread, while the other threads wait: with 32 rows of a large vocabulary that takes as long as
//! some layers. It has to, because the next computation overwrites them. But where a batch is one
//! computation, they are read before the next one; so the copy is put off until a tensor is written
//! or a buffer is freed, which happens in the same batch only if llama.cpp computes it in several
//! parts: each begins by writing its tokens.

use std::cell::Cell;
use std::ptr::{self, NonNull};

thread_local! {
    static STATE: Cell<State> = const { Cell::new(State::Copy) };
}

/// What becomes of the logits of the batch that this thread computes.
#[derive(Clone, Copy)]
enum State {
    /// llama.cpp copies them.
    Copy,
    /// They can stay if they are so many rows of so many numbers, and come all at once.
    Wanted { rows: usize, row: usize },
    /// They are at `source`; llama.cpp takes them to be at `target`.
    Kept {
        source: NonNull<f32>,
        target: NonNull<f32>,
        rows: usize,
        row: usize,
    },
}

/// Computes a batch that has so many `rows` of logits, each of `row` numbers, on this thread. Says
/// where they are then; `None` if llama.cpp has copied them. They stay until the next computation
/// of the same context. llama.cpp has numbered its rows instead of filling them: the first number
/// of each has the bits of the row that belongs there.
pub(crate) fn computed<T>(
    rows: usize,
    row: usize,
    compute: impl FnOnce() -> T,
) -> (T, Option<NonNull<f32>>) {
    STATE.set(State::Wanted { rows, row });
    let result = compute();
    let kept = match STATE.replace(State::Copy) {
        State::Kept { source, .. } => Some(source),
        State::Copy | State::Wanted { .. } => None,
    };
    (result, kept)
}

/// Logits are to be copied; says whether they may stay, and then numbers the rows they were to be
/// copied to.
///
/// # Safety
/// There are so many bytes at both places, which do not overlap, and nobody else uses them
/// meanwhile.
pub(super) unsafe fn keep(source: *const f32, target: *mut f32, bytes: usize) -> bool {
    let State::Wanted { rows, row } = STATE.get() else {
        return false;
    };
    let (Some(source), Some(first)) = (NonNull::new(source.cast_mut()), NonNull::new(target))
    else {
        return false;
    };
    if rows * row * size_of::<f32>() != bytes || rows * row == 0 {
        return false;
    }
    for number in 0..rows {
        // SAFETY: the caller has as many rows of so many floats there.
        unsafe { *target.add(number * row) = f32::from_bits(number as u32) };
    }
    STATE.set(State::Kept {
        source,
        target: first,
        rows,
        row,
    });
    true
}

/// Copies the logits of the batch that this thread computes after all, if they were to stay.
pub(super) fn copy() {
    let State::Kept {
        source,
        target,
        rows,
        row,
    } = STATE.get()
    else {
        return;
    };
    // SAFETY: `keep` was promised so many floats at both places; llama.cpp is still in the call
    // that has computed them, and has not written to either since, or it would have been noticed
    // here.
    unsafe { ptr::copy_nonoverlapping(source.as_ptr(), target.as_ptr(), rows * row) };
    STATE.set(State::Copy);
}

/// Whether rows of llama.cpp's that were numbered are in order. If not, they get what belongs
/// there.
pub(crate) fn in_order(rows: &mut [f32], row: usize, kept: &[f32]) -> bool {
    let number = |row: &[f32]| row[0].to_bits() as usize;
    let mut numbers = rows.chunks_exact(row).map(number).enumerate();
    if numbers.all(|(place, number)| place == number) {
        return true;
    }
    for target in rows.chunks_exact_mut(row) {
        let number = number(target);
        target.copy_from_slice(&kept[number * row..][..row]);
    }
    false
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::PluginConfig;
    use crate::backend::interface::{Backend, BatchToken, Slot};
    use crate::spec::LlmEngineSpec;

    /// Calls `test` with the repository's small model, where a computation has at most four tokens.
    fn with_parts_of_four(test: &mut dyn FnMut(&mut dyn Backend)) {
        let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../demos/tiny_chat/model.gguf");
        if !model.exists() {
            eprintln!("skipped: there is no model at `{}`", model.display());
            return;
        }
        let mut spec = LlmEngineSpec::new(&model);
        spec.plugin_config = PluginConfig::from_json(r#"{"ubatch": 4}"#).expect("good knobs");
        spec.max_num_seqs = 2;
        spec.max_context = Some(256); // so few cells that no test of large buffers sees them
        crate::backend::llama::open(&spec, &mut |loaded| test(loaded.backend))
            .expect("the model loads");
    }

    /// Tokens of one sequence; those at `asked` have logits.
    fn batch(length: u32, asked: &[u32]) -> Vec<BatchToken> {
        let token = |position| BatchToken {
            token: 300 + position as i32,
            position,
            slot: Slot(0),
            logits: asked.contains(&position),
            adapter: None,
        };
        (0..length).map(token).collect()
    }

    fn logits(backend: &mut dyn Backend, batch: &[BatchToken]) -> Vec<f32> {
        backend.clear();
        backend.decode(batch).expect("it computes");
        backend.logits().to_vec()
    }

    #[test]
    fn logits_are_those_of_their_tokens_however_a_batch_is_computed() {
        with_parts_of_four(&mut |backend| {
            let first = logits(backend, &batch(4, &[3]));
            assert_eq!(first.len(), backend.n_vocab());
            assert!(first.iter().any(|logit| logit.total_cmp(&first[0]).is_ne()));
            // The second part is computed where the first one left its logits.
            assert_eq!(logits(backend, &batch(8, &[3])), first);
            let last = logits(backend, &batch(8, &[7]));
            assert_ne!(last, first);
            let both = logits(backend, &batch(8, &[3, 7]));
            assert_eq!(both, [first.clone(), last].concat());
            let rows = logits(backend, &batch(4, &[1, 3]));
            assert_eq!(rows.len(), 2 * backend.n_vocab());
            assert_eq!(rows[backend.n_vocab()..], first);
        });
    }

    #[test]
    fn rows_in_another_order_are_put_in_order() {
        let kept = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let mut rows = [0.0; 6];
        let number = |rows: &mut [f32], order: [u32; 3]| {
            for (row, number) in rows.chunks_exact_mut(2).zip(order) {
                row[0] = f32::from_bits(number);
            }
        };
        number(&mut rows, [0, 1, 2]);
        assert!(in_order(&mut rows, 2, &kept));
        number(&mut rows, [2, 0, 1]);
        assert!(!in_order(&mut rows, 2, &kept));
        assert_eq!(rows.to_vec(), [5.0, 6.0, 1.0, 2.0, 3.0, 4.0]);
    }

    #[test]
    fn only_the_logits_that_are_expected_stay() {
        let source = [1.0_f32, 2.0, 3.0, 4.0];
        let mut target = [9.0_f32; 4];
        // SAFETY: both arrays are this test's, and longer than what is kept.
        let mut keep = |bytes| unsafe { keep(source.as_ptr(), target.as_mut_ptr(), bytes) };
        assert!(!keep(16), "nothing is computed");
        let (kept, first) = computed(2, 2, || {
            let part = keep(8);
            let all = keep(16);
            (part, all)
        });
        assert_eq!(kept, (false, true));
        assert_eq!(first, NonNull::new(source.as_ptr().cast_mut()));
        assert!(!keep(16), "the computation is over");

        let (kept, first) = computed(2, 2, || {
            let all = keep(16);
            copy();
            all
        });
        assert!(kept);
        assert_eq!(first, None);
        assert_eq!(target.to_vec(), source);
    }
}
