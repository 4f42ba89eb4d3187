//! KServe's protocol over gRPC, with health and reflection. Requests come through the layers that
//! those of REST come through: ids, the log, keys, the end of the server.
//!
//! tonic frames messages and answers: `message` gives it those of a request within the budget of
//! all bodies, `codec` is prost's with bounds, `status` tells failures. The methods are in
//! `service`, and in `stream` and `sequence_stream`; `tensors` spares large answers a copy.

mod codec;
mod convert;
mod health;
mod message;
pub mod proto;
mod sequence_stream;
mod service;
mod status;
mod stream;
mod tensors;

use std::sync::Arc;

use axum::{
    Router,
    extract::{Request, State},
    http::{Method, Uri},
    response::Response,
    routing::{post, post_service},
};
use graphmill_engine::shortened;
use tonic::codec::CompressionEncoding;
use tonic_health::pb::health_server::HealthServer;
use tower::Service as _;

pub(crate) use status::layer;

use crate::{
    app::state::App,
    errors::{Cause, Failure},
    keys::Need,
    kserve,
};
use health::Health;
use message::Call;
use proto::grpc_inference_service_server::GrpcInferenceServiceServer;
use service::Service;

/// The methods, with what a key needs for each: those of the protocol, health for probes, which have
/// no key, and what the services are, for those that have no file of them.
#[rustfmt::skip]
const METHODS: [(&str, Need); 24] = [
    ("/inference.GRPCInferenceService/ServerLive", Need::Nothing),
    ("/inference.GRPCInferenceService/ServerReady", Need::Nothing),
    ("/inference.GRPCInferenceService/ServerMetadata", Need::Key),
    ("/inference.GRPCInferenceService/ModelReady", Need::Key),
    ("/inference.GRPCInferenceService/ModelMetadata", Need::Key),
    ("/inference.GRPCInferenceService/ModelConfig", Need::Key),
    ("/inference.GRPCInferenceService/ModelStatistics", Need::Key),
    ("/inference.GRPCInferenceService/ModelInfer", Need::Infer),
    ("/inference.GRPCInferenceService/ModelStreamInfer", Need::Infer),
    ("/inference.GRPCInferenceService/RepositoryIndex", Need::Admin),
    ("/inference.GRPCInferenceService/RepositoryModelLoad", Need::Admin),
    ("/inference.GRPCInferenceService/RepositoryModelUnload", Need::Admin),
    ("/inference.GRPCInferenceService/LogSettings", Need::Metrics),
    ("/inference.GRPCInferenceService/TraceSetting", Need::Metrics),
    ("/inference.GRPCInferenceService/SystemSharedMemoryStatus", Need::Key),
    ("/inference.GRPCInferenceService/SystemSharedMemoryRegister", Need::Key),
    ("/inference.GRPCInferenceService/SystemSharedMemoryUnregister", Need::Key),
    ("/inference.GRPCInferenceService/CudaSharedMemoryStatus", Need::Key),
    ("/inference.GRPCInferenceService/CudaSharedMemoryRegister", Need::Key),
    ("/inference.GRPCInferenceService/CudaSharedMemoryUnregister", Need::Key),
    ("/grpc.health.v1.Health/Check", Need::Nothing),
    ("/grpc.health.v1.Health/Watch", Need::Nothing),
    ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Need::Key),
    ("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Need::Key),
];

/// Everything that can be asked.
pub(crate) fn routes(app: &Arc<App>) -> Router<Arc<App>> {
    let server = GrpcInferenceServiceServer::new(Service(Arc::clone(app)))
        .accept_compressed(CompressionEncoding::Gzip)
        .accept_compressed(CompressionEncoding::Deflate)
        .max_decoding_message_size(app.options.max_body_bytes);
    let own = post(move |State(app), request| serve(app, server.clone(), request));
    let health = post_service(HealthServer::new(Health(Arc::clone(app))));
    let described = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(proto::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let readable = "the descriptors are those of this crate";
    let mut routes = Router::new();
    for (path, _) in METHODS {
        let (service, name) = path[1..].split_once('/').unwrap_or_default();
        let method = match service {
            "grpc.health.v1.Health" => health.clone(),
            "grpc.reflection.v1.ServerReflection" => {
                post_service(described().build_v1().expect(readable))
            }
            "grpc.reflection.v1alpha.ServerReflection" => {
                post_service(described().build_v1alpha().expect(readable))
            }
            _ if name.contains("SharedMemory") => post(async || kserve::no_shared_memory()),
            _ => own.clone(),
        };
        routes = routes.route(path, method);
    }
    routes.fallback(async |uri: Uri| {
        let path = shortened(uri.path(), convert::SHOWN_BYTES);
        Failure::new(Cause::UnknownRoute, format!("there is no method `{path}`"))
    })
}

/// Answers a request, unless the server ends before.
async fn serve(
    app: Arc<App>,
    mut server: GrpcInferenceServiceServer<Service>,
    request: Request,
) -> Result<Response, Failure> {
    let request = Call::begin(&app, request)?;
    let answer = async {
        let Ok(answer) = server.call(request).await;
        Ok(tensors::put_together(answer))
    };
    app.runner.guard(None).wait(answer).await
}

/// What a key needs for each operation.
pub(crate) fn needs() -> impl Iterator<Item = (Method, String, Need)> {
    let methods = METHODS.into_iter();
    methods.map(|(path, need)| (Method::POST, path.to_owned(), need))
}
