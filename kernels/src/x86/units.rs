//! The units of panels: reads of their bytes and factors, and places for them in records.

#![expect(
    clippy::inline_always,
    reason = "what is not inlined lacks the instructions of its caller"
)]

use crate::data::format::Format;
use crate::data::panel::{self, BLOCK, ROWS};
use crate::x86::strip::Record;
use crate::x86::vector::Vector;

/// Whole units, and the records that each of them is expanded to.
pub(crate) fn units<'a, W>(
    format: Format,
    source: &'a [u8],
    records: &'a mut [Record<W>],
) -> impl Iterator<Item = (Unit<'a>, &'a mut [Record<W>])> {
    let bytes = panel::unit_bytes(format);
    let blocks = format.block() / BLOCK;
    assert_eq!(source.len() / bytes * blocks, records.len());
    let units = source.chunks_exact(bytes).map(Unit);
    units.zip(records.chunks_exact_mut(blocks))
}

/// Returns the numbers that four bits stand for, made larger, repeated over a vector.
#[inline(always)]
pub(crate) unsafe fn table<V: Vector>(format: Format, offset: u8) -> V::Integers {
    let mut table = format.table();
    for number in &mut table {
        *number = number.wrapping_add_unsigned(offset);
    }
    // SAFETY: the caller promises the instructions; there are sixteen bytes.
    unsafe { V::repeat(table.as_ptr()) }
}

/// The bytes of a unit.
#[derive(Clone, Copy)]
pub(crate) struct Unit<'a>(&'a [u8]);

impl Unit<'_> {
    /// Returns the place of so many bytes.
    #[inline(always)]
    pub(crate) fn at(self, first: usize, count: usize) -> *const u8 {
        self.0[first..first + count].as_ptr()
    }

    /// Reads a vector of bytes.
    #[inline(always)]
    pub(crate) unsafe fn bytes<V: Vector>(self, first: usize) -> V::Integers {
        // SAFETY: the caller promises the instructions, and the unit has the bytes.
        unsafe { V::load(self.at(first, V::BYTES)) }
    }

    /// A vector of binary16 values.
    #[inline(always)]
    pub(crate) unsafe fn halves<V: Vector>(self, first: usize) -> V::Floats {
        // SAFETY: as above.
        unsafe { V::half_floats(V::load_words(self.at(first, 2 * V::LANES).cast())) }
    }

    /// A vector of unsigned bytes, as integers.
    #[inline(always)]
    pub(crate) unsafe fn integers<V: Vector>(self, first: usize) -> V::Integers {
        // SAFETY: as above.
        unsafe { V::integers(self.at(first, V::LANES)) }
    }

    /// A vector of signed bytes.
    #[inline(always)]
    pub(crate) unsafe fn signed<V: Vector>(self, first: usize) -> V::Floats {
        // SAFETY: as above.
        unsafe { V::floats(V::signed_integers(self.at(first, V::LANES))) }
    }
}

#[inline(always)]
pub(crate) unsafe fn put<V: Vector>(record: &mut Record, at: usize, weights: V::Integers) {
    let out = &mut record.weights[at..at + V::BYTES];
    // SAFETY: the caller promises the instructions, and the slice has room for a vector.
    unsafe { V::store(out.as_mut_ptr(), weights) };
}

#[inline(always)]
pub(crate) unsafe fn put_factors<V: Vector>(
    factors: &mut [f32; ROWS],
    row: usize,
    values: V::Floats,
) {
    let out = &mut factors[row..row + V::LANES];
    // SAFETY: as above.
    unsafe { V::store_floats(out.as_mut_ptr(), values) };
}

/// Puts binary16 values, one for each row.
#[inline(always)]
pub(crate) unsafe fn put_halves<V: Vector>(factors: &mut [f32; ROWS], unit: Unit<'_>, at: usize) {
    for row in (0..ROWS).step_by(V::LANES) {
        // SAFETY: the caller promises the instructions.
        unsafe { put_factors::<V>(factors, row, unit.halves::<V>(at + 2 * row)) };
    }
}
