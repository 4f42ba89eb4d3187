//! The order in which the panels and activations of a thread are multiplied, so that what is used
//! again is in a cache.

use std::cell::RefCell;

use crate::data::activation::{self, ActivationLayout};
use crate::data::matmul::{Matmul, Output, Span};
use crate::data::panel::{self, BLOCK, ROWS};
use crate::x86::avx2::{bytes, words};
use crate::x86::expand::{self, Shape};
use crate::x86::groups::Groups;
use crate::x86::strip::{Lines, Record, Strip};
use crate::x86::tiles::{self, Tiles};
use crate::x86::{amx, avx512, small_batch};

/// Instructions of a matmul.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instructions {
    Amx,
    Avx512,
    AvxVnni,
    Avx2,
}

/// With this many activations, AMX multiplies.
const AMX_TOKENS: usize = 32;
/// With no more activations than this, weights come from memory and are used once.
const FEW: usize = 16;
/// Records that are expanded at a time for few activations: a part of L1.
const RECORDS_FEW: usize = 4;
/// Maximum number of records that are expanded at a time for more activations. They take half of
/// L1; a tile of activations and the next one take the rest.
const RECORDS: usize = 16;
/// The same where records are reused so often that they need not stay: for AVX2, and for AVX-512
/// and more activations than [`MANY`].
const RECORDS_MANY: usize = 32;
/// More activations than this are many.
const MANY: usize = 64;
/// Bytes of activations that are multiplied by one panel after the other: a part of L2. If these
/// are not all columns, every panel is multiplied by them before more columns are.
const ACTIVATIONS: usize = 768 << 10;

/// Activations are taken in multiples of this, which fills the tiles of every kernel.
const TILES: usize = 112;

/// Memory that a thread uses again and again.
#[derive(Default)]
struct Space {
    records: Vec<Record>,
    /// The results of a panel that is not full.
    rest: Vec<f32>,
    high: Vec<amx::Block>,
    narrow: Vec<bytes::ByteBlock>,
    wide: Vec<words::WordBlock>,
    records_of_words: Vec<Record<i16>>,
}

/// Takes units of a format to records.
type Expand<'a, W> = &'a dyn Fn(&[u8], &mut [Record<W>]);

/// Way of a set of instructions to multiply activations in tiles of `T` by weights as `W`.
struct Way<'a, T, W> {
    /// Brings activations into tiles: from which, how many, and how many to a tile.
    tiles: &'a mut dyn FnMut(usize, usize, usize) -> Tiles<T>,
    expand: Expand<'a, W>,
    /// Multiplies a strip of activations by a panel.
    compute: &'a dyn Fn(&Strip<'_, T, W>),
    /// Records that are expanded at a time for all but few activations, at most.
    records: usize,
    /// The steps that it takes for each record.
    steps: usize,
    /// Number of activations of a tile.
    height: usize,
    /// True if tiles may be lower. They are then made about equally high.
    balance: bool,
}

thread_local! {
    static SPACE: RefCell<Space> = RefCell::default();
}

/// Multiplies some of the panels by some of the activations.
///
/// # Safety
/// The CPU must have the instructions. The buffers must fit the matmul, and no other code may read
/// or write the elements of `out` that belong to the span.
pub(crate) unsafe fn multiply(
    instructions: Instructions,
    matmul: &Matmul<'_>,
    span: &Span,
    out: Output<'_>,
) {
    let format = matmul.format;
    SPACE.with_borrow_mut(|space| {
        let Space {
            records,
            rest,
            high,
            narrow,
            wide,
            records_of_words,
        } = space;
        // SAFETY: as the caller promises, in all of this.
        unsafe {
            match instructions {
                Instructions::Amx
                    if amx::suits(Shape::for_format(format)) && span.tokens.len() >= AMX_TOKENS =>
                {
                    let _configured = amx::configure();
                    let mut way = Way {
                        tiles: &mut |first, count, height| {
                            let tiles = (amx::Block::ZERO, &mut *high);
                            tiles::gather(matmul, first, count, height, tiles, amx::Block::put)
                        },
                        expand: &|units, records| expand::expand512(format, 0, units, records),
                        compute: &|strip| amx::multiply(strip),
                        records: RECORDS,
                        steps: 2,
                        height: amx::TOKENS,
                        balance: false,
                    };
                    blocks(matmul, span, out, &mut way, (records, rest));
                }
                Instructions::Amx | Instructions::Avx512
                    if small_batch::suits512(format, span.tokens.len()) =>
                {
                    small_batch::multiply512(matmul, span, out);
                }
                Instructions::Amx | Instructions::Avx512 => {
                    let mut way = Way {
                        tiles: &mut |first, _, height| tiles::in_place(matmul, first, height),
                        expand: &|units, records| expand::expand512(format, 128, units, records),
                        compute: &|strip| avx512::multiply(strip),
                        records: if span.tokens.len() > MANY {
                            RECORDS_MANY
                        } else {
                            RECORDS
                        },
                        steps: 1,
                        height: avx512::TOKENS,
                        balance: true,
                    };
                    blocks(matmul, span, out, &mut way, (records, rest));
                }
                Instructions::Avx2 if small_batch::suits256(format, span.tokens.len()) => {
                    small_batch::multiply256(matmul, span, out);
                }
                Instructions::Avx2 if words::suits(format) => {
                    let mut way = Way {
                        tiles: &mut |first, count, height| {
                            let tiles = (words::WordBlock::ZERO, &mut *wide);
                            let put =
                                |block: &mut words::WordBlock, token, integers: &_, factors| {
                                    block.put(token, integers, factors);
                                };
                            tiles::gather(matmul, first, count, height, tiles, put)
                        },
                        expand: &|units, records| words::expand(format, units, records),
                        compute: &|strip| words::multiply(strip),
                        records: RECORDS_MANY,
                        steps: 1,
                        height: words::TOKENS,
                        balance: true,
                    };
                    blocks(matmul, span, out, &mut way, (records_of_words, rest));
                }
                Instructions::AvxVnni | Instructions::Avx2 => {
                    let vnni = instructions == Instructions::AvxVnni;
                    let offset = expand::least_offset(format);
                    let mut way = Way {
                        tiles: &mut |first, count, height| {
                            let tiles = (bytes::ByteBlock::ZERO, &mut *narrow);
                            let put =
                                |block: &mut bytes::ByteBlock, token, integers: &_, factors| {
                                    block.put(token, integers, factors, (format, offset));
                                };
                            tiles::gather(matmul, first, count, height, tiles, put)
                        },
                        expand: &|units, records| expand::expand256(format, units, records),
                        compute: &|strip| {
                            if vnni {
                                bytes::multiply_vnni(format, strip);
                            } else {
                                bytes::multiply(format, strip);
                            }
                        },
                        records: if vnni { RECORDS } else { RECORDS_MANY },
                        steps: 1,
                        height: bytes::TOKENS,
                        balance: true,
                    };
                    blocks(matmul, span, out, &mut way, (records, rest));
                }
            }
        }
    });
}

/// Multiplies tiles in a way.
///
/// # Safety
/// As for [`multiply`]; the way gets strips whose results have their places.
unsafe fn blocks<T, W: Copy + Default>(
    matmul: &Matmul<'_>,
    span: &Span,
    out: Output<'_>,
    way: &mut Way<'_, T, W>,
    (records, rest): (&mut Vec<Record<W>>, &mut Vec<f32>),
) {
    let blocks = ActivationLayout::new(matmul.cols).blocks();
    let of_unit = matmul.format.block() / BLOCK;
    let bytes = panel::unit_bytes(matmul.format);
    let few = span.tokens.len() <= FEW;
    // If all columns of the activations stay in L2, the results of a panel are finished before the
    // next panel's.
    let whole = span.tokens.len() * blocks * activation::BYTES <= ACTIVATIONS;
    let chunk = if few {
        RECORDS_FEW.next_multiple_of(of_unit).min(blocks)
    } else {
        balanced(blocks, way.records).next_multiple_of(of_unit)
    };
    let at_once = (ACTIVATIONS / chunk / activation::BYTES).next_multiple_of(TILES);
    let groups = if few {
        Groups::apart(&span.panels)
    } else if whole {
        Groups::neighbors(&span.panels, 1)
    } else {
        Groups::neighbors(&span.panels, span.panels.len())
    };
    records.resize_with(chunk, Record::zero);
    let mut first = span.tokens.start;
    while first < span.tokens.end {
        let tokens = balanced(span.tokens.end - first, at_once)
            .next_multiple_of(TILES)
            .min(span.tokens.end - first);
        let height = if way.balance {
            balanced(tokens, way.height)
        } else {
            way.height
        };
        let tiles = (way.tiles)(first, tokens, height);
        for group in groups.iter() {
            for block in (0..blocks).step_by(chunk) {
                for panel in group.clone() {
                    // SAFETY: these results are of the span.
                    let mut place = (unsafe { out.at(first, panel * ROWS) }, out.stride);
                    if (panel + 1) * ROWS > matmul.rows {
                        rest.resize(tokens * ROWS, 0.0);
                        place = (rest.as_mut_ptr(), ROWS);
                    }
                    let records = &mut records[..chunk.min(blocks - block)];
                    let at = (panel * blocks + block) / of_unit * bytes;
                    let source = &matmul.panels[at..][..records.len() / of_unit * bytes];
                    (way.expand)(source, records);
                    let count = source.len().div_ceil(64);
                    let fetches = tokens.div_ceil(height) * records.len() * way.steps;
                    (way.compute)(&Strip {
                        records,
                        shape: Shape::for_format(matmul.format),
                        tiles: Tiles {
                            first: tiles.first.wrapping_add(block),
                            ..tiles
                        },
                        height,
                        tokens,
                        out: place.0,
                        stride: place.1,
                        resume: block > 0,
                        next: Lines {
                            first: source.as_ptr().wrapping_add(if few || whole {
                                source.len()
                            } else {
                                blocks / of_unit * bytes
                            }),
                            count,
                            at_a_time: count.div_ceil(fetches),
                        },
                    });
                }
            }
        }
        if span.panels.end * ROWS > matmul.rows {
            let full = matmul.rows / ROWS * ROWS;
            for (token, rest) in rest.chunks_exact(ROWS).enumerate() {
                for (row, result) in rest[..matmul.rows - full].iter().enumerate() {
                    // SAFETY: these results are of the span, which is the caller's alone.
                    unsafe { out.write(first + token, full + row, *result) };
                }
            }
        }
        first += tokens;
    }
}

/// Returns the number of things to take in this turn, `at_once` at most, so that the fewest
/// possible turns take about equally many.
fn balanced(left: usize, at_once: usize) -> usize {
    left.div_ceil(left.div_ceil(at_once))
}
