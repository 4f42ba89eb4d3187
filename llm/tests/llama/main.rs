//! Engines on llama.cpp, with the models of this repository.

#![cfg(feature = "llama")]

mod adapters;
mod checkpoints;
mod constraint;
mod draft_model;
mod embedding;
mod engine;
mod families;
#[cfg(feature = "cpu-kernels")]
mod kernels;
mod load;
mod prefix;
mod random_model;
mod schemas;
mod speculation;
mod support;
mod vocab;
