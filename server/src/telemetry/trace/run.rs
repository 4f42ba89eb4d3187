//! Spans of a graph's run, created at its end: one for the graph, and one for each node.

use std::{sync::Arc, time::Instant};

use graphmill_calculators::{
    http::dialect::Target,
    payload::{JsonBody, Tally, TallyCounts},
};
use graphmill_engine::{Error, Kind, NodeSummary, Summary};
use opentelemetry::{
    Context, KeyValue,
    trace::{Span as _, SpanBuilder, SpanKind, Status, TraceContextExt as _, Tracer as _},
};

use super::{RequestTrace, names};

/// Data for the spans of a run, in addition to the counts of its session.
pub(crate) struct RunTrace {
    request: RequestTrace,
    graph: String,
    /// Name of the graph, with an adapter if the request names one.
    model: String,
    operation: &'static str,
    asked: Vec<KeyValue>,
    tally: Arc<Tally>,
    began: Instant,
}

impl RunTrace {
    /// Collects the data for a request; `None` if its spans are not sent.
    pub(crate) fn new(
        request: &RequestTrace,
        graph: &str,
        target: Option<Target>,
        body: &JsonBody,
        tally: Arc<Tally>,
    ) -> Option<Self> {
        let model = || body.short("model").and_then(|it| it.as_str());
        request.is_sampled().then(|| Self {
            request: request.clone(),
            graph: graph.to_owned(),
            model: model().unwrap_or(graph).to_owned(),
            operation: names::operation(target),
            asked: names::asked(body),
            tally,
            began: Instant::now(),
        })
    }

    /// Creates the spans at the end of the session.
    pub(crate) fn end(self, summary: &Summary, error: Option<&Error>) {
        // A run is cancelled when it is not needed any more, also after its answer. The span of the
        // request shows if the client left before.
        let error = error.filter(|error| error.kind != Kind::Cancelled);
        let tracer = &self.request.tracer;
        let span = SpanBuilder::from_name(format!("{} {}", names::RUN_GRAPH, self.graph))
            .with_kind(SpanKind::Internal)
            .with_start_time(self.request.wall(self.began))
            .with_attributes([
                KeyValue::new(names::OPERATION, names::RUN_GRAPH),
                KeyValue::new(names::AGENT, self.graph.clone()),
            ]);
        let mut span = tracer.build_with_context(span, &self.request.context);
        if let Some(error) = error {
            fail(&mut span, error);
        }
        let graph = self.request.context.with_span(span);
        let explained = &summary.plan().explain().nodes;
        for node in summary.nodes() {
            let calculator = explained
                .iter()
                .find(|explained| explained.name == node.name)
                .map_or("", |explained| &explained.calculator);
            self.node(&graph, &node, calculator, error);
        }
        let ended = self.request.wall(Instant::now());
        graph.span().end_with_timestamp(ended);
    }

    /// Creates the span of a node, if it was called.
    fn node(
        &self,
        graph: &Context,
        node: &NodeSummary<'_>,
        calculator: &str,
        error: Option<&Error>,
    ) {
        let Some((first, last)) = node.called else {
            return;
        };
        let mut attributes = vec![
            KeyValue::new(names::NODE, node.name.to_owned()),
            KeyValue::new(names::CALCULATOR, calculator.to_owned()),
            KeyValue::new(names::CALLS, node.runs as i64),
            KeyValue::new(names::BUSY, node.time.as_secs_f64()),
        ];
        let computes = COMPUTES.contains(&calculator);
        if computes {
            attributes.extend(self.inference(&self.tally.node_counts(node.name)));
        }
        let name = if computes {
            format!("{} {}", self.operation, self.model)
        } else {
            node.name.to_owned()
        };
        let span = SpanBuilder::from_name(name)
            .with_kind(SpanKind::Internal)
            .with_start_time(self.request.wall(first))
            .with_attributes(attributes);
        let mut span = self.request.tracer.build_with_context(span, graph);
        if let Some(error) = error.filter(|error| error.node.as_deref() == Some(node.name)) {
            fail(&mut span, error);
        }
        span.end_with_timestamp(self.request.wall(last.max(first)));
    }

    /// Returns attributes of a model's inputs, settings and outputs.
    fn inference(&self, tally: &TallyCounts) -> Vec<KeyValue> {
        let mut attributes = vec![
            KeyValue::new(names::OPERATION, self.operation),
            KeyValue::new(names::PROVIDER, names::GRAPHMILL),
            KeyValue::new(names::REQUEST_MODEL, self.model.clone()),
            KeyValue::new(names::RESPONSE_MODEL, self.model.clone()),
            KeyValue::new(names::INPUT_TOKENS, i64::from(tally.prompt)),
        ];
        attributes.extend(self.asked.iter().cloned());
        if tally.submitted.is_some() {
            attributes.extend([
                KeyValue::new(names::OUTPUT_TOKENS, i64::from(tally.generated)),
                KeyValue::new(names::CACHED_TOKENS, i64::from(tally.cached)),
            ]);
        }
        if !tally.finishes.is_empty() {
            let reasons = tally.finishes.iter().map(|finish| finish.as_str());
            attributes.push(KeyValue::new(names::FINISH_REASONS, names::texts(reasons)));
        }
        let since_began = |first: Instant| first.saturating_duration_since(self.began);
        for (name, time) in [
            (names::FIRST_CHUNK, tally.first.map(since_began)),
            (names::QUEUE, tally.queued),
            (names::PREFILL, tally.prefill),
            (names::DECODE, tally.first.map(|_| tally.decoding)),
        ] {
            attributes.extend(time.map(|time| KeyValue::new(name, time.as_secs_f64())));
        }
        attributes
    }
}

/// Calculators that run a model.
const COMPUTES: [&str; 3] = ["LLMCalculator", "EmbedCalculator", "RankCalculator"];

/// Marks a span as failed, without texts of the request.
fn fail(span: &mut opentelemetry_sdk::trace::Span, error: &Error) {
    let kind = format!("{:?}", error.kind);
    span.set_attribute(KeyValue::new(names::ERROR, kind.clone()));
    span.set_status(Status::error(kind));
}
