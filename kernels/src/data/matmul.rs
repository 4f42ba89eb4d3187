//! The operands of a matmul, and how threads divide it.

use std::marker::PhantomData;
use std::ops::Range;

use crate::data::format::Format;
use crate::data::panel::ROWS;

/// A matrix of packed weights and the quantized activations that it is multiplied by.
#[derive(Clone, Copy)]
pub struct Matmul<'a> {
    /// The weights' format in the file.
    pub format: Format,
    /// Rows of weights: elements of the result for each activation.
    pub rows: usize,
    /// Columns: weights of a row, and elements of an activation.
    pub cols: usize,
    /// Weights as `Kernels::pack` left them.
    pub panels: &'a [u8],
    /// Number of activations.
    pub tokens: usize,
    /// Activations as `Kernels::quantize` left them.
    pub activations: &'a [u8],
}

/// Memory of results. The element of a row and a token is at `token * stride + row`.
#[derive(Clone, Copy)]
pub struct Output<'a> {
    first: *mut f32,
    len: usize,
    pub(crate) stride: usize,
    matrix: PhantomData<&'a mut [f32]>,
}

// SAFETY: an `Output` is an address; what is done with it is unsafe, and says who may write what.
unsafe impl Send for Output<'_> {}
// SAFETY: as above.
unsafe impl Sync for Output<'_> {}

impl Output<'_> {
    /// Results in memory that several threads share: `len` elements from `first`, `stride` from one
    /// token to the next.
    ///
    /// # Safety
    /// `first` must be valid for reads and writes of `len` elements for as long as the `Output` is
    /// used, and aligned.
    pub unsafe fn new(first: *mut f32, len: usize, stride: usize) -> Self {
        Self {
            first,
            len,
            stride,
            matrix: PhantomData,
        }
    }

    /// Returns true if the results of a matmul fit.
    pub(crate) fn holds(&self, rows: usize, tokens: usize) -> bool {
        tokens == 0
            || rows == 0
            || (rows <= self.stride && (tokens - 1) * self.stride + rows <= self.len)
    }

    /// The place of a result.
    ///
    /// # Safety
    /// The result must belong to a matmul that [`Output::holds`].
    pub(crate) unsafe fn at(&self, token: usize, row: usize) -> *mut f32 {
        // SAFETY: the caller promises that the place is inside.
        unsafe { self.first.add(token * self.stride + row) }
    }

    /// Writes a result.
    ///
    /// # Safety
    /// As for [`Output::at`], and nobody else may read or write that place.
    pub(crate) unsafe fn write(&self, token: usize, row: usize, value: f32) {
        // SAFETY: the caller promises both.
        unsafe { *self.at(token, row) = value };
    }
}

/// Some of the panels times some of the activations: what one thread computes at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) panels: Range<usize>,
    pub(crate) tokens: Range<usize>,
}

/// Parts a thread should get, so that threads that are interrupted leave some of theirs to others.
const PARTS_PER_THREAD: usize = 4;
/// Parts of a thread for a single activation. They are few and long, because each is read from a
/// place of its own.
const PARTS_OF_ONE: usize = 2;
/// Panels that such a part has at least if a thread gets more than one.
const PANELS_OF_ONE: usize = 16;
/// Panels that a part has at least if it has many activations, which every part brings into order
/// for itself.
const PANELS_PER_PART: usize = 8;
/// More activations than this are many.
const FEW: usize = 16;
/// Parts are of different sizes where there are so many panels for each.
const TAPERED: usize = 3;
/// Fewest activations of a part that does not have all of them: so many make the cost of preparing
/// a panel negligible.
const TOKENS_PER_PART: usize = 256;

/// Returns the number of parts of a matmul.
pub(crate) fn parts(rows: usize, tokens: usize, threads: usize) -> usize {
    if tokens == 0 {
        return 0;
    }
    let panels = rows.div_ceil(ROWS);
    let threads = threads.max(1);
    let wanted = threads
        * match tokens {
            1 if panels < threads * PARTS_OF_ONE * PANELS_OF_ONE => 1,
            1 => PARTS_OF_ONE,
            _ => PARTS_PER_THREAD,
        };
    let across = across(tokens, wanted);
    let down = match (wanted / across).min(panels) {
        down if tokens > FEW && across == 1 => {
            down.min((panels / PANELS_PER_PART).max(1).next_multiple_of(threads))
        }
        down => down,
    };
    across * down.min(panels)
}

/// Into how many groups the activations of a matmul of so many parts are divided.
fn across(tokens: usize, parts: usize) -> usize {
    (1..=parts)
        .rev()
        .find(|across| parts.is_multiple_of(*across) && tokens / across >= TOKENS_PER_PART)
        .unwrap_or(1)
}

/// Returns the rows and activations of a part.
pub(crate) fn span(matmul: &Matmul<'_>, part: usize, parts: usize) -> Span {
    let across = across(matmul.tokens, parts);
    let down = parts / across;
    let share =
        |all: usize, part: usize, parts: usize| all * part / parts..all * (part + 1) / parts;
    let panels = matmul.rows.div_ceil(ROWS);
    let tapered = (2..=FEW).contains(&matmul.tokens) && panels >= TAPERED * down;
    Span {
        panels: if tapered {
            from(panels, part, parts)..from(panels, part + 1, parts)
        } else {
            share(panels, part % down, down)
        },
        tokens: share(matmul.tokens, part / down, across),
    }
}

/// The first panel of a part, if each has fewer than the one before, so that threads which take one
/// after the other end together.
fn from(panels: usize, part: usize, parts: usize) -> usize {
    let after = parts - part;
    panels - (panels * after * after).div_ceil(parts * parts)
}
