//! The nodes at their public boundary, in graphs.
//! One program, because each takes long to link. Tests of the registry, and of the memory of their whole process, have one of their own.

mod batching;
mod chat;
mod chat_graph;
mod chat_templates;
mod embedding_graphs;
mod one_packet;
mod prompt_loops;
mod shared;
mod template_limits;
mod tensors;

// Graphs here use nodes of this crate.
use graphmill_mediapipe as _;
