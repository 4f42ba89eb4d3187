//! The nodes at their public boundary, in graphs.

mod conformance;
