//! The span of a request, from its head to the end of its answer.

use std::{
    sync::Arc,
    time::{Instant, SystemTime},
};

use axum::http::{HeaderMap, Method, StatusCode};
use opentelemetry::{
    Context, KeyValue,
    propagation::TextMapPropagator as _,
    trace::{SpanBuilder, SpanKind, Status, TraceContextExt as _, Tracer as _},
};
use opentelemetry_http::HeaderExtractor;
use opentelemetry_sdk::{propagation::TraceContextPropagator, trace::SdkTracer};

use super::{Traces, names};
use crate::{run::Facts, telemetry::log};

/// The span of one request, which is the parent of the other spans.
#[derive(Clone, Debug)]
pub(crate) struct RequestTrace {
    pub(super) tracer: SdkTracer,
    pub(super) context: Context,
    /// The same moment by both clocks, so that spans have a consistent order.
    began: (Instant, SystemTime),
}

impl RequestTrace {
    /// Starts the span of a request. It belongs to the trace in the request's headers, else to a
    /// new one.
    pub(crate) fn begin(
        traces: &Traces,
        method: &Method,
        route: Option<&str>,
        headers: &HeaderMap,
    ) -> Self {
        let parent = TraceContextPropagator::new()
            .extract_with_context(&Context::new(), &HeaderExtractor(headers));
        let name = route.map_or_else(|| method.to_string(), |route| format!("{method} {route}"));
        let began = (Instant::now(), SystemTime::now());
        let span = SpanBuilder::from_name(name)
            .with_kind(SpanKind::Server)
            .with_start_time(began.1);
        let span = traces.tracer.build_with_context(span, &parent);
        Self {
            tracer: traces.tracer.clone(),
            context: parent.with_span(span),
            began,
        }
    }

    /// Returns true if its spans are sent.
    pub(crate) fn is_sampled(&self) -> bool {
        self.context.span().span_context().is_sampled()
    }

    /// Returns the id of the trace, if its spans are sent.
    pub(crate) fn id(&self) -> Option<String> {
        let id = self.context.span().span_context().trace_id().to_string();
        self.is_sampled().then_some(id)
    }

    /// Returns the `traceparent` header for services that work for the request.
    pub(crate) fn traceparent(&self) -> Arc<str> {
        let span = self.context.span();
        let context = span.span_context();
        let (trace, span) = (context.trace_id(), context.span_id());
        let flags = context.trace_flags().to_u8();
        format!("00-{trace}-{span}-{flags:02x}").into()
    }

    /// Ends the span when the answer was sent, or the client has left, possibly before there was a
    /// status. `whole` is true if the whole answer was sent. Attributes are set here, because many
    /// requests have no span.
    pub(crate) fn end(&self, facts: &Facts, status: Option<StatusCode>, whole: bool) {
        if !self.is_sampled() {
            return;
        }
        let span = self.context.span();
        let mut attributes = vec![
            KeyValue::new(names::METHOD, facts.method.as_str().to_owned()),
            KeyValue::new(names::PATH, log::shown(&facts.path)),
            KeyValue::new(names::REQUEST_ID, facts.id.to_string()),
        ];
        if let Some(route) = facts.route() {
            attributes.push(KeyValue::new(names::ROUTE, route.to_owned()));
        }
        if let Some(status) = status {
            attributes.push(KeyValue::new(names::STATUS, i64::from(status.as_u16())));
        }
        let failure = facts.failure.get();
        let code = failure.and_then(|failure| failure.code().map(log::shown));
        let error = match (code, status) {
            (Some(code), _) => Some(code),
            (None, Some(status)) if status.as_u16() >= 400 => Some(status.as_str().to_owned()),
            (None, _) => (!whole).then(|| "client_disconnected".to_owned()),
        };
        if let Some(error) = &error {
            attributes.push(KeyValue::new(names::ERROR, error.clone()));
        }
        span.set_attributes(attributes);
        if facts.has_failed() || status.is_some_and(|status| status.is_server_error()) {
            span.set_status(Status::error(error.unwrap_or_default()));
        }
        span.end_with_timestamp(self.wall(Instant::now()));
    }

    /// Converts a moment since the start of the request to the time of day.
    pub(super) fn wall(&self, moment: Instant) -> SystemTime {
        let (began, time) = self.began;
        time + moment.saturating_duration_since(began)
    }
}
