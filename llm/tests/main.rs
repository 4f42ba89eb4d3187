//! Engines at their public boundary: with scripted models, and on llama.cpp.
//! One program, because each takes long to link. Tests that watch their whole process have one of their own.

mod adapters;
mod checkpoints;
mod constraint;
mod constraint_bounds;
mod constraint_limits;
mod constraint_schemas;
mod constraint_suite;
mod embedding;
mod engine;
mod gap_marks;
#[cfg(feature = "llama")]
mod llama;
#[cfg(feature = "llama")]
mod llama_sampler;
mod prefix;
mod prompt_logprobs;
mod sampler;
mod sharing;
mod slots;
mod spec;
mod speculating;
mod speculation;
mod support;
