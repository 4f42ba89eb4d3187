//! The health service of gRPC, which probes of Kubernetes and proxies ask.

use std::{pin::Pin, sync::Arc, time::Duration};

use futures_util::{Stream, stream};
use tokio::{sync::watch, time::sleep};
use tonic::{Request, Response, Status};
use tonic_health::pb::{
    HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus,
    health_server::Health as Service,
};

use super::proto::grpc_inference_service_server::SERVICE_NAME;
use crate::{app::state::App, servable::Choice, stage::Stage};

/// How often a watched state is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Answers whether the server would serve requests, or a graph, by its name.
pub(super) struct Health(pub(super) Arc<App>);

/// The state of a service; none where there is no such service.
fn state(app: &App, service: &str) -> Option<ServingStatus> {
    let reason = match service {
        "" | SERVICE_NAME => app.unready(),
        graph => {
            let servables = app.servables();
            let servable = servables.named(graph, &Choice::Newest)?.servable;
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

/// What a client watches.
struct Watching {
    app: Arc<App>,
    service: String,
    told: Option<ServingStatus>,
    stage: watch::Receiver<Stage>,
}

impl Watching {
    /// Waits for another state than the one that was told; none when the server stops.
    async fn next(mut self) -> Option<(Result<HealthCheckResponse, Status>, Self)> {
        loop {
            let now = state(&self.app, &self.service).unwrap_or(ServingStatus::ServiceUnknown);
            if self.told != Some(now) {
                self.told = Some(now);
                return Some((Ok(answer(now)), self));
            }
            if *self.stage.borrow_and_update() >= Stage::Draining {
                return None;
            }
            tokio::select! {
                () = sleep(LOOK) => {}
                changed = self.stage.changed() => changed.ok()?,
            }
        }
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
            None => Err(Status::not_found("there is no such service or graph")),
        }
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let watching = Watching {
            app: Arc::clone(&self.0),
            service: request.into_inner().service,
            told: None,
            stage: self.0.stage.clone(),
        };
        Ok(Response::new(Box::pin(stream::unfold(
            watching,
            Watching::next,
        ))))
    }
}
