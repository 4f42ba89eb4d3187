//! What the machine can do.

use std::alloc::Layout;
use std::hint::black_box;
use std::time::Instant;

/// The best of some runs of `work` on each of some threads at once, in seconds.
fn best(threads: usize, work: impl Fn(usize) + Sync) -> f64 {
    let run = || {
        let start = Instant::now();
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let work = &work;
                scope.spawn(move || work(thread));
            }
        });
        start.elapsed().as_secs_f64()
    };
    (0..20).map(|_| run()).fold(f64::MAX, f64::min)
}

/// Operations a nanosecond (a multiplication and an addition are two) of a loop of AVX512-VNNI
/// instructions; NaN without them.
pub(crate) fn peak(threads: usize) -> f64 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512vnni") {
        let rounds = 400_000;
        let time = best(threads, |_| {
            // SAFETY: the CPU has the instructions.
            black_box(unsafe { multiply_adds(rounds) });
        });
        return (threads * rounds * CHAINS * 128) as f64 / time * 1e-9;
    }
    f64::NAN
}

/// Instructions that do not wait for each other.
const CHAINS: usize = 24;

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vnni")]
fn multiply_adds(rounds: usize) -> i32 {
    use std::arch::x86_64::{
        _mm512_add_epi32, _mm512_dpbusd_epi32, _mm512_reduce_add_epi32, _mm512_set1_epi32,
        _mm512_setzero_si512,
    };
    let mut sums = [_mm512_setzero_si512(); CHAINS];
    let (ours, theirs) = (
        _mm512_set1_epi32(0x0102_0304),
        _mm512_set1_epi32(0x0403_0201),
    );
    for _ in 0..rounds {
        for sum in &mut sums {
            *sum = _mm512_dpbusd_epi32(*sum, ours, theirs);
        }
    }
    _mm512_reduce_add_epi32(sums.into_iter().fold(_mm512_setzero_si512(), |all, sum| {
        _mm512_add_epi32(all, sum)
    }))
}

/// Bytes a nanosecond that threads read together from memory, each from several places at once.
pub(crate) fn bandwidth(memory: &[u8], threads: usize) -> f64 {
    const PLACES: usize = 4;
    let part = memory.len() / threads / PLACES;
    let time = best(threads, |thread| {
        let places: [&[u8]; PLACES] =
            std::array::from_fn(|place| &memory[(thread * PLACES + place) * part..][..part]);
        let mut sums = [0u64; 8];
        for line in (0..part).step_by(64) {
            for place in places {
                for (sum, bytes) in sums.iter_mut().zip(place[line..line + 64].as_chunks().0) {
                    *sum ^= u64::from_le_bytes(*bytes);
                }
            }
        }
        black_box(sums);
    });
    memory.len() as f64 / time * 1e-9
}

/// Memory that begins at a page of 2 MiB, all of it touched.
pub(crate) struct Pages {
    first: *mut u8,
    layout: Layout,
}

impl Pages {
    pub(crate) fn new(bytes: usize) -> Self {
        let layout = Layout::from_size_align(bytes, 2 << 20).expect("a size that fits");
        // SAFETY: the layout has a size.
        let first = unsafe { std::alloc::alloc(layout) };
        assert!(!first.is_null(), "no memory");
        // SAFETY: the memory is ours, and as long as this.
        unsafe { first.write_bytes(1, bytes) };
        Self { first, layout }
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the memory is initialized, and borrowed as this is.
        unsafe { std::slice::from_raw_parts_mut(self.first, self.layout.size()) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { std::alloc::dealloc(self.first, self.layout) };
    }
}
