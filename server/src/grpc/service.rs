//! Methods with one message and one answer. `stream` has the streaming method.

use std::sync::Arc;

use tonic::{Request, Response, Status, Streaming};

use super::{message::GrpcCall, stream, tensors};
use crate::{
    app::state::App,
    errors::Failure,
    kserve::{
        self, RunRequest, Sequences,
        proto::{
            LogSettingsRequest, LogSettingsResponse, ModelConfigRequest, ModelConfigResponse,
            ModelInferRequest, ModelInferResponse, ModelMetadataRequest, ModelMetadataResponse,
            ModelReadyRequest, ModelReadyResponse, ModelStatisticsRequest, ModelStatisticsResponse,
            RepositoryIndexRequest, RepositoryIndexResponse, RepositoryModelLoadRequest,
            RepositoryModelLoadResponse, RepositoryModelUnloadRequest,
            RepositoryModelUnloadResponse, ServerLiveRequest, ServerLiveResponse,
            ServerMetadataRequest, ServerMetadataResponse, ServerReadyRequest, ServerReadyResponse,
            TraceSettingRequest, TraceSettingResponse,
            grpc_inference_service_server::GrpcInferenceService,
        },
    },
    run::RequestContext,
};

/// Handlers of KServe's inference service.
pub(super) struct Service(pub(super) Arc<App>);

/// Result of a remote procedure call: its response, or its error.
pub(super) type Rpc<A> = Result<Response<A>, Status>;

/// Returns the message of a request, and the call that it belongs to.
pub(super) fn read<Q>(mut request: Request<Q>) -> (Arc<GrpcCall>, Q) {
    let call = request.extensions_mut().remove();
    let call = call.expect("every request is begun as a call");
    (call, request.into_inner())
}

#[tonic::async_trait]
impl GrpcInferenceService for Service {
    async fn server_live(&self, _: Request<ServerLiveRequest>) -> Rpc<ServerLiveResponse> {
        let live = self.0.servables().beyond_help().is_none();
        Ok(Response::new(ServerLiveResponse { live }))
    }

    async fn server_ready(&self, _: Request<ServerReadyRequest>) -> Rpc<ServerReadyResponse> {
        let ready = self.0.unready().is_none();
        Ok(Response::new(ServerReadyResponse { ready }))
    }

    async fn model_ready(&self, request: Request<ModelReadyRequest>) -> Rpc<ModelReadyResponse> {
        let (call, asked) = read(request);
        let servable = kserve::find(&call.who, &asked.name, &asked.version)?;
        let ready = self.0.stopping().is_none() && servable.unready().is_none();
        Ok(Response::new(ModelReadyResponse { ready }))
    }

    async fn server_metadata(
        &self,
        _: Request<ServerMetadataRequest>,
    ) -> Rpc<ServerMetadataResponse> {
        Ok(Response::new(kserve::describe_server()))
    }

    async fn model_metadata(
        &self,
        request: Request<ModelMetadataRequest>,
    ) -> Rpc<ModelMetadataResponse> {
        let (call, asked) = read(request);
        let described = kserve::describe(&call.who, &asked.name, &asked.version).await?;
        Ok(Response::new(described))
    }

    async fn model_config(&self, request: Request<ModelConfigRequest>) -> Rpc<ModelConfigResponse> {
        let (call, asked) = read(request);
        let ready = kserve::loaded(&call.who, &asked.name, &asked.version).await?;
        let config = Some(kserve::config(&ready));
        Ok(Response::new(ModelConfigResponse { config }))
    }

    async fn model_infer(&self, request: Request<ModelInferRequest>) -> Rpc<ModelInferResponse> {
        let (call, mut asked) = read(request);
        let share = call.charge(&mut asked);
        let given = infer(&self.0.sequences, &call.who, asked).await?;
        share.is_read();
        Ok(tensors::take_apart(given))
    }

    type ModelStreamInferStream = stream::Answers;

    async fn model_stream_infer(
        &self,
        request: Request<Streaming<ModelInferRequest>>,
    ) -> Rpc<stream::Answers> {
        let (call, _) = read(request);
        let answers = stream::answer(&self.0.sequences, call).await?;
        Ok(Response::new(answers))
    }

    async fn model_statistics(
        &self,
        request: Request<ModelStatisticsRequest>,
    ) -> Rpc<ModelStatisticsResponse> {
        let (call, asked) = read(request);
        if asked.name.is_empty() {
            return Ok(Response::new(self.0.statistics.read_all(&call.who)));
        }
        let statistics = &self.0.statistics;
        let read = statistics.read_asked(&call.who, &asked.name, &asked.version)?;
        Ok(Response::new(read))
    }

    async fn repository_index(
        &self,
        request: Request<RepositoryIndexRequest>,
    ) -> Rpc<RepositoryIndexResponse> {
        let models = kserve::index(&self.0.servables(), request.get_ref().ready);
        Ok(Response::new(RepositoryIndexResponse { models }))
    }

    async fn repository_model_load(
        &self,
        request: Request<RepositoryModelLoadRequest>,
    ) -> Rpc<RepositoryModelLoadResponse> {
        let (call, asked) = read(request);
        let parameters = kserve::parameters_of(asked.parameters);
        kserve::load(&call.who, &asked.model_name, parameters).await?;
        Ok(Response::new(RepositoryModelLoadResponse {}))
    }

    async fn repository_model_unload(
        &self,
        request: Request<RepositoryModelUnloadRequest>,
    ) -> Rpc<RepositoryModelUnloadResponse> {
        let (call, asked) = read(request);
        let parameters = kserve::parameters_of(asked.parameters);
        kserve::unload(&call.who, &asked.model_name, &parameters).await?;
        Ok(Response::new(RepositoryModelUnloadResponse {}))
    }

    async fn log_settings(&self, request: Request<LogSettingsRequest>) -> Rpc<LogSettingsResponse> {
        let (call, asked) = read(request);
        let given = kserve::log_parameters(asked.settings);
        Ok(Response::new(kserve::set_log(&call.who, &given)?))
    }

    async fn trace_setting(
        &self,
        request: Request<TraceSettingRequest>,
    ) -> Rpc<TraceSettingResponse> {
        let traces = self.0.options.traces.as_ref();
        let given = request.get_ref().settings.iter();
        let given = given.map(|(name, setting)| (name, &setting.value));
        Ok(Response::new(kserve::check_traces(traces, given)?))
    }
}

/// Runs a graph once, or continues a sequence.
pub(super) async fn infer(
    sequences: &Arc<Sequences>,
    who: &RequestContext,
    asked: ModelInferRequest,
) -> Result<ModelInferResponse, Failure> {
    let request = RunRequest {
        graph: asked.model_name,
        version: asked.model_version,
        parameters: asked.parameters,
        inputs: tensors::read(asked.inputs, asked.raw_input_contents)?,
        outputs: tensors::read_wanted(asked.outputs)?,
    };
    let outcome = kserve::run(sequences, who, request).await?;
    Ok(tensors::answer(&outcome.label, asked.id, outcome.tensors))
}
