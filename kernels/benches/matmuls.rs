//! The speed of matmuls, compared to the machine's peak, which is measured on the spot: of its
//! widest integer instruction and of its memory.
//!
//! `cargo bench -p graphmill-kernels -- [FORMATS [TOKENS [THREADS [SHAPES [NAMES]]]]]`, each a list
//! with commas: `Q8_0,Q4_0 1,512 2 4864x896 VNNI`.
#![allow(unsafe_code, reason = "threads share the results of a matmul")]
#![allow(
    clippy::print_stdout,
    reason = "a program that prints what it measured"
)]

mod machine;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use graphmill_kernels::{Format, Kernels, Matmul, Output};

/// How long each matmul is repeated.
const TIME: Duration = Duration::from_millis(150);
/// Bytes of weights that no cache holds.
const COLD: usize = 256 << 20;

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    let list = |at: usize, default: &str| -> Vec<String> {
        arguments
            .get(at)
            .map_or(default, String::as_str)
            .split(',')
            .map(str::to_owned)
            .collect()
    };
    let formats = list(
        0,
        "Q8_0,Q4_0,Q5_0,Q5_1,MxFp4,Iq4Nl,Iq4Xs,Q2K,Q3K,Q4K,Q5K,Q6K,F16,Bf16",
    );
    let tokens = list(1, "1,4,8,16,32,128,512");
    let threads = list(2, "1,2");
    let shapes = list(
        3,
        "896x896,4864x896,896x4864,151936x896,1536x1536,8960x1536,1536x8960",
    );
    let names = list(4, "");
    let number = |text: &String| text.parse::<usize>().expect("a number");

    let mut memory = machine::Pages::new(2 * COLD);
    for threads in threads.iter().map(number) {
        let peak = machine::peak(threads);
        println!(
            "{threads} threads: VNNI loop {peak:.0} GOPS, memory {:.1} GB/s",
            machine::bandwidth(&memory.bytes()[..COLD], threads)
        );
        for kernels in Kernels::all().into_iter().filter(|kernels| {
            names
                .iter()
                .any(|name| kernels.name() != "portable" && kernels.name().contains(name.as_str()))
        }) {
            for format in Format::ALL
                .into_iter()
                .filter(|format| formats.contains(&format!("{format:?}")))
            {
                for (rows, cols) in shapes
                    .iter()
                    .map(|shape| shape.split_once('x').expect("ROWSxCOLS"))
                {
                    let (rows, cols) = (number(&rows.to_owned()), number(&cols.to_owned()));
                    for tokens in tokens.iter().map(number) {
                        if let Some((best, median, bytes)) = measure(
                            kernels,
                            format,
                            (rows, cols),
                            tokens,
                            threads,
                            memory.bytes(),
                        ) {
                            let gops = |time: f64| 2e-9 * (rows * cols * tokens) as f64 / time;
                            println!(
                                "{threads} {:12} {format:?} {rows:>6} x {cols:<5} {tokens:>4} tokens: median {:8.1} us {:5.0} GOPS, best {:8.1} us {:5.0} GOPS, {:3.0} % of the loop, {:4.1} GB/s",
                                kernels.name(),
                                median * 1e6,
                                gops(median),
                                best * 1e6,
                                gops(best),
                                100.0 * gops(best) / peak,
                                bytes as f64 / best * 1e-9,
                            );
                        }
                    }
                }
            }
        }
    }
}

/// The best and the median time of a matmul whose weights come from memory, and their bytes.
fn measure(
    kernels: Kernels,
    format: Format,
    (rows, cols): (usize, usize),
    tokens: usize,
    threads: usize,
    memory: &mut [u8],
) -> Option<(f64, f64, usize)> {
    let bytes = kernels.packed_bytes(format, rows, cols)?;
    let copies = COLD.div_ceil(bytes);
    let row = format.row_bytes(cols);
    let source: Vec<u8> = (0..rows * row)
        .map(|at| ((at * 2_654_435_761) >> 13) as u8 & 0x17 | 0x20)
        .collect();
    kernels.pack(format, cols, &source, &mut memory[..bytes]);
    for copy in 1..copies {
        memory.copy_within(..bytes, copy * bytes);
    }
    let mut activations = vec![0; tokens * kernels.activation_bytes(format, cols)];
    let source: Vec<f32> = (0..tokens * cols)
        .map(|at| f32::from(((at * 40503) >> 3) as u8) / 127.0 - 1.0)
        .collect();
    kernels.quantize(format, cols, &source, &mut activations);
    // Whole cache lines, as llama.cpp's are.
    let mut out = machine::Pages::new(4 * tokens * rows);
    // SAFETY: the numbers live longer than the threads below, and nothing else reads or writes
    // them.
    let results = unsafe { Output::new(out.bytes().as_mut_ptr().cast(), tokens * rows, rows) };
    let parts = kernels.parts(rows, tokens, threads);

    let next = AtomicUsize::new(0);
    let round = AtomicUsize::new(0);
    let finished = AtomicUsize::new(0);
    let work = |copy: usize| {
        let panels = &memory[copy * bytes..][..bytes];
        let matmul = Matmul {
            format,
            rows,
            cols,
            panels,
            tokens,
            activations: &activations,
        };
        loop {
            let part = next.fetch_add(1, Ordering::Relaxed);
            if part >= parts {
                break;
            }
            // SAFETY: the counter gives each part to one thread, and the numbers live longer than
            // the threads.
            unsafe { kernels.multiply(&matmul, results, part, parts) };
        }
    };
    let mut times = Vec::new();
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| {
                for mine in 1.. {
                    while round.load(Ordering::Acquire) < mine {
                        std::hint::spin_loop();
                    }
                    if round.load(Ordering::Acquire) == usize::MAX {
                        break;
                    }
                    work(mine % copies);
                    finished.fetch_add(1, Ordering::AcqRel);
                }
            });
        }
        let begin = Instant::now();
        let mut mine = 0;
        while begin.elapsed() < TIME || mine < 5 {
            next.store(0, Ordering::Relaxed);
            finished.store(0, Ordering::Relaxed);
            mine += 1;
            let start = Instant::now();
            round.store(mine, Ordering::Release);
            work(mine % copies);
            while finished.load(Ordering::Acquire) < threads - 1 {
                std::hint::spin_loop();
            }
            times.push(start.elapsed().as_secs_f64());
        }
        round.store(usize::MAX, Ordering::Release);
    });
    times.sort_by(f64::total_cmp);
    Some((times[0], times[times.len() / 2], bytes))
}
