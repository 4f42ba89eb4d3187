//! Elements of keys and values of every type, as floats.

#![expect(
    clippy::inline_always,
    reason = "what is not inlined lacks the instructions of its caller"
)]

use super::{BF16, F16, F32, NUMBERS_BLOCK as BLOCK, Q4_1, Q5_0, Q5_1, Q8_0};
use crate::x86::vector::Vector;

/// A vector of elements from the element `first` on, a multiple of as many; those behind the first
/// `left` are zero.
///
/// # Safety
/// The CPU must have the instructions; there must be so many elements, in whole blocks.
#[inline(always)]
pub(super) unsafe fn vector<V: Vector, const NUMBERS: u8>(
    source: *const u8,
    first: usize,
    left: usize,
) -> V::Floats {
    // SAFETY: what is absent is not read; a block has whole vectors.
    unsafe {
        match NUMBERS {
            F32 => V::some_floats(source.cast::<f32>().add(first), left),
            F16 => V::half_floats(V::some_words(source.cast::<u16>().add(first), left)),
            BF16 => V::brain_floats(V::some_words(source.cast::<u16>().add(first), left)),
            Q8_0 => {
                let block = source.add(first / BLOCK * 34);
                let integers = V::signed_integers(block.add(2 + first % BLOCK));
                V::multiply(V::floats(integers), V::splat_half(block.cast()))
            }
            Q5_1 => {
                let block = source.add(first / BLOCK * 24);
                let integers = five_bits::<V>(block.add(4), block.add(8), first);
                let least = V::splat_half(block.add(2).cast());
                V::multiply_add(integers, V::splat_half(block.cast()), least)
            }
            Q5_0 => {
                let block = source.add(first / BLOCK * 22);
                let integers = five_bits::<V>(block.add(2), block.add(6), first);
                let integers = V::subtract(integers, V::splat_float(16.0));
                V::multiply(integers, V::splat_half(block.cast()))
            }
            Q4_1 => {
                let block = source.add(first / BLOCK * 20);
                let integers = V::floats(four_bits::<V>(block.add(4), first));
                let least = V::splat_half(block.add(2).cast());
                V::multiply_add(integers, V::splat_half(block.cast()), least)
            }
            _ => {
                let block = source.add(first / BLOCK * 18);
                let integers = V::floats(four_bits::<V>(block.add(2), first));
                let integers = V::subtract(integers, V::splat_float(8.0));
                V::multiply(integers, V::splat_half(block.cast()))
            }
        }
    }
}

/// Integers of a block: the lower bits of its bytes, or the upper ones.
#[inline(always)]
unsafe fn four_bits<V: Vector>(bytes: *const u8, first: usize) -> V::Integers {
    // SAFETY: as the caller promises.
    unsafe {
        let bytes = V::integers(bytes.add(first % (BLOCK / 2)));
        if first % BLOCK < BLOCK / 2 {
            V::low_four(bytes)
        } else {
            V::high_four(bytes)
        }
    }
}

/// Integers of a block with the fifth bit of each, which are together.
#[inline(always)]
unsafe fn five_bits<V: Vector>(fifth: *const u8, bytes: *const u8, first: usize) -> V::Floats {
    // SAFETY: as the caller promises.
    unsafe {
        let four = four_bits::<V>(bytes, first);
        V::floats(V::with_fifth(four, fifth.add(first % BLOCK / 8)))
    }
}
