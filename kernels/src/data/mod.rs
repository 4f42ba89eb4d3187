//! What is multiplied and what comes out: formats of weights, panels, activations, products,
//! mixtures, and attention as numbers in memory. Nothing here depends on the instructions of a CPU.

pub(crate) mod activation;
pub(crate) mod attention;
pub(crate) mod float;
pub(crate) mod format;
pub(crate) mod half;
pub(crate) mod mixture;
pub(crate) mod panel;
pub(crate) mod product;
