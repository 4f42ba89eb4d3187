//! The methods of the service: one message, one answer. That of streams is told in `stream`.

use std::sync::Arc;

use tonic::{Request, Response, Status, Streaming};

use super::{
    convert,
    message::Call,
    proto::{
        LogSettingsRequest, LogSettingsResponse, ModelConfigRequest, ModelConfigResponse,
        ModelInferRequest, ModelInferResponse, ModelMetadataRequest, ModelMetadataResponse,
        ModelReadyRequest, ModelReadyResponse, ModelStatisticsRequest, ModelStatisticsResponse,
        RepositoryIndexRequest, RepositoryIndexResponse, RepositoryModelLoadRequest,
        RepositoryModelLoadResponse, RepositoryModelUnloadRequest, RepositoryModelUnloadResponse,
        ServerLiveRequest, ServerLiveResponse, ServerMetadataRequest, ServerMetadataResponse,
        ServerReadyRequest, ServerReadyResponse, TraceSettingRequest, TraceSettingResponse,
        grpc_inference_service_server::GrpcInferenceService, log_settings_response,
        repository_index_response::ModelIndex, trace_setting_response,
    },
    stream, tensors,
};
use crate::{
    app::state::App,
    errors::{Cause, Failure},
    kserve::{self, LogSetting, Metadata, RunRequest, Sequences},
    run::RequestContext,
    servable::Servable,
};

/// The service of a server.
pub(super) struct Service(pub(super) Arc<App>);

/// The answer of a method.
type Answer<A> = Result<Response<A>, Status>;

/// The call that a message belongs to, and the message.
fn read<Q>(mut request: Request<Q>) -> (Arc<Call>, Q) {
    let call = request.extensions_mut().remove();
    let call = call.expect("every request is begun as a call");
    (call, request.into_inner())
}

#[tonic::async_trait]
impl GrpcInferenceService for Service {
    async fn server_live(&self, _: Request<ServerLiveRequest>) -> Answer<ServerLiveResponse> {
        let live = self.0.servables().beyond_help().is_none();
        Ok(Response::new(ServerLiveResponse { live }))
    }

    async fn server_ready(&self, _: Request<ServerReadyRequest>) -> Answer<ServerReadyResponse> {
        let ready = self.0.unready().is_none();
        Ok(Response::new(ServerReadyResponse { ready }))
    }

    async fn model_ready(&self, request: Request<ModelReadyRequest>) -> Answer<ModelReadyResponse> {
        let (call, asked) = read(request);
        let servable = kserve::find(&call.who, &asked.name, &asked.version)?;
        let ready = self.0.stopping().is_none() && servable.unready().is_none();
        Ok(Response::new(ModelReadyResponse { ready }))
    }

    async fn server_metadata(
        &self,
        _: Request<ServerMetadataRequest>,
    ) -> Answer<ServerMetadataResponse> {
        Ok(Response::new(ServerMetadataResponse {
            name: kserve::NAME.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            extensions: kserve::EXTENSIONS.map(str::to_owned).into(),
        }))
    }

    async fn model_metadata(
        &self,
        request: Request<ModelMetadataRequest>,
    ) -> Answer<ModelMetadataResponse> {
        let (call, asked) = read(request);
        let servable = kserve::find(&call.who, &asked.name, &asked.version)?;
        Ok(Response::new(convert::metadata(Metadata::of(&servable)?)))
    }

    async fn model_config(
        &self,
        request: Request<ModelConfigRequest>,
    ) -> Answer<ModelConfigResponse> {
        let (call, asked) = read(request);
        let servable = kserve::find(&call.who, &asked.name, &asked.version)?;
        let config = Some(convert::config(Metadata::of(&servable)?));
        Ok(Response::new(ModelConfigResponse { config }))
    }

    async fn model_infer(&self, request: Request<ModelInferRequest>) -> Answer<ModelInferResponse> {
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
    ) -> Answer<stream::Answers> {
        let (call, _) = read(request);
        Ok(Response::new(
            stream::answer(&self.0.sequences, call).await?,
        ))
    }

    async fn model_statistics(
        &self,
        request: Request<ModelStatisticsRequest>,
    ) -> Answer<ModelStatisticsResponse> {
        let (call, asked) = read(request);
        let counted = |servable: &Servable| {
            let counts = self.0.statistics.of(servable.name());
            convert::statistics(kserve::Label::of(servable), &counts)
        };
        let model_stats = if asked.name.is_empty() {
            let servables = self.0.servables();
            let seen = servables.iter().filter(|it| call.who.sees(it.graph()));
            seen.map(counted).collect()
        } else {
            vec![counted(&*kserve::find(
                &call.who,
                &asked.name,
                &asked.version,
            )?)]
        };
        Ok(Response::new(ModelStatisticsResponse { model_stats }))
    }

    async fn repository_index(
        &self,
        request: Request<RepositoryIndexRequest>,
    ) -> Answer<RepositoryIndexResponse> {
        self.is_not_elsewhere()?;
        let models = kserve::index(&self.0.servables(), request.get_ref().ready).into_iter();
        let models = models.map(|listed| ModelIndex {
            name: listed.name,
            version: listed.version,
            state: listed.state.to_owned(),
            reason: listed.reason,
        });
        Ok(Response::new(RepositoryIndexResponse {
            models: models.collect(),
        }))
    }

    async fn repository_model_load(
        &self,
        request: Request<RepositoryModelLoadRequest>,
    ) -> Answer<RepositoryModelLoadResponse> {
        let (call, asked) = read(request);
        self.is_not_elsewhere()?;
        let parameters = asked.parameters.keys().map(String::as_str);
        kserve::load(
            &self.0.served,
            call.who.key(),
            &asked.model_name,
            parameters,
        )
        .await?;
        Ok(Response::new(RepositoryModelLoadResponse {}))
    }

    async fn repository_model_unload(
        &self,
        _: Request<RepositoryModelUnloadRequest>,
    ) -> Answer<RepositoryModelUnloadResponse> {
        Err(kserve::unload().into())
    }

    async fn log_settings(
        &self,
        request: Request<LogSettingsRequest>,
    ) -> Answer<LogSettingsResponse> {
        use log_settings_response::{SettingValue, setting_value::ParameterChoice};

        self.is_not_elsewhere()?;
        if !request.get_ref().settings.is_empty() {
            return Err(kserve::refuse_settings("log", "--log_level").into());
        }
        let settings = kserve::log_settings().into_iter().map(|(name, setting)| {
            let parameter_choice = Some(match setting {
                LogSetting::Bool(value) => ParameterChoice::BoolParam(value),
                LogSetting::Number(value) => ParameterChoice::Uint32Param(value),
                LogSetting::Text(value) => ParameterChoice::StringParam(value.to_owned()),
            });
            (name.to_owned(), SettingValue { parameter_choice })
        });
        Ok(Response::new(LogSettingsResponse {
            settings: settings.collect(),
        }))
    }

    async fn trace_setting(
        &self,
        request: Request<TraceSettingRequest>,
    ) -> Answer<TraceSettingResponse> {
        use trace_setting_response::SettingValue;

        self.is_not_elsewhere()?;
        if !request.get_ref().settings.is_empty() {
            return Err(kserve::refuse_settings("trace", "--otlp_endpoint").into());
        }
        let settings = kserve::trace_settings(self.0.options.traces.as_ref()).into_iter();
        let settings = settings.map(|(name, value)| (name.to_owned(), SettingValue { value }));
        Ok(Response::new(TraceSettingResponse {
            settings: settings.collect(),
        }))
    }
}

impl Service {
    /// Refuses what operators ask where they have a port of their own.
    fn is_not_elsewhere(&self) -> Result<(), Failure> {
        if self.0.options.management.is_empty() {
            return Ok(());
        }
        let why = "operators ask at the management port (--management_port)";
        Err(Failure::new(Cause::Forbidden, why))
    }
}

/// Runs a graph once, or the next part of a sequence.
pub(super) async fn infer(
    sequences: &Arc<Sequences>,
    who: &RequestContext,
    asked: ModelInferRequest,
) -> Result<ModelInferResponse, Failure> {
    let request = RunRequest {
        graph: asked.model_name,
        version: asked.model_version,
        parameters: convert::parameters(asked.parameters)?,
        inputs: convert::tensors(asked.inputs, asked.raw_input_contents)?,
        outputs: convert::wanted(asked.outputs)?,
    };
    let outcome = kserve::run(sequences, who, request).await?;
    Ok(convert::answer(&outcome.label, asked.id, outcome.tensors))
}
