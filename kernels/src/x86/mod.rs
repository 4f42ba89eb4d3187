//! Matmuls with the vector instructions of x86.
//!
//! Whatever the format in the file, a panel's weights are expanded, some records at a time, to
//! a byte or a word each with factors of 32 bits, in memory that stays in a cache, and multiplied
//! from there by all activations. For a few activations that does not pay.

#![allow(
    clippy::wildcard_imports,
    reason = "the intrinsics of a module are dozens, and their names say where they are from"
)]
#![allow(
    clippy::needless_range_loop,
    reason = "an index stands for the same register in several arrays"
)]
#![allow(
    clippy::cast_ptr_alignment,
    reason = "numbers in memory are read by instructions that take any address"
)]

pub(crate) mod amx;
pub(crate) mod attention;
mod avx2;
pub(crate) mod avx512;
mod blocking;
mod counts;
mod expand;
pub(crate) mod float;
mod groups;
mod quantize;
mod small_batch;
mod strip;
mod tiles;
mod units;
mod vector;

pub(crate) use blocking::{Instructions, multiply};
pub(crate) use quantize::row as quantize;
