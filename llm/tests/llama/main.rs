//! Engines on llama.cpp, with the models of this repository.

#![cfg(feature = "llama")]

mod adapters;
mod constraint;
mod draft_model;
mod embedding;
mod engine;
#[cfg(feature = "cpu-kernels")]
mod kernels;
mod load;
mod prefix;
mod schemas;
mod speculation;
mod support;
mod vocab;
