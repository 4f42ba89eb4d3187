//! The bench: the models that it makes, and what it does with them.
//! One program, because each takes long to link.

mod asking;
mod built;
mod embedding;
mod kernels;
mod share;
mod stopping;
