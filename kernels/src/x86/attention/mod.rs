//! Attention, by sets of instructions.
//!
//! A row is the query of a head. Cells are taken in blocks. Each block has weights relative to its
//! own largest score; its sums are then added to those of the blocks before. Every row has its own
//! chains of additions, and rows do not affect each other.

pub(crate) mod avx2;
pub(crate) mod avx512;
mod elements;
mod mask;
mod seen;

use std::ops::Range;

use crate::data::attention::{Attention, Numbers};
use crate::x86::vector::Vector;

/// Tokens that see mostly the same cells, and the heads that share one of a key.
#[derive(Clone)]
struct TokenRun<'a> {
    attention: &'a Attention,
    kv_head: usize,
    stream: usize,
    tokens: Range<usize>,
}

impl<'a> TokenRun<'a> {
    /// Takes the first tokens of a stream that are worth computing together.
    ///
    /// # Safety
    /// The CPU must have the instructions, and the mask an element for each token and each cell.
    #[expect(
        clippy::inline_always,
        reason = "what is not inlined lacks the instructions of its caller"
    )]
    #[inline(always)]
    unsafe fn next<V: Vector>(
        attention: &'a Attention,
        (kv_head, stream): (usize, usize),
        left: &mut Range<usize>,
    ) -> Option<Self> {
        if left.start == left.end {
            return None;
        }
        // SAFETY: as the caller promises.
        let end = unsafe { mask::together::<V>(attention, stream, left.clone()) };
        let tokens = left.start..end;
        left.start = end;
        Some(Self {
            attention,
            kv_head,
            stream,
            tokens,
        })
    }

    /// Creates the run of one token.
    fn for_token(
        attention: &'a Attention,
        (kv_head, stream, token): (usize, usize, usize),
    ) -> Self {
        Self {
            attention,
            kv_head,
            stream,
            tokens: token..token + 1,
        }
    }

    fn rows(&self) -> usize {
        self.tokens.len() * self.attention.group()
    }

    /// The token and the head of a row.
    fn row(&self, row: usize) -> (usize, usize) {
        let group = self.attention.group();
        (
            self.tokens.start + row / group,
            self.kv_head * group + row % group,
        )
    }

    /// The query of a row.
    fn query(&self, row: usize) -> *const f32 {
        let (token, head) = self.row(row);
        let queries = &self.attention.queries;
        queries.at([token, head, self.stream]).cast()
    }

    /// Returns the address of the result of a row.
    fn out(&self, row: usize) -> *mut f32 {
        let (token, head) = self.row(row);
        let attention = self.attention;
        let index = (self.stream * attention.tokens + token) * attention.heads + head;
        attention.out.wrapping_add(index * attention.value_size)
    }

    /// The further score of a row, if its head has one.
    fn sink(&self, row: usize) -> Option<f32> {
        let sinks = self.attention.sinks;
        let (_, head) = self.row(row);
        // SAFETY: there is a score for each head.
        (!sinks.is_null()).then(|| unsafe { sinks.add(head).read_unaligned() })
    }

    /// The keys of the block that begins at the cell `first`.
    fn keys(&self, first: usize) -> CellSource {
        let attention = self.attention;
        CellSource {
            numbers: attention.key_numbers,
            first: attention.keys.at([first, self.kv_head, self.stream]),
            stride: attention.keys.strides[0],
            size: attention.key_size,
        }
    }

    /// The values of that block.
    fn values(&self, first: usize) -> CellSource {
        let attention = self.attention;
        CellSource {
            numbers: attention.value_numbers,
            first: attention.values.at([first, self.kv_head, self.stream]),
            stride: attention.values.strides[0],
            size: attention.value_size,
        }
    }
}

/// The keys or the values of a head.
#[derive(Clone, Copy)]
struct CellSource {
    numbers: Numbers,
    /// Address of the first cell's.
    first: *const u8,
    /// Bytes from one cell to the next.
    stride: usize,
    /// Number of elements of a cell.
    size: usize,
}

impl CellSource {
    fn at(&self, cell: u16) -> *const u8 {
        self.first.wrapping_add(usize::from(cell) * self.stride)
    }
}

/// Elements of a block, in types with blocks.
const NUMBERS_BLOCK: usize = 32;

// The types of elements, as parameters of functions.
const F32: u8 = Numbers::F32 as u8;
const F16: u8 = Numbers::F16 as u8;
const BF16: u8 = Numbers::Bf16 as u8;
const Q8_0: u8 = Numbers::Q8_0 as u8;
const Q5_1: u8 = Numbers::Q5_1 as u8;
const Q5_0: u8 = Numbers::Q5_0 as u8;
const Q4_1: u8 = Numbers::Q4_1 as u8;

/// Runs the code in which the type of elements is a constant.
macro_rules! with_numbers {
    ($numbers:expr, $name:ident, $code:expr) => {
        with_numbers!($numbers, $name, $code, F32 F16 Bf16 Q8_0 Q5_1 Q5_0 Q4_1 Q4_0)
    };
    ($numbers:expr, $name:ident, $code:expr, $($number:ident)+) => {
        match $numbers {
            $(Numbers::$number => {
                const $name: u8 = Numbers::$number as u8;
                $code
            })+
        }
    };
}

use with_numbers;

/// A range in pieces that are about as large as each other, `most` at most.
fn chunks(all: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    let count = all.div_ceil(most);
    (0..count).map(move |index| all * index / count..all * (index + 1) / count)
}
