//! Vectors of AVX2 and of AVX-512, for code that is the same with both.
//!
//! Such code is inlined into a function that has the instructions: by itself it would be compiled
//! without them. So all of it is `#[inline(always)]`, and none of it is in closures.

use std::arch::x86_64::*;

/// Vectors of 32 bytes, with AVX2, FMA and F16C.
pub(crate) enum Avx2 {}

/// Vectors of 64 bytes, with AVX-512 and its byte instructions.
pub(crate) enum Avx512 {}

/// Declares operations on vectors, each with what computes it with AVX2 and with AVX-512.
macro_rules! operations {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $kind:ty),*) -> $result:ty
        { $narrow:expr; $wide:expr })*) => {
        /// Vectors of a set of instructions. All functions need these instructions, and memory
        /// where they read or write.
        pub(crate) trait Vector {
            /// Rows of a vector: elements of 32 bits.
            const LANES: usize;
            /// Number of bytes of a vector.
            const BYTES: usize = 4 * Self::LANES;
            /// Vector of integers of any width.
            type Integers: Copy;
            /// Vector of `LANES` floats.
            type Floats: Copy;
            /// Vector of `LANES` words of 16 bits.
            type Words: Copy;
            $($(#[$doc])* unsafe fn $name($($argument: $kind),*) -> $result;)*
        }

        impl Vector for Avx2 {
            const LANES: usize = 8;
            type Integers = __m256i;
            type Floats = __m256;
            type Words = __m128i;
            $(#[inline(always)]
            unsafe fn $name($($argument: $kind),*) -> $result {
                // SAFETY: the caller promises the instructions and the memory.
                unsafe { $narrow }
            })*
        }

        impl Vector for Avx512 {
            const LANES: usize = 16;
            type Integers = __m512i;
            type Floats = __m512;
            type Words = __m256i;
            $(#[inline(always)]
            unsafe fn $name($($argument: $kind),*) -> $result {
                // SAFETY: as above.
                unsafe { $wide }
            })*
        }
    };
}

operations! {
    /// Reads a vector of bytes from any address.
    fn load(from: *const u8) -> Self::Integers
        { _mm256_loadu_si256(from.cast()); _mm512_loadu_si512(from.cast()) }
    /// Writes a vector of bytes to any address.
    fn store(to: *mut u8, bytes: Self::Integers) -> ()
        { _mm256_storeu_si256(to.cast(), bytes); _mm512_storeu_si512(to.cast(), bytes) }
    /// Fills a vector with copies of sixteen bytes.
    fn repeat(from: *const i8) -> Self::Integers {
        _mm256_broadcastsi128_si256(_mm_loadu_si128(from.cast()));
        _mm512_broadcast_i32x4(_mm_loadu_si128(from.cast()))
    }
    /// Fills a vector with copies of a byte.
    fn splat(byte: u8) -> Self::Integers
        { _mm256_set1_epi8(byte.cast_signed()); _mm512_set1_epi8(byte.cast_signed()) }
    /// Returns the bits that are set in both.
    fn and(a: Self::Integers, b: Self::Integers) -> Self::Integers
        { _mm256_and_si256(a, b); _mm512_and_si512(a, b) }
    /// Returns the bits that are set in either.
    fn or(a: Self::Integers, b: Self::Integers) -> Self::Integers
        { _mm256_or_si256(a, b); _mm512_or_si512(a, b) }
    /// Adds bytes, without carries between them.
    fn add(a: Self::Integers, b: Self::Integers) -> Self::Integers
        { _mm256_add_epi8(a, b); _mm512_add_epi8(a, b) }
    /// The bits of words of 16 bits, so many places up.
    fn up(words: Self::Integers, bits: i32) -> Self::Integers {
        _mm256_sll_epi16(words, _mm_cvtsi32_si128(bits));
        _mm512_sll_epi16(words, _mm_cvtsi32_si128(bits))
    }
    /// The bits of words of 16 bits, so many places down.
    fn down(words: Self::Integers, bits: i32) -> Self::Integers {
        _mm256_srl_epi16(words, _mm_cvtsi32_si128(bits));
        _mm512_srl_epi16(words, _mm_cvtsi32_si128(bits))
    }
    /// The bytes of a table of sixteen, which was repeated, at these indexes.
    fn look_up(table: Self::Integers, indexes: Self::Integers) -> Self::Integers
        { _mm256_shuffle_epi8(table, indexes); _mm512_shuffle_epi8(table, indexes) }
    /// The products of words of 16 bits.
    fn multiply_words(a: Self::Integers, b: Self::Integers) -> Self::Integers
        { _mm256_mullo_epi16(a, b); _mm512_mullo_epi16(a, b) }
    /// Small integers of 32 bits, in both words of their places.
    fn both_words(integers: Self::Integers) -> Self::Integers {
        _mm256_or_si256(integers, _mm256_slli_epi32::<16>(integers));
        _mm512_or_si512(integers, _mm512_slli_epi32::<16>(integers))
    }
    /// Unsigned bytes as integers of 32 bits.
    fn integers(from: *const u8) -> Self::Integers {
        _mm256_cvtepu8_epi32(_mm_loadl_epi64(from.cast()));
        _mm512_cvtepu8_epi32(_mm_loadu_si128(from.cast()))
    }
    /// Signed bytes as integers of 32 bits.
    fn signed_integers(from: *const u8) -> Self::Integers {
        _mm256_cvtepi8_epi32(_mm_loadl_epi64(from.cast()));
        _mm512_cvtepi8_epi32(_mm_loadu_si128(from.cast()))
    }
    /// The lower four bits of integers of 32 bits, if there are no more than eight.
    fn low_four(integers: Self::Integers) -> Self::Integers {
        _mm256_and_si256(integers, _mm256_set1_epi32(15));
        _mm512_and_si512(integers, _mm512_set1_epi32(15))
    }
    /// Integers of 32 bits, four bits down.
    fn high_four(integers: Self::Integers) -> Self::Integers
        { _mm256_srli_epi32::<4>(integers); _mm512_srli_epi32::<4>(integers) }
    /// Integers of 32 bits as floats.
    fn floats(integers: Self::Integers) -> Self::Floats
        { _mm256_cvtepi32_ps(integers); _mm512_cvtepi32_ps(integers) }
    /// Reads words of 16 bits, as many as floats.
    fn load_words(from: *const u16) -> Self::Words
        { _mm_loadu_si128(from.cast()); _mm256_loadu_si256(from.cast()) }
    /// Reads the first words of as many as floats; the others are zero.
    fn some_words(from: *const u16, count: usize) -> Self::Words {
        {
            let mut words = [0_u16; 8];
            let from = if count == words.len() {
                from
            } else {
                from.copy_to_nonoverlapping(words.as_mut_ptr(), count);
                words.as_ptr()
            };
            _mm_loadu_si128(from.cast())
        };
        _mm256_maskz_loadu_epi16(u16::MAX >> (16 - count), from.cast())
    }
    /// Reads the first floats of a vector; the others are zero.
    fn some_floats(from: *const f32, count: usize) -> Self::Floats {
        {
            let mut floats = [0_f32; 8];
            let from = if count == floats.len() {
                from
            } else {
                from.copy_to_nonoverlapping(floats.as_mut_ptr(), count);
                floats.as_ptr()
            };
            _mm256_loadu_ps(from)
        };
        _mm512_maskz_loadu_ps(u16::MAX >> (16 - count), from)
    }
    /// A bit for each of 32 words of 16 bits, of which the first exist, that is this number.
    fn equal_words(from: *const i16, count: usize, number: i16) -> u32 {
        {
            let mut words = [0_i16; 32];
            let from = if count == words.len() {
                from
            } else {
                from.copy_to_nonoverlapping(words.as_mut_ptr(), count);
                words.as_ptr()
            };
            let number = _mm256_set1_epi16(number);
            let low = _mm256_cmpeq_epi16(_mm256_loadu_si256(from.cast()), number);
            let high = _mm256_cmpeq_epi16(_mm256_loadu_si256(from.add(16).cast()), number);
            // Packing takes half of each in turn.
            let both = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi16(low, high));
            _mm256_movemask_epi8(both).cast_unsigned() & u32::MAX >> (32 - count)
        };
        {
            let present = u32::MAX >> (32 - count);
            let words = _mm512_maskz_loadu_epi16(present, from);
            _mm512_mask_cmpeq_epi16_mask(present, words, _mm512_set1_epi16(number))
        }
    }
    /// Converts binary16 words to floats.
    fn half_floats(words: Self::Words) -> Self::Floats
        { _mm256_cvtph_ps(words); _mm512_cvtph_ps(words) }
    /// Words that are the upper halves of floats, as these.
    fn brain_floats(words: Self::Words) -> Self::Floats {
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(words)));
        _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(words)))
    }
    /// The same binary16 value everywhere, as a float.
    fn splat_half(from: *const i16) -> Self::Floats {
        _mm256_cvtph_ps(_mm_set1_epi16(from.read_unaligned()));
        _mm512_cvtph_ps(_mm256_set1_epi16(from.read_unaligned()))
    }
    /// Integers of four bits, with a fifth bit of each: these follow each other.
    fn with_fifth(integers: Self::Integers, bits: *const u8) -> Self::Integers {
        {
            let each = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
            let set = _mm256_and_si256(_mm256_set1_epi32((*bits).into()), each);
            let set = _mm256_cmpeq_epi32(set, each);
            _mm256_or_si256(integers, _mm256_and_si256(set, _mm256_set1_epi32(16)))
        };
        {
            let bits = bits.cast::<u16>().read_unaligned();
            _mm512_mask_add_epi32(integers, bits, integers, _mm512_set1_epi32(16))
        }
    }
    /// Powers of two by their exponents: see [`power_of_two`](crate::data::panel::power_of_two).
    fn powers(from: *const u8) -> Self::Floats {
        {
            let exponents = Self::integers(from);
            let normal = _mm256_slli_epi32::<23>(_mm256_sub_epi32(exponents, _mm256_set1_epi32(1)));
            let subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x0020_0000), exponents);
            let small = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), exponents);
            _mm256_castsi256_ps(_mm256_blendv_epi8(normal, subnormal, small))
        };
        {
            let exponents = Self::integers(from);
            let normal = _mm512_slli_epi32::<23>(_mm512_sub_epi32(exponents, _mm512_set1_epi32(1)));
            let subnormal = _mm512_sllv_epi32(_mm512_set1_epi32(0x0020_0000), exponents);
            let small = _mm512_cmplt_epu32_mask(exponents, _mm512_set1_epi32(2));
            _mm512_castsi512_ps(_mm512_mask_mov_epi32(normal, small, subnormal))
        }
    }
    /// Reads a vector of floats from any address.
    fn load_floats(from: *const f32) -> Self::Floats
        { _mm256_loadu_ps(from); _mm512_loadu_ps(from) }
    /// Writes a vector of floats to any address.
    fn store_floats(to: *mut f32, floats: Self::Floats) -> ()
        { _mm256_storeu_ps(to, floats); _mm512_storeu_ps(to, floats) }
    /// Fills a vector with copies of a float.
    fn splat_float(float: f32) -> Self::Floats
        { _mm256_set1_ps(float); _mm512_set1_ps(float) }
    /// Multiplies floats, lane by lane.
    fn multiply(a: Self::Floats, b: Self::Floats) -> Self::Floats
        { _mm256_mul_ps(a, b); _mm512_mul_ps(a, b) }
    /// The products of floats, and further floats, rounded once.
    fn multiply_add(a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats
        { _mm256_fmadd_ps(a, b, c); _mm512_fmadd_ps(a, b, c) }
    /// Subtracts floats, lane by lane.
    fn subtract(a: Self::Floats, b: Self::Floats) -> Self::Floats
        { _mm256_sub_ps(a, b); _mm512_sub_ps(a, b) }
}
