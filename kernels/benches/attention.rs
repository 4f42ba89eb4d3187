//! How fast attention is, over keys and values of 16 bits.
//!
//! `cargo bench -p graphmill-kernels --bench attention -- [THREADS [CELLS [STREAMS [SIZES
//! [INSTRUCTIONS]]]]]`, each but the last a list with commas: `1,2 512,4096 1,8 64 AVX2`.
#![allow(unsafe_code, reason = "attention reads and writes through pointers")]
#![allow(
    clippy::print_stdout,
    reason = "a program that prints what it measured"
)]

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use graphmill_kernels::{Attention, Kernels, Numbers, Rows};

/// How long each is repeated.
const TIME: Duration = Duration::from_millis(300);
/// Heads of the 0.5B shape, and those that share a key.
const HEADS: usize = 14;
const KV_HEADS: usize = 2;
/// Tokens of a prompt that are computed at once.
const PROMPT: usize = 512;

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    let list = |at: usize, default: &str| -> Vec<usize> {
        let text = arguments.get(at).map_or(default, String::as_str);
        text.split(',')
            .map(|number| number.parse().expect("a number"))
            .collect()
    };
    let named = |kernels: &Kernels| arguments.get(4).is_none_or(|name| name == kernels.name());
    let mut all = Kernels::all().into_iter();
    let Some(kernels) = all.find(|kernels| kernels.attends() && named(kernels)) else {
        println!("this CPU has no such instructions for attention");
        return;
    };
    println!("{}", kernels.name());
    for threads in list(0, "1,2") {
        for cells in list(1, "512,4096,16384") {
            for size in list(3, "64") {
                measure(kernels, threads, PROMPT, cells, 1, size);
                for streams in list(2, "1,8,32") {
                    measure(kernels, threads, 1, cells, streams, size);
                }
            }
        }
    }
}

/// Attention of the last tokens of `cells`.
fn measure(
    kernels: Kernels,
    threads: usize,
    tokens: usize,
    cells: usize,
    streams: usize,
    size: usize,
) {
    let queries: Vec<f32> = (0..streams * tokens * HEADS * size)
        .map(|index| (index * 7919 % 1000) as f32 / 500.0 - 1.0)
        .collect();
    // From 0.5 to 1, with either sign.
    let halves: Vec<u16> = (0..streams * cells * KV_HEADS * size)
        .map(|index| {
            let bits = (index.wrapping_mul(0x9e37_79b9) >> 8) as u16;
            0x3800 | bits & 0x83ff
        })
        .collect();
    let values = halves.clone();
    let mask: Vec<u16> = (0..tokens * cells)
        .map(|index| {
            let (token, cell) = (index / cells, index % cells);
            if cell <= cells - tokens + token {
                0
            } else {
                0xfc00
            }
        })
        .collect();
    let mut out = vec![0.0; queries.len()];
    let rows = |first: *const u8, bytes: usize, heads: usize, rows: usize| Rows {
        first,
        strides: [heads * bytes, bytes, rows * heads * bytes],
    };
    let attention = Attention {
        tokens,
        heads: HEADS,
        kv_heads: KV_HEADS,
        cells,
        streams,
        key_size: size,
        value_size: size,
        queries: rows(queries.as_ptr().cast(), size * 4, HEADS, tokens),
        keys: rows(halves.as_ptr().cast(), size * 2, KV_HEADS, cells),
        key_numbers: Numbers::F16,
        values: rows(values.as_ptr().cast(), size * 2, KV_HEADS, cells),
        value_numbers: Numbers::F16,
        mask: Some(Rows {
            first: mask.as_ptr().cast(),
            strides: [cells * 2, 0, 0],
        }),
        sinks: std::ptr::null(),
        scale: 0.125,
        cap: 0.0,
        max_bias: 0.0,
        out: out.as_mut_ptr(),
    };
    let mut scratch = vec![0u8; attention.scratch_bytes(threads) + 64];
    let skipped = scratch.as_ptr().align_offset(64);
    let scratch = scratch[skipped..].as_mut_ptr();
    let mut times = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < TIME || times.len() < 5 {
        let start = Instant::now();
        compute(kernels, &attention, threads, scratch);
        times.push(start.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    let median = times[times.len() / 2];
    let seen = tokens * (cells - tokens) + tokens * (tokens + 1) / 2;
    println!(
        "{threads} threads, {streams:>2} x {tokens:>3} tokens, {cells:>5} cells of {size}: median {:9.1} us, best {:9.1} us, {:5.1} GFLOPS, {:5.1} GB/s of keys and values",
        median * 1e6,
        times[0] * 1e6,
        4e-9 * (streams * seen * HEADS * size) as f64 / median,
        4e-9 * (streams * cells * KV_HEADS * size) as f64 / median,
    );
}

/// Threads take parts until none is left.
fn compute(kernels: Kernels, attention: &Attention, threads: usize, scratch: *mut u8) {
    /// Attention that threads share.
    #[derive(Clone, Copy)]
    struct Shared<'a>(&'a Attention);
    // SAFETY: threads compute other parts.
    unsafe impl Send for Shared<'_> {}
    let next = AtomicUsize::new(0);
    let barrier = Barrier::new(threads);
    let work = |thread: usize, attention: &Attention, scratch: usize| {
        let scratch = scratch as *mut u8;
        loop {
            let part = next.fetch_add(1, Ordering::Relaxed);
            if part >= attention.parts(threads) {
                break;
            }
            // SAFETY: everything is as long as it says, and each part is computed by one thread.
            unsafe { attention.compute(kernels, part, threads, scratch) };
        }
        barrier.wait();
        for index in (thread..attention.merges(threads)).step_by(threads) {
            // SAFETY: all parts were computed.
            unsafe { attention.merge(kernels, index, threads, scratch) };
        }
    };
    let scratch = scratch.addr();
    std::thread::scope(|scope| {
        for thread in 1..threads {
            let shared = Shared(attention);
            let work = &work;
            scope.spawn(move || {
                let shared = shared;
                work(thread, shared.0, scratch);
            });
        }
        work(0, attention, scratch);
    });
}
