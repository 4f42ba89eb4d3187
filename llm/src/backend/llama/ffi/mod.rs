//! The calls into llama.cpp, and the owners of its objects: `docs/adr/0055` says why the owners of
//! the binding are not used. With `cpu_kernels` and the kernels themselves, the only unsafe code of
//! the project.

#![allow(unsafe_code)]

mod adapter;
mod batch;
mod compute;
mod context;
mod guard;
mod hidden;
mod load;
mod log;
mod mapping;
mod model;
mod mrope_positions;
mod quantize;
mod system;
mod threadpool;
mod truncated_files;
#[cfg(feature = "vision")]
mod vision;
mod vocabulary;

pub(super) use adapter::LoadedAdapter;
pub(super) use context::{
    Context, RawContext, SequenceWidth, StatePart, can_create as can_create_context,
    default_params as default_context_params,
};
pub(super) use guard::attach as attach_guard;
pub(super) use hidden::{HiddenOf, check_layers, target_layers};
pub(super) use load::{
    BufferType, ModelParams, buffer_types, default_params as default_model_params, load_model,
    load_vocabulary,
};
pub(super) use log::{Heard, heard_so_far, listen, listen_with, route_logs};
pub(super) use mapping::{Mapping, mapped};
#[cfg(all(feature = "cpu-kernels", target_os = "linux"))]
pub(super) use mapping::{advise, map_entry};
pub(super) use model::Model;
pub(super) use quantize::quantize;
pub(crate) use system::{exit, limit_process};
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) use system::{freed_bytes, limit_heaps, trim_heap};
pub(super) use system::{init_numa, multiplies, system_info, tensor_bytes};
pub(super) use threadpool::ThreadPool;
pub(super) use truncated_files::{MappingCheck, attach as attach_to_cuts};
#[cfg(feature = "vision")]
pub(super) use vision::{Mtmd, projector_params};
