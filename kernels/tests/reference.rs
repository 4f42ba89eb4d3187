//! Every choice of instructions against matmuls computed in f64, and against each other bit for
//! bit.

use crate::common::{self, Case, matmuls};
use graphmill_kernels::{Format, Kernels};

#[test]
fn numbers_agree_with_f64_and_bit_for_bit_with_plain_rust() {
    for format in Format::ALL {
        for (rows, blocks) in [(1, 1), (32, 2), (33, 5), (96, 7), (70, 40)] {
            for tokens in [1, 2, 3, 7, 16, 17, 33] {
                let case = Case::random(
                    format,
                    rows,
                    blocks * format.block().max(32),
                    tokens,
                    rows as u64 * 31 + tokens as u64,
                );
                let exact = case.exact();
                let ours = matmuls(&case);
                let (_, plain) = ours.last().expect("plain Rust runs everywhere");
                for (kernels, ours) in &ours {
                    case.assert_close(ours, &exact, kernels.name());
                    common::assert_same(ours, plain, kernels.name());
                }
            }
        }
    }
}

#[test]
fn no_tokens_no_parts() {
    for kernels in Kernels::all() {
        assert_eq!(kernels.parts(64, 0, 2), 0, "{}", kernels.name());
        assert_eq!(kernels.packed_bytes(Format::Q8_0, 0, 32), None);
        assert_eq!(kernels.packed_bytes(Format::Q8_0, 32, 0), None);
        assert_eq!(kernels.packed_bytes(Format::Q8_0, 32, 33), None);
    }
}
