//! The grammar at its public boundary, one theme a module.
//! One program, because each takes long to link.

mod codes;
mod common;
mod corpus;
mod diagnostics;
mod format;
mod options;
mod ports;
mod robustness;
mod text_format;
