//! The health service of gRPC, for probes of Kubernetes and for proxies.

use std::{pin::Pin, sync::Arc, time::Duration};

use futures_util::{Stream, stream};
use tokio::time::sleep;
use tonic::{Request, Response, Status};
use tonic_health::pb::{
    HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus,
    health_server::Health as Service,
};

use crate::{
    app::state::App, kserve::proto::grpc_inference_service_server::SERVICE_NAME, shutdown::Stage,
};

/// Interval for polling a watched state.
const LOOK: Duration = Duration::from_secs(1);

/// Service that reports if the server, or the graph of the given name, is ready.
pub(super) struct Health(pub(super) Arc<App>);

/// Returns the state of a service; `None` if the name is unknown.
fn state(app: &App, service: &str) -> Option<ServingStatus> {
    let reason = match service {
        "" | SERVICE_NAME => app.unready(),
        graph => {
            let servables = app.servables();
            let servable = servables.named(graph, None)?.servable;
            app.stopping().or_else(|| servable.unready())
        }
    };
    Some(match reason {
        None => ServingStatus::Serving,
        Some(_) => ServingStatus::NotServing,
    })
}

fn answer(state: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse {
        status: state.into(),
    }
}

#[tonic::async_trait]
impl Service for Health {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        match state(&self.0, &request.get_ref().service) {
            Some(state) => Ok(Response::new(answer(state))),
            None => Err(Status::not_found("unknown service or graph")),
        }
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (app, stage) = (Arc::clone(&self.0), self.0.runner.stage.clone());
        let service = request.into_inner().service;
        let watched = (app, service, None, stage);
        // Sends each change of the state, until the server stops.
        let states = stream::unfold(watched, async |(app, service, told, mut stage)| {
            loop {
                let now = state(&app, &service).unwrap_or(ServingStatus::ServiceUnknown);
                if told != Some(now) {
                    return Some((Ok(answer(now)), (app, service, Some(now), stage)));
                }
                if *stage.borrow_and_update() >= Stage::Draining {
                    return None;
                }
                tokio::select! {
                    () = sleep(LOOK) => {}
                    changed = stage.changed() => changed.ok()?,
                }
            }
        });
        Ok(Response::new(Box::pin(states)))
    }
}
