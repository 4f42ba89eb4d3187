//! AMX-INT8: one instruction multiplies a tile of 16 activations by a tile of 16 rows.

use std::arch::asm;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;
use std::sync::LazyLock;

use crate::data::activation::{Factors, ORIGIN};
use crate::data::panel::{BLOCK, GROUP, ROWS};
use crate::x86::expand::Shape;
use crate::x86::strip::Strip;

/// Number of activations of a tile.
pub(crate) const TOKENS: usize = 16;

/// A block of the activations of a tile.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Block {
    integers: [[u8; BLOCK]; TOKENS],
    /// The factors, as in [`Factors`].
    scales: [f32; TOKENS],
    totals: [f32; TOKENS],
}

impl Block {
    pub(crate) const ZERO: Self = Self {
        integers: [[0; BLOCK]; TOKENS],
        scales: [0.0; TOKENS],
        totals: [0.0; TOKENS],
    };

    /// Puts an activation's integers and factors.
    pub(crate) fn put(&mut self, token: usize, integers: &[u8; BLOCK], factors: Factors) {
        self.integers[token] = *integers;
        self.scales[token] = factors.scale;
        self.totals[token] = factors.total;
    }
}

/// Returns true if the CPU has the instructions and the system lets this process use them.
pub(crate) fn available() -> bool {
    static AVAILABLE: LazyLock<bool> = LazyLock::new(|| {
        // Bits 24 and 25: tiles, and products of bytes. The system must save the tiles of a thread
        // that it interrupts (17 and 18 of XCR0).
        let features = __cpuid_count(7, 0).edx;
        let saves = __cpuid(1).ecx & (1 << 27) != 0;
        // SAFETY: the system has switched XGETBV on, as the bit above says.
        let saved = if saves { unsafe { xcr0() } } else { 0 };
        features & (3 << 24) == 3 << 24 && saved & (3 << 17) == 3 << 17 && permitted()
    });
    *AVAILABLE
}

#[target_feature(enable = "xsave")]
fn xcr0() -> u64 {
    // SAFETY: register 0 exists wherever XGETBV does.
    unsafe { _xgetbv(0) }
}

/// Asks Linux for tiles: a thread has room for them only after that.
#[cfg(target_os = "linux")]
fn permitted() -> bool {
    const REQUEST: libc::c_long = 0x1023;
    const TILE_DATA: libc::c_long = 18;
    // SAFETY: the call reads its arguments alone.
    unsafe { libc::syscall(libc::SYS_arch_prctl, REQUEST, TILE_DATA) == 0 }
}

/// Other systems are asked in other ways, or not at all.
#[cfg(not(target_os = "linux"))]
fn permitted() -> bool {
    false
}

/// The shapes of the eight tiles.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Tiles {
    palette: u8,
    start: u8,
    reserved: [u8; 14],
    bytes: [u16; 16],
    rows: [u8; 16],
}

/// Tiles as the kernels want them; dropping it brings back the shapes from before, which may be
/// somebody else's.
pub(crate) struct TileGuard {
    before: Tiles,
}

/// Sets the shapes of this thread's tiles: 0 holds activations, 1 weights, and 2 and 3 sums.
pub(crate) fn configure() -> TileGuard {
    let mut tiles = Tiles {
        palette: 1,
        start: 0,
        reserved: [0; 14],
        bytes: [0; 16],
        rows: [0; 16],
    };
    for (tile, (rows, bytes)) in [(TOKENS, BLOCK), (BLOCK / 4, 64), (TOKENS, 64), (TOKENS, 64)]
        .into_iter()
        .enumerate()
    {
        tiles.rows[tile] = rows as u8;
        tiles.bytes[tile] = bytes as u16;
    }
    let mut before = tiles;
    // SAFETY: both are 64 bytes, and `available` says that the instructions are there.
    unsafe {
        asm!("sttilecfg [{}]", in(reg) &raw mut before, options(nostack));
        asm!("ldtilecfg [{}]", in(reg) &raw const tiles, options(nostack));
    }
    TileGuard { before }
}

impl Drop for TileGuard {
    fn drop(&mut self) {
        // SAFETY: what was read from the CPU, which may be given back to it.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const self.before, options(nostack)) };
    }
}

/// Returns true if records of a shape are multiplied here. With two scales in a record, tiles are
/// half empty and the vector instructions are faster. Those also take records with two minima.
pub(crate) fn suits(shape: Shape) -> bool {
    matches!(shape, Shape::Plain | Shape::Minima)
}

/// Multiplies activations by records of signed weights, of a shape that [`suits`].
///
/// # Safety
/// The CPU must have the instructions, and this thread's tiles be configured; the strip's
/// activations and the places of its results must exist.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(crate) unsafe fn multiply(strip: &Strip<'_, Block>) {
    for (tile, first) in (0..strip.tokens).step_by(strip.height).enumerate() {
        // SAFETY: as the caller promises, and the tile and its results are of the strip.
        unsafe {
            let blocks = strip.tiles.first.add(tile * strip.tiles.step);
            let out = strip.out.add(first * strip.stride);
            let tokens = TOKENS.min(strip.tokens - first);
            for half in 0..2 {
                if strip.shape == Shape::Minima {
                    side::<true>(strip, tile, blocks, out, tokens, half);
                } else {
                    side::<false>(strip, tile, blocks, out, tokens, half);
                }
            }
        }
    }
}

/// The sums of a block and 16 rows, a line for each activation.
#[repr(C, align(64))]
struct Sums([[i32; 16]; TOKENS]);

/// From one activation's integers to the next's. Twice this is from one line of sums to the next,
/// and four times from one group of weights to the next.
const STEP: usize = BLOCK;
const _: () = assert!(4 * STEP == GROUP && 2 * STEP * TOKENS == size_of::<Sums>());

/// Multiplies a block of activations by 16 rows of a record. The sums get into a tile.
///
/// # Safety
/// The tiles must be configured, and the weights be those of 16 rows.
#[inline]
unsafe fn start<const TILE: usize>(integers: *const Block, weights: *const u8) {
    // SAFETY: as the caller promises; a tile's lines are inside of what the addresses are of.
    unsafe {
        asm!(
            "tileloadd tmm0, [{integers} + {step}]",
            "tileloadd tmm1, [{weights} + 4 * {step}]",
            "tilezero tmm{tile}",
            "tdpbssd tmm{tile}, tmm0, tmm1",
            integers = in(reg) integers, weights = in(reg) weights, step = in(reg) STEP, tile = const TILE, options(nostack, readonly)
        );
    }
}

/// Writes a tile of sums.
///
/// # Safety
/// The tiles must be configured, and nobody else may read or write the place.
#[inline]
unsafe fn store<const TILE: usize>(sums: *mut Sums) {
    // SAFETY: as the caller promises.
    unsafe {
        asm!(
            "tilestored [{sums} + 2 * {step}], tmm{tile}",
            sums = in(reg) sums, step = in(reg) STEP, tile = const TILE, options(nostack)
        );
    }
}

/// Multiplies a tile by one side of the panel. Two tiles of sums take turns: that of a block is
/// written when the block before it is scaled, and used again at once for the block after the next,
/// so that nothing waits for a multiplication.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn side<const MINIMA: bool>(
    strip: &Strip<'_, Block>,
    index: usize,
    blocks: *const Block,
    out: *mut f32,
    tokens: usize,
    side: usize,
) {
    // SAFETY: as the caller promises.
    unsafe {
        let out = out.add(16 * side);
        let (records, count) = (strip.records.as_ptr(), strip.records.len());
        let weights = |at: usize| records.add(at).cast::<u8>().add(64 * side);
        let mut totals = [_mm512_setzero_ps(); TOKENS];
        if strip.resume {
            for t in 0..TOKENS {
                if t < tokens {
                    totals[t] = _mm512_loadu_ps(out.add(t * strip.stride));
                }
            }
        }
        // Where the next results go, which no cache has yet: those of the other side, of the next
        // tile or of the next panel.
        let mut place = if side == 0 {
            out.wrapping_add(16)
        } else if (index + 1) * TOKENS < strip.tokens {
            out.wrapping_add(TOKENS * strip.stride).wrapping_sub(16)
        } else {
            strip.out.wrapping_add(ROWS)
        };
        let mut fetch = strip.next.from((2 * index + side) * count);
        // Adding an integer to the bits of this float gives the bits of the float plus the integer.
        let origin = _mm512_castps_si512(_mm512_set1_ps(ORIGIN));
        let mut sums = MaybeUninit::<[Sums; 2]>::uninit();
        let sums = sums.as_mut_ptr().cast::<Sums>();
        start::<2>(blocks, weights(0));
        if count > 1 {
            start::<3>(blocks.add(1), weights(1));
        }
        for step in 0..=count {
            if step < count {
                let after = step + 2;
                if step % 2 == 0 {
                    store::<2>(sums);
                    if after < count {
                        start::<2>(blocks.add(after), weights(after));
                    }
                } else {
                    store::<3>(sums.add(1));
                    if after < count {
                        start::<3>(blocks.add(after), weights(after));
                    }
                }
            }
            let Some(at) = step.checked_sub(1) else {
                continue;
            };
            if at < TOKENS {
                _mm_prefetch::<_MM_HINT_ET0>(place.cast());
                place = place.wrapping_add(strip.stride);
            }
            fetch.next();
            let (record, block) = (&*records.add(at), &*blocks.add(at));
            if side == 1 {
                // The next tile's, which this one's first side has left no time for.
                let next = blocks.wrapping_add(strip.tiles.step + at).cast::<i8>();
                for line in 0..size_of::<Block>() / 64 {
                    _mm_prefetch::<_MM_HINT_T0>(next.wrapping_add(64 * line));
                }
            }
            // While tiles are used, vectors multiply at half the speed, so the sums are not
            // converted by another multiplication.
            let scales = _mm512_load_ps(record.scales.as_ptr().add(16 * side));
            let offsets = _mm512_mul_ps(scales, _mm512_set1_ps(-ORIGIN));
            let lines = sums.add(at % 2).cast::<__m512i>();
            for t in 0..TOKENS {
                let sum = _mm512_castsi512_ps(_mm512_add_epi32(origin, *lines.add(t)));
                let matmul = _mm512_fmadd_ps(sum, scales, offsets);
                totals[t] = _mm512_fmadd_ps(matmul, _mm512_set1_ps(block.scales[t]), totals[t]);
            }
            if MINIMA {
                let minima = _mm512_load_ps(record.others.as_ptr().add(16 * side));
                for t in 0..TOKENS {
                    let total = _mm512_set1_ps(block.totals[t]);
                    totals[t] = _mm512_fnmadd_ps(minima, total, totals[t]);
                }
            }
        }
        for t in 0..TOKENS {
            if t < tokens {
                _mm512_storeu_ps(out.add(t * strip.stride), totals[t]);
            }
        }
    }
}
