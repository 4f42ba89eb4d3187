//! Kernels against plain loops and against each other.
//! One program, because each takes long to link.

mod against_stock;
mod attention;
mod attention_case;
mod common;
mod mixture;
mod reference;
mod same_bits;
mod threads;
