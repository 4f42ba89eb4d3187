//! The messages and the services of TorchServe's gRPC APIs, made by `make proto` from
//! `server/proto/torchserve_*.proto`.

/// Predictions.
#[allow(missing_docs, clippy::pedantic, reason = "made by a program")]
pub mod inference {
    include!("org.pytorch.serve.grpc.inference.rs");
}

/// What is served.
#[allow(missing_docs, clippy::pedantic, reason = "made by a program")]
pub mod management {
    include!("org.pytorch.serve.grpc.management.rs");
}

/// The same as descriptors, which reflection tells clients.
pub(crate) const DESCRIPTORS: &[u8] = include_bytes!("torchserve.bin");
