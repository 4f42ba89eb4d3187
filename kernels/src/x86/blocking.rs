//! The order in which the panels and activations of a thread are multiplied, so that what is used again is in a cache.

use std::cell::RefCell;

use crate::activation::Layout;
use crate::panel::{self, BLOCK, ROWS};
use crate::product::{Output, Product, Span};
use crate::x86::expand::{self, Shape};
use crate::x86::{amx, avx512};

/// The instructions that multiply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instructions {
    Amx,
    Avx512,
}

/// A block of columns of a panel, expanded.
#[derive(Clone)]
#[repr(C, align(64))]
pub(crate) struct Record {
    /// As in the panel, a byte each: signed, or with 128 added.
    pub(crate) weights: [u8; ROWS * BLOCK],
    /// The scales of the rows.
    pub(crate) scales: [f32; ROWS],
    /// The minima of the rows, or the scales of the second half of the columns.
    pub(crate) others: [f32; ROWS],
}

/// The results of an activation and the rows of a panel.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Totals(pub(crate) [f32; ROWS]);

/// Activations that are multiplied by some records.
#[derive(Clone, Copy)]
pub(crate) struct Strip<'a> {
    pub(crate) records: &'a [Record],
    pub(crate) shape: Shape,
    /// The first block's integers of the first activation, and its factors.
    pub(crate) integers: *const u8,
    pub(crate) factors: *const u8,
    /// Bytes from one activation to the next.
    pub(crate) step: usize,
    pub(crate) tokens: usize,
    /// Results so far, those of one activation after the other.
    pub(crate) totals: *mut Totals,
}

/// Activations are taken in multiples of this, which fills the tiles of every kernel.
const TILES: usize = 48;
/// With this many activations, AMX multiplies.
const AMX_TOKENS: usize = 16;
/// With no more activations than this, weights come from memory and are used once.
const FEW: usize = 16;
/// Records that are expanded at a time for few activations: a part of the first cache.
const RECORDS_FEW: usize = 8;
/// Records that are expanded at a time for many: a part of the second.
const RECORDS_MANY: usize = 160;
/// Bytes of activations that are multiplied by one panel after the other: a part of the second cache.
const ACTIVATIONS: usize = 512 << 10;

thread_local! {
    static SPACE: RefCell<(Vec<Record>, Vec<Totals>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

/// Multiplies some of the panels by some of the activations.
///
/// # Safety
/// The CPU must have the instructions. The buffers must hold the product, and nobody else may read or write the numbers of `out` that belong to the span.
pub(crate) unsafe fn multiply(
    instructions: Instructions,
    product: &Product<'_>,
    span: &Span,
    out: Output<'_>,
) {
    let layout = Layout::new(product.cols);
    let blocks = layout.blocks();
    let Some(bytes) = panel::record_bytes(product.format) else {
        return;
    };
    let at_once = (ACTIVATIONS / layout.bytes()).clamp(TILES, 1024) / TILES * TILES;
    let chunk = if span.tokens.len() <= FEW {
        RECORDS_FEW
    } else {
        RECORDS_MANY
    }
    .min(blocks);
    let amx = instructions == Instructions::Amx && span.tokens.len() >= AMX_TOKENS;
    let configured = amx.then(amx::configure);
    SPACE.with_borrow_mut(|(records, totals)| {
        records.resize(
            chunk,
            Record {
                weights: [0; ROWS * BLOCK],
                scales: [0.0; ROWS],
                others: [0.0; ROWS],
            },
        );
        totals.resize(at_once, Totals([0.0; ROWS]));
        let mut first = span.tokens.start;
        while first < span.tokens.end {
            let mut tokens = balanced(span.tokens.end - first, at_once);
            if amx && tokens < AMX_TOKENS {
                // The tile is full of activations that have been multiplied before, with the same result.
                (first, tokens) = (span.tokens.end - AMX_TOKENS, AMX_TOKENS);
            }
            let count = if amx { amx::totals(tokens) } else { tokens };
            for panel in span.panels.clone() {
                totals[..count].fill(Totals([0.0; ROWS]));
                for block in (0..blocks).step_by(chunk) {
                    let records = &mut records[..chunk.min(blocks - block)];
                    let at = (panel * blocks + block) * bytes;
                    let source = &product.panels[at..][..records.len() * bytes];
                    let activation = product.activations[first * layout.bytes()..].as_ptr();
                    // SAFETY: the CPU has the instructions.
                    let shape = unsafe { expand::expand(product.format, !amx, source, records) };
                    let strip = Strip {
                        records,
                        shape,
                        integers: activation.wrapping_add(block * BLOCK),
                        factors: activation.wrapping_add(layout.factors(block)),
                        step: layout.bytes(),
                        tokens,
                        totals: totals.as_mut_ptr(),
                    };
                    // SAFETY: the CPU has the instructions, the activations have these blocks, and there is a total for each.
                    unsafe {
                        if amx {
                            amx::multiply(&strip)
                        } else {
                            avx512::multiply(&strip)
                        }
                    }
                }
                let rows = (product.rows - panel * ROWS).min(ROWS);
                for (at, total) in totals[..count].iter().enumerate() {
                    let token = first + if amx { amx::token(at, tokens) } else { at };
                    // SAFETY: these results are of the span, which is the caller's alone.
                    unsafe {
                        total
                            .0
                            .as_ptr()
                            .copy_to_nonoverlapping(out.at(token, panel * ROWS), rows)
                    };
                }
            }
            first += tokens;
        }
    });
    drop(configured);
}

/// How many of some activations to take, no more than `at_once`, so that those who follow are about as many.
fn balanced(left: usize, at_once: usize) -> usize {
    left.div_ceil(left.div_ceil(at_once))
        .next_multiple_of(TILES)
        .min(left)
}
