//! Engines on llama.cpp, with the models of this repository.

mod adapters;
mod checkpoints;
mod constraint;
mod draft_model;
mod eagle3_model;
mod embedding;
mod engine;
mod families;
mod hidden_drafts;
#[cfg(feature = "vision")]
mod image_families;
#[cfg(feature = "vision")]
mod images;
#[cfg(feature = "cpu-kernels")]
mod kernels;
mod load;
mod pre_tokenizers;
mod prefix;
#[cfg(feature = "vision")]
mod reference;
mod schemas;
mod speculation;
mod support;
mod two_caches;
mod unigram;
mod vectors;
mod vocab;
