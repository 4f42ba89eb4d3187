//! The calls into llama.cpp that its Rust binding does not wrap. With the kernels and how they are attached, the only unsafe code of
//! the project.

#![allow(unsafe_code)]

mod adapter;
mod buffers;
mod context;
mod cut;
mod exit;
mod guard;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod heap;
#[cfg(target_os = "linux")]
mod huge_pages;
mod limits;
mod log;
mod logits;
mod mapping;
mod model;
mod new_pages;
mod system;
mod threadpool;
#[cfg(target_os = "linux")]
mod zeroed;

pub(super) use adapter::Adapter;
pub(super) use buffers::attach as attach_to_buffers;
pub(super) use context::{Context, SequenceWidth, default_params as default_context_params};
pub(super) use cut::{Cuts, attach as attach_to_cuts};
pub(in crate::backend) use exit::exit;
pub(super) use guard::{attach as attach_guard, tokenize};
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) use heap::{few_heaps, freed_bytes, trim as trim_heap};
#[cfg(target_os = "linux")]
pub(super) use huge_pages::HugePages;
pub(in crate::backend) use limits::limit_process;
pub(super) use log::{Heard, heard_so_far, listen, route_logs};
pub(super) use mapping::{Mapping, mapped};
pub(super) use model::{
    BufferType, ModelParams, attention_window, buffer_types, encodes_and_decodes, gap_tokens,
    load_model, quantization, vocabulary_kind,
};
pub(super) use new_pages::NewPages;
pub(super) use system::{init_numa, system_info};
pub(super) use threadpool::{ThreadPool, ThreadPoolParams};
#[cfg(target_os = "linux")]
pub(super) use zeroed::unused_bytes;
