//! A run whose answer is what HTTP responses are made of: a whole body, or a stream of events.

use std::{sync::Arc, time::Instant};

use graphmill_calculators::payload::{HttpRequestPayload, HttpResponse};
use graphmill_engine::{Packet, SidePackets, Summary};

use super::{Driver, RequestContext, Run, RunOptions};
use crate::{
    errors::{Cause, Failure},
    observe::trace::RunTrace,
    servable::{Ready, request_stream, response_stream},
};

/// The answer of a graph to one request.
pub(crate) struct Answer(Run);

impl Answer {
    /// Runs a graph with a request.
    pub(crate) async fn open(
        who: &RequestContext,
        ready: Ready,
        payload: HttpRequestPayload,
        deadline: Option<Instant>,
        trace: Option<RunTrace>,
    ) -> Result<Self, Failure> {
        let plan = Arc::clone(&ready.plan);
        let (Some(input), Some(output)) = (request_stream(&plan), response_stream(&plan)) else {
            let name = ready.servable.name();
            let why = format!("the graph takes tensors: POST /v2/models/{name}/infer");
            return Err(Failure::new(Cause::BadRequest, why).of_field("model"));
        };
        let options = RunOptions {
            label: payload.uri.split('?').next().unwrap_or_default(),
            sides: &SidePackets::new(),
            batch_priority: 0,
            deadline,
            driver: Driver::Task,
            trace,
        };
        let run = Run::open(who, ready, [output], options)?;
        run.handle().push(input, Packet::new(0, payload)).await?;
        run.handle().close(input)?;
        Ok(Self(run))
    }

    /// The first packet of the answer.
    pub(crate) async fn first(&mut self) -> Result<HttpResponse, Failure> {
        match self.next().await? {
            Some(first) => Ok(first),
            None => Err(Failure::no_answer(self.0.summary())),
        }
    }

    /// The next packet; `None` when the session has ended well. May be dropped before it is ready:
    /// no packet is lost.
    pub(crate) async fn next(&mut self) -> Result<Option<HttpResponse>, Failure> {
        let Some((_, packet)) = self.0.next().await? else {
            return Ok(None);
        };
        packet.into_value().map(Some).ok_or_else(|| {
            let why = "the graph's answer is a packet of another type than `HttpResponse`";
            Failure::new(Cause::NoAnswer, why)
        })
    }

    /// Waits for the rest of the answer. Returns the summary of the session, if it ended well.
    pub(crate) async fn summary(&mut self) -> Option<&Summary> {
        while let Ok(Some(_)) = self.next().await {}
        self.0.summary()
    }
}
