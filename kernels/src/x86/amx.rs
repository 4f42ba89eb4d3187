//! AMX-INT8: one instruction multiplies a tile of 16 activations by a tile of 16 rows.

use std::arch::asm;
use std::arch::x86_64::*;
use std::sync::LazyLock;

use crate::activation::Factors;
use crate::panel::BLOCK;
use crate::x86::blocking::{Record, Strip, Totals};
use crate::x86::expand::Shape;

/// Activations of a tile.
const TOKENS: usize = 16;

const PLAIN: u8 = 0;
const MINIMA: u8 = 1;
const HALVES: u8 = 2;

/// Whether the CPU has the instructions and the system lets this process use them.
pub(crate) fn available() -> bool {
    static AVAILABLE: LazyLock<bool> = LazyLock::new(|| {
        // Bits 24 and 25: tiles, and products of bytes. The system must save the tiles of a thread that it interrupts (17 and 18 of XCR0).
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
fn permitted() -> bool {
    const REQUEST: libc::c_long = 0x1023;
    const TILE_DATA: libc::c_long = 18;
    // SAFETY: the call reads its arguments alone.
    cfg!(target_os = "linux")
        && unsafe { libc::syscall(libc::SYS_arch_prctl, REQUEST, TILE_DATA) == 0 }
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

/// Tiles as the kernels want them; dropping it brings back the shapes from before, which may be somebody else's.
pub(crate) struct Configured {
    before: Tiles,
}

/// Sets the shapes of this thread's tiles: 0 holds activations, 1 weights and 2 sums; 3 and 4 are for half a block.
pub(crate) fn configure() -> Configured {
    let mut tiles = Tiles {
        palette: 1,
        start: 0,
        reserved: [0; 14],
        bytes: [0; 16],
        rows: [0; 16],
    };
    for (tile, (rows, bytes)) in [
        (TOKENS, BLOCK),
        (BLOCK / 4, 64),
        (TOKENS, 64),
        (TOKENS, BLOCK / 2),
        (BLOCK / 8, 64),
    ]
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
    Configured { before }
}

impl Drop for Configured {
    fn drop(&mut self) {
        // SAFETY: what was read from the CPU, which may be given back to it.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const self.before, options(nostack)) };
    }
}

/// Multiplies at least 16 activations by records of signed weights.
///
/// # Safety
/// The CPU must have the instructions, and this thread's tiles be configured; the strip's activations must exist, and [`totals`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(crate) unsafe fn multiply(strip: &Strip<'_>) {
    assert!(strip.tokens >= TOKENS);
    // SAFETY: as the caller promises, and all these activations are of the strip.
    unsafe {
        match strip.shape {
            Shape::Plain => tiles::<PLAIN>(strip),
            Shape::Minima => tiles::<MINIMA>(strip),
            Shape::Halves => tiles::<HALVES>(strip),
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn tiles<const SHAPE: u8>(strip: &Strip<'_>) {
    for tile in 0..strip.tokens.div_ceil(TOKENS) {
        let totals = strip.totals.wrapping_add(tile * TOKENS);
        // SAFETY: as the caller promises.
        unsafe {
            side::<SHAPE>(strip, first(tile, strip.tokens), totals, 0);
            side::<SHAPE>(strip, first(tile, strip.tokens), totals, 1);
        }
    }
}

/// The first activation of a tile. The last tile is as high as the others, and begins where it overlaps with the one before.
fn first(tile: usize, tokens: usize) -> usize {
    (tile * TOKENS).min(tokens - TOKENS)
}

/// How many totals some activations have.
pub(crate) fn totals(tokens: usize) -> usize {
    tokens.next_multiple_of(TOKENS)
}

/// The activation that a total belongs to.
pub(crate) fn token(total: usize, tokens: usize) -> usize {
    first(total / TOKENS, tokens) + total % TOKENS
}

#[repr(C, align(64))]
struct Sums([[i32; 16]; TOKENS]);

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn side<const SHAPE: u8>(strip: &Strip<'_>, first: usize, totals: *mut Totals, side: usize) {
    // SAFETY: as the caller promises.
    unsafe {
        let out = totals.cast::<f32>().add(16 * side);
        let mut totals = [_mm512_setzero_ps(); TOKENS];
        for t in 0..TOKENS {
            totals[t] = _mm512_load_ps(out.add(32 * t));
        }
        let integers = strip.integers.add(first * strip.step);
        let mut factors = strip.factors.add(first * strip.step);
        let mut sums: [Sums; 2] = [const { Sums([[0; 16]; TOKENS]) }; 2];
        let parts = if SHAPE == HALVES { 2 } else { 1 };
        let count = strip.records.len() * parts;
        let issue = |at: usize, integers: *const u8, sums: *mut Sums| {
            let record = strip.records.as_ptr().add(at / parts);
            let weights = record.cast::<u8>().add(64 * side + at % parts * 512);
            if SHAPE == HALVES {
                asm!(
                    "tileloadd tmm3, [{integers} + {step}]",
                    "tileloadd tmm4, [{weights} + {row}]",
                    "tilezero tmm2",
                    "tdpbssd tmm2, tmm3, tmm4",
                    "tilestored [{sums} + {line}], tmm2",
                    integers = in(reg) integers.add(16 * at), step = in(reg) strip.step, weights = in(reg) weights,
                    row = in(reg) 128usize, sums = in(reg) sums, line = in(reg) 64usize, options(nostack)
                );
            } else {
                asm!(
                    "tileloadd tmm0, [{integers} + {step}]",
                    "tileloadd tmm1, [{weights} + {row}]",
                    "tilezero tmm2",
                    "tdpbssd tmm2, tmm0, tmm1",
                    "tilestored [{sums} + {line}], tmm2",
                    integers = in(reg) integers.add(32 * at), step = in(reg) strip.step, weights = in(reg) weights,
                    row = in(reg) 128usize, sums = in(reg) sums, line = in(reg) 64usize, options(nostack)
                );
            }
        };
        issue(0, integers, &raw mut sums[0]);
        for at in 0..count {
            if at + 1 < count {
                issue(at + 1, integers, &raw mut sums[(at + 1) % 2]);
            }
            let record: &Record = &strip.records[at / parts];
            let second = at % parts == 1;
            let scales = if second {
                record.others.as_ptr()
            } else {
                record.scales.as_ptr()
            };
            let scales = _mm512_load_ps(scales.add(16 * side));
            for t in 0..TOKENS {
                let scale =
                    _mm512_set1_ps(factors.add(t * strip.step).cast::<f32>().read_unaligned());
                let sum = _mm512_cvtepi32_ps(_mm512_load_si512(sums[at % 2].0[t].as_ptr().cast()));
                totals[t] = _mm512_fmadd_ps(sum, _mm512_mul_ps(scales, scale), totals[t]);
            }
            if SHAPE == MINIMA {
                let minima = _mm512_load_ps(record.others.as_ptr().add(16 * side));
                for t in 0..TOKENS {
                    let total = _mm512_set1_ps(
                        factors
                            .add(t * strip.step + 12)
                            .cast::<f32>()
                            .read_unaligned(),
                    );
                    totals[t] = _mm512_fnmadd_ps(minima, total, totals[t]);
                }
            }
            if at % parts == parts - 1 {
                factors = factors.add(size_of::<Factors>());
            }
        }
        for t in 0..TOKENS {
            _mm512_store_ps(out.add(32 * t), totals[t]);
        }
    }
}
