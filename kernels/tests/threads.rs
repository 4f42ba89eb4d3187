//! Threads that divide a matmul among themselves, as those of llama.cpp do.
#![allow(unsafe_code, reason = "threads share the results of a matmul")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::common::{Case, assert_same, matmul};
use graphmill_kernels::{Format, Kernels, Matmul, Output};

/// More than the parts that some of the matmuls have.
const THREADS: usize = 3;

/// A matmul whose activations are quantized, and whose parts are computed, by several threads.
fn divided(kernels: Kernels, case: &Case) -> Vec<f32> {
    let Case {
        format,
        rows,
        cols,
        tokens,
        ..
    } = *case;
    let packed = kernels.packed_bytes(format, rows, cols);
    let mut panels = vec![0; packed.expect("a shape with kernels")];
    kernels.pack(format, cols, &case.weights, &mut panels);
    let bytes = kernels.activation_bytes(format, cols);
    let mut activations = vec![0; tokens * bytes];
    let share = tokens.div_ceil(THREADS);
    thread::scope(|scope| {
        let sources = case.activations.chunks(share * cols);
        let rooms = activations.chunks_mut(share * bytes);
        let quantizing: Vec<_> = sources
            .zip(rooms)
            .map(|(source, room)| scope.spawn(move || kernels.quantize(format, cols, source, room)))
            .collect();
        for thread in quantizing {
            thread.join().expect("it quantizes");
        }
    });
    let work = Matmul {
        format,
        rows,
        cols,
        panels: &panels,
        tokens,
        activations: &activations,
    };
    let parts = kernels.parts(rows, tokens, THREADS);
    let next = AtomicUsize::new(0);
    let mut out = vec![f32::NAN; rows * tokens];
    // SAFETY: the results live longer than the threads, and nobody else reads or writes them
    // meanwhile.
    let results = unsafe { Output::new(out.as_mut_ptr(), out.len(), rows) };
    thread::scope(|scope| {
        let computing = [(); THREADS].map(|()| {
            scope.spawn(|| {
                loop {
                    let part = next.fetch_add(1, Ordering::Relaxed);
                    if part >= parts {
                        break;
                    }
                    // SAFETY: the counter gives each part to one thread.
                    unsafe { kernels.multiply(&work, results, part, parts) };
                }
            })
        });
        for thread in computing {
            thread.join().expect("it computes");
        }
    });
    out
}

#[test]
fn threads_that_divide_a_product_change_no_bit() {
    for format in Format::ALL {
        for (rows, tokens) in [
            (33, 1),
            (1400, 1),
            (200, 5),
            (1400, 16),
            (320, 64),
            (96, 300),
        ] {
            let case = Case::random(format, rows, 512, tokens, 12);
            for kernels in Kernels::all() {
                let alone = matmul(kernels, &case, 1);
                assert_same(&divided(kernels, &case), &alone, kernels.name());
            }
        }
    }
}
