//! Data in memory: formats of weights, panels, activations, and the operands of matmuls, mixtures
//! and attention. Nothing here depends on the instructions of a CPU.

pub(crate) mod activation;
pub(crate) mod attention;
pub(crate) mod exp2;
pub(crate) mod float;
pub(crate) mod format;
pub(crate) mod half;
pub(crate) mod matmul;
pub(crate) mod mixture;
pub(crate) mod panel;
