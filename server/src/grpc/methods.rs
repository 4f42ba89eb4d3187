//! The methods that only ask: health, what the server and its graphs are, the repository, settings.

use std::{collections::HashMap, sync::Arc};

use axum::{
    extract::{Request, State},
    response::Response,
};
use prost::Message;

use super::{
    convert,
    message::{self, Messages},
    proto,
};
use crate::{
    app::state::App,
    bodies::Share,
    errors::{Cause, Failure},
    kserve::{self, LogSetting, Metadata},
    run::RequestContext,
    servable::Servable,
};

/// What a method answers.
type Answer = Result<Response, Failure>;

/// Reads the one message of a request.
async fn read<M: Message + Default>(
    app: &App,
    request: Request,
) -> Result<(RequestContext, M), Failure> {
    let (who, message, _) = read_share(app, request).await?;
    Ok((who, message))
}

/// Reads the one message of a request, and says what it has of the budget of bodies.
pub(super) async fn read_share<M: Message + Default>(
    app: &App,
    request: Request,
) -> Result<(RequestContext, M, Arc<Share>), Failure> {
    let (parts, body) = request.into_parts();
    let who = RequestContext::read(&app.runner, &parts.extensions, &parts.headers)?;
    let share = app.bodies.share(&parts.extensions);
    let messages = Messages::new(&parts.headers, body, share)?;
    let (message, share) = app.runner.guard(None).wait(messages.only()).await?;
    Ok((who, message, share))
}

pub(super) async fn server_live(State(app): State<Arc<App>>, request: Request) -> Answer {
    let _: (_, proto::ServerLiveRequest) = read(&app, request).await?;
    let live = app.servables().beyond_help().is_none();
    Ok(message::reply(&proto::ServerLiveResponse { live }))
}

pub(super) async fn server_ready(State(app): State<Arc<App>>, request: Request) -> Answer {
    let _: (_, proto::ServerReadyRequest) = read(&app, request).await?;
    let ready = app.unready().is_none();
    Ok(message::reply(&proto::ServerReadyResponse { ready }))
}

pub(super) async fn model_ready(State(app): State<Arc<App>>, request: Request) -> Answer {
    let (who, asked): (_, proto::ModelReadyRequest) = read(&app, request).await?;
    let servable = kserve::find(&who, &asked.name, &asked.version)?;
    let ready = app.stopping().is_none() && servable.unready().is_none();
    Ok(message::reply(&proto::ModelReadyResponse { ready }))
}

pub(super) async fn server_metadata(State(app): State<Arc<App>>, request: Request) -> Answer {
    let _: (_, proto::ServerMetadataRequest) = read(&app, request).await?;
    Ok(message::reply(&proto::ServerMetadataResponse {
        name: kserve::NAME.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        extensions: kserve::EXTENSIONS.map(str::to_owned).into(),
    }))
}

pub(super) async fn model_metadata(State(app): State<Arc<App>>, request: Request) -> Answer {
    let (who, asked): (_, proto::ModelMetadataRequest) = read(&app, request).await?;
    let servable = kserve::find(&who, &asked.name, &asked.version)?;
    let metadata = Metadata::of(&servable)?;
    Ok(message::reply(&convert::metadata(metadata)))
}

pub(super) async fn model_config(State(app): State<Arc<App>>, request: Request) -> Answer {
    let (who, asked): (_, proto::ModelConfigRequest) = read(&app, request).await?;
    let servable = kserve::find(&who, &asked.name, &asked.version)?;
    let config = convert::config(Metadata::of(&servable)?);
    Ok(message::reply(&proto::ModelConfigResponse {
        config: Some(config),
    }))
}

pub(super) async fn model_statistics(State(app): State<Arc<App>>, request: Request) -> Answer {
    let (who, asked): (_, proto::ModelStatisticsRequest) = read(&app, request).await?;
    let counted = |servable: &Servable| {
        let counts = app.statistics.of(servable.name());
        convert::statistics(kserve::Label::of(servable), &counts)
    };
    let model_stats = if asked.name.is_empty() {
        let servables = app.servables();
        let seen = servables.iter().filter(|it| who.sees(it.graph()));
        seen.map(counted).collect()
    } else {
        vec![counted(&*kserve::find(&who, &asked.name, &asked.version)?)]
    };
    Ok(message::reply(&proto::ModelStatisticsResponse {
        model_stats,
    }))
}

pub(super) async fn repository_index(State(app): State<Arc<App>>, request: Request) -> Answer {
    let (_, asked): (_, proto::RepositoryIndexRequest) = read(&app, request).await?;
    is_not_elsewhere(&app)?;
    let models = kserve::index(&app.servables(), asked.ready);
    let models = models
        .into_iter()
        .map(|listed| proto::repository_index_response::ModelIndex {
            name: listed.name,
            version: listed.version,
            state: listed.state.to_owned(),
            reason: listed.reason,
        });
    Ok(message::reply(&proto::RepositoryIndexResponse {
        models: models.collect(),
    }))
}

pub(super) async fn model_load(State(app): State<Arc<App>>, request: Request) -> Answer {
    let (who, asked): (_, proto::RepositoryModelLoadRequest) = read(&app, request).await?;
    is_not_elsewhere(&app)?;
    let parameters = asked.parameters.keys().map(String::as_str);
    kserve::load(&app.served, who.key(), &asked.model_name, parameters).await?;
    Ok(message::reply(&proto::RepositoryModelLoadResponse {}))
}

pub(super) async fn model_unload(State(app): State<Arc<App>>, request: Request) -> Answer {
    let _: (_, proto::RepositoryModelUnloadRequest) = read(&app, request).await?;
    Err(kserve::unload())
}

pub(super) async fn log_settings(State(app): State<Arc<App>>, request: Request) -> Answer {
    use proto::log_settings_response::{SettingValue, setting_value::ParameterChoice};

    let (_, asked): (_, proto::LogSettingsRequest) = read(&app, request).await?;
    is_not_elsewhere(&app)?;
    if !asked.settings.is_empty() {
        return Err(kserve::refuse_settings("log", "--log_level"));
    }
    let settings = kserve::log_settings().into_iter().map(|(name, setting)| {
        let choice = match setting {
            LogSetting::Bool(value) => ParameterChoice::BoolParam(value),
            LogSetting::Number(value) => ParameterChoice::Uint32Param(value),
            LogSetting::Text(value) => ParameterChoice::StringParam(value.to_owned()),
        };
        let value = SettingValue {
            parameter_choice: Some(choice),
        };
        (name.to_owned(), value)
    });
    let settings: HashMap<_, _> = settings.collect();
    Ok(message::reply(&proto::LogSettingsResponse { settings }))
}

pub(super) async fn trace_setting(State(app): State<Arc<App>>, request: Request) -> Answer {
    use proto::trace_setting_response::SettingValue;

    let (_, asked): (_, proto::TraceSettingRequest) = read(&app, request).await?;
    is_not_elsewhere(&app)?;
    if !asked.settings.is_empty() {
        return Err(kserve::refuse_settings("trace", "--otlp_endpoint"));
    }
    let settings = kserve::trace_settings(app.options.traces.as_ref()).into_iter();
    let settings = settings.map(|(name, value)| (name.to_owned(), SettingValue { value }));
    let settings: HashMap<_, _> = settings.collect();
    Ok(message::reply(&proto::TraceSettingResponse { settings }))
}

pub(super) async fn shared_memory() -> Failure {
    kserve::no_shared_memory()
}

/// What operators ask is not answered here where they have a port of their own.
fn is_not_elsewhere(app: &App) -> Result<(), Failure> {
    if app.options.management.is_empty() {
        return Ok(());
    }
    let why = "operators ask at the management port (--management_port)";
    Err(Failure::new(Cause::Forbidden, why))
}
