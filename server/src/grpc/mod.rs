//! KServe's protocol over gRPC, with health and reflection. Requests come through the layers that
//! those of REST come through: ids, the log, keys, the end of the server.
//!
//! `message` reads and writes messages, within the budget of all bodies; `status` tells failures;
//! the other modules have the methods.

mod convert;
mod health;
mod infer;
mod message;
mod methods;
pub mod proto;
mod sequence_stream;
mod status;
mod stream;

use std::sync::Arc;

use axum::{
    Router,
    http::Method,
    routing::{MethodRouter, post},
};
use tonic_health::pb::health_server::HealthServer;

pub(crate) use status::layer;

use crate::{app::state::App, http::unknown_route, keys::Need};

/// The methods of the protocol, with what a key needs for each.
fn methods() -> Vec<(&'static str, Need, MethodRouter<Arc<App>>)> {
    vec![
        ("ServerLive", Need::Nothing, post(methods::server_live)),
        ("ServerReady", Need::Nothing, post(methods::server_ready)),
        ("ServerMetadata", Need::Key, post(methods::server_metadata)),
        ("ModelReady", Need::Key, post(methods::model_ready)),
        ("ModelMetadata", Need::Key, post(methods::model_metadata)),
        ("ModelConfig", Need::Key, post(methods::model_config)),
        (
            "ModelStatistics",
            Need::Key,
            post(methods::model_statistics),
        ),
        ("ModelInfer", Need::Infer, post(infer::model_infer)),
        (
            "ModelStreamInfer",
            Need::Infer,
            post(stream::model_stream_infer),
        ),
        (
            "RepositoryIndex",
            Need::Admin,
            post(methods::repository_index),
        ),
        (
            "RepositoryModelLoad",
            Need::Admin,
            post(methods::model_load),
        ),
        (
            "RepositoryModelUnload",
            Need::Admin,
            post(methods::model_unload),
        ),
        ("LogSettings", Need::Metrics, post(methods::log_settings)),
        ("TraceSetting", Need::Metrics, post(methods::trace_setting)),
        (
            "SystemSharedMemoryStatus",
            Need::Key,
            post(methods::shared_memory),
        ),
        (
            "SystemSharedMemoryRegister",
            Need::Key,
            post(methods::shared_memory),
        ),
        (
            "SystemSharedMemoryUnregister",
            Need::Key,
            post(methods::shared_memory),
        ),
        (
            "CudaSharedMemoryStatus",
            Need::Key,
            post(methods::shared_memory),
        ),
        (
            "CudaSharedMemoryRegister",
            Need::Key,
            post(methods::shared_memory),
        ),
        (
            "CudaSharedMemoryUnregister",
            Need::Key,
            post(methods::shared_memory),
        ),
    ]
}

/// The service of the protocol.
const SERVICE: &str = "inference.GRPCInferenceService";

/// Health for probes: they have no key.
const HEALTH: [&str; 2] = [
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
];

/// What the services are, for those that have no file of them.
const REFLECTION: [&str; 2] = [
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

/// Everything that can be asked.
pub(crate) fn routes(app: &Arc<App>) -> Router<Arc<App>> {
    let mut routes = Router::new();
    for (name, _, method) in methods() {
        routes = routes.route(&format!("/{SERVICE}/{name}"), method);
    }
    let health = HealthServer::new(health::Health::new(Arc::clone(app)));
    for path in HEALTH {
        routes = routes.route_service(path, health.clone());
    }
    let described = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(proto::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let readable = "the descriptors are those of this crate";
    let [current, alpha] = REFLECTION;
    routes
        .route_service(current, described().build_v1().expect(readable))
        .route_service(alpha, described().build_v1alpha().expect(readable))
        .fallback(unknown_route)
}

/// What a key needs for each operation.
pub(crate) fn needs() -> impl Iterator<Item = (Method, String, Need)> {
    let methods = methods().into_iter();
    let own = methods.map(|(name, need, _)| (format!("/{SERVICE}/{name}"), need));
    let health = HEALTH.map(|path| (path.to_owned(), Need::Nothing));
    let reflection = REFLECTION.map(|path| (path.to_owned(), Need::Key));
    own.chain(health)
        .chain(reflection)
        .map(|(path, need)| (Method::POST, path, need))
}
