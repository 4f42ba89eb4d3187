//! KServe's protocol and TorchServe's services over gRPC, with health and reflection. Requests pass
//! the same layers as REST: ids, the log, keys, shutdown.
//!
//! tonic frames messages and answers. `message` reads the messages of a request within the budget
//! of all bodies, and `status` formats failures. The methods are in `service` and `stream`, and
//! TorchServe's in `torchserve`. `tensors` reads and writes tensors, and avoids copies of large
//! answers.

mod health;
mod message;
mod service;
mod status;
mod stream;
mod tensors;
mod torchserve;

use std::{convert::Infallible, sync::Arc};

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

pub(crate) use status::layer;

use crate::{
    app::state::App,
    errors::{Cause, Failure},
    http::Side,
    keys::Permission,
    kserve::{
        self,
        proto::{
            self,
            grpc_inference_service_server::{GrpcInferenceServiceServer, SERVICE_NAME},
        },
    },
    torchserve::proto::{
        DESCRIPTORS,
        inference::inference_ap_is_service_server::{
            InferenceApIsServiceServer, SERVICE_NAME as INFERENCE,
        },
        management::management_ap_is_service_server::{
            ManagementApIsServiceServer, SERVICE_NAME as MANAGEMENT,
        },
    },
};
use health::Health;
use message::{GrpcCall, MessageBody};
use service::Service;
use torchserve::{Management, Predictions};

/// Maximum number of bytes of a path in an error.
const SHOWN_BYTES: usize = 100;

/// The methods of each service, with the permission that they need. Health, for probes, needs no
/// key. Reflection describes the services to clients without the .proto files.
#[rustfmt::skip]
const METHODS: [(&str, Permission, &[&str]); 13] = [
    (SERVICE_NAME, Permission::Nothing, &["ServerLive", "ServerReady"]),
    (SERVICE_NAME, Permission::Key, &["ServerMetadata", "ModelReady", "ModelMetadata", "ModelConfig", "ModelStatistics"]),
    (SERVICE_NAME, Permission::Infer, &["ModelInfer", "ModelStreamInfer"]),
    (SERVICE_NAME, Permission::Admin, &["RepositoryIndex", "RepositoryModelLoad", "RepositoryModelUnload"]),
    (SERVICE_NAME, Permission::Metrics, &["LogSettings", "TraceSetting"]),
    (SERVICE_NAME, Permission::Key, &[
        "SystemSharedMemoryStatus", "SystemSharedMemoryRegister", "SystemSharedMemoryUnregister",
        "CudaSharedMemoryStatus", "CudaSharedMemoryRegister", "CudaSharedMemoryUnregister",
    ]),
    (INFERENCE, Permission::Nothing, &["Ping"]),
    (INFERENCE, Permission::Infer, &["Predictions", "StreamPredictions", "StreamPredictions2"]),
    (MANAGEMENT, Permission::Metrics, &["DescribeModel", "ListModels"]),
    (MANAGEMENT, Permission::Admin, &["RegisterModel", "ScaleWorker", "SetDefault", "UnregisterModel"]),
    (HEALTH, Permission::Nothing, &["Check", "Watch"]),
    (REFLECTION, Permission::Key, &["ServerReflectionInfo"]),
    (OLD_REFLECTION, Permission::Key, &["ServerReflectionInfo"]),
];

const HEALTH: &str = "grpc.health.v1.Health";
const REFLECTION: &str = "grpc.reflection.v1.ServerReflection";
const OLD_REFLECTION: &str = "grpc.reflection.v1alpha.ServerReflection";

/// Creates a route for the methods of a service.
macro_rules! served {
    ($app:ident, $server:ident, $service:expr) => {{
        let server = $server::new($service)
            .accept_compressed(CompressionEncoding::Gzip)
            .accept_compressed(CompressionEncoding::Deflate)
            .max_decoding_message_size($app.options.max_body_bytes);
        post(move |State(app), request| serve(app, server.clone(), request))
    }};
}

/// Returns the routes of all methods. If operators have a port of their own, clients get an error
/// for theirs.
pub(crate) fn routes(app: &Arc<App>, audience: Side) -> Router<Arc<App>> {
    let own = Service(Arc::clone(app));
    let own = served!(app, GrpcInferenceServiceServer, own);
    let predictions = Predictions(Arc::clone(app));
    let predictions = served!(app, InferenceApIsServiceServer, predictions);
    let management = Management(Arc::clone(app));
    let management = served!(app, ManagementApIsServiceServer, management);
    let health = post_service(HealthServer::new(Health(Arc::clone(app))));
    let described = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(proto::DESCRIPTORS)
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let readable = "this crate's descriptors are valid";
    let mut routes = Router::new();
    for (service, need, names) in METHODS {
        let is_elsewhere =
            audience == Side::Public && matches!(need, Permission::Admin | Permission::Metrics);
        for name in names {
            let method = match service {
                _ if is_elsewhere => post(async || {
                    let why = "available only at the management port (--management_port, --grpc_management_port)";
                    Failure::new(Cause::Forbidden, why)
                }),
                HEALTH => health.clone(),
                INFERENCE => predictions.clone(),
                MANAGEMENT => management.clone(),
                REFLECTION => post_service(described().build_v1().expect(readable)),
                OLD_REFLECTION => post_service(described().build_v1alpha().expect(readable)),
                _ if name.contains("SharedMemory") => post(async || kserve::no_shared_memory()),
                _ => own.clone(),
            };
            routes = routes.route(&format!("/{service}/{name}"), method);
        }
    }
    routes.fallback(async |uri: Uri| {
        let path = shortened(uri.path(), SHOWN_BYTES);
        Failure::new(Cause::UnknownRoute, format!("unknown method `{path}`"))
    })
}

/// Answers a request, unless the server ends first.
async fn serve<S>(app: Arc<App>, mut server: S, request: Request) -> Result<Response, Failure>
where
    S: tower::Service<
            axum::http::Request<MessageBody>,
            Response = axum::http::Response<tonic::body::Body>,
            Error = Infallible,
        >,
{
    let request = GrpcCall::begin(&app, request)?;
    let answer = async {
        let Ok(answer) = server.call(request).await;
        Ok(tensors::put_together(answer))
    };
    app.runner.guard(None).wait(answer).await
}

/// Returns each method with the permission that it needs.
pub(crate) fn needs() -> impl Iterator<Item = (Method, String, Permission)> {
    METHODS.into_iter().flat_map(|(service, need, names)| {
        let names = names.iter();
        names.map(move |name| (Method::POST, format!("/{service}/{name}"), need))
    })
}
