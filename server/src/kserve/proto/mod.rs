//! The messages and the service of the gRPC API, made by `make proto` from `server/proto/inference.proto`.
#![allow(missing_docs, clippy::pedantic, reason = "made by a program")]

include!("inference.rs");

/// The same as descriptors, which reflection tells clients.
pub(crate) const DESCRIPTORS: &[u8] = include_bytes!("inference.bin");
