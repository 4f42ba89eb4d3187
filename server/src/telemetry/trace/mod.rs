//! Traces: a span for each request, one for the run of its graph, and one for each node that was
//! called, sent to an OpenTelemetry collector.
//!
//! Nothing is created while tokens are generated. The spans of a run are created at its end, from
//! the counts of its session. A server without a collector has no `Traces`, and its sessions report
//! nothing.

mod client;
mod names;
mod options;
mod request;
mod run;

use std::time::Duration;

use opentelemetry::{KeyValue, trace::TracerProvider as _};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::{
    Resource,
    trace::{Sampler, SdkTracer, SdkTracerProvider},
};

pub use options::{OtlpProtocol, TraceOptions};
pub(crate) use request::RequestTrace;
pub(crate) use run::RunTrace;

/// The sender of spans to a collector.
#[derive(Debug)]
pub(crate) struct Traces {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

impl Traces {
    /// Starts sending. Does not wait for the collector, which may start later. Must be called in a
    /// Tokio runtime.
    pub(crate) fn start(options: &TraceOptions) -> Result<Self, String> {
        let TraceOptions {
            endpoint, timeout, ..
        } = options;
        let exporter = match options.protocol {
            OtlpProtocol::Grpc => SpanExporter::builder()
                .with_tonic()
                .with_endpoint(endpoint)
                .with_timeout(*timeout)
                .build(),
            OtlpProtocol::HttpProtobuf => SpanExporter::builder()
                .with_http()
                .with_http_client(client::SpanClient::new(*timeout))
                .with_protocol(opentelemetry_otlp::Protocol::HttpBinary)
                .with_endpoint(endpoint)
                .with_timeout(*timeout)
                .build(),
        };
        let exporter = exporter.map_err(|error| error.to_string())?;
        let mut provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource());
        if let Some(ratio) = options.sample_ratio {
            let root = Sampler::TraceIdRatioBased(ratio);
            provider = provider.with_sampler(Sampler::ParentBased(Box::new(root)));
        }
        let provider = provider.build();
        Ok(Self {
            tracer: provider.tracer("graphmill"),
            provider,
        })
    }

    /// Sends the remaining spans, within a time limit.
    pub(crate) async fn finish(&self, within: Duration) {
        let provider = self.provider.clone();
        let sending = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(within));
        match tokio::time::timeout(within, sending).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => tracing::warn!("the last spans may be lost: {error}"),
            _ => tracing::warn!("the last spans are lost: the collector did not accept them"),
        }
    }
}

/// Returns the resource of the spans: `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES`, else this
/// program.
fn resource() -> Resource {
    const NAME: &str = "service.name";
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let detected = Resource::builder().build();
    let name = detected.get(&NAME.into());
    let resource = Resource::builder().with_attribute(version);
    if name.is_some_and(|name| !name.as_str().starts_with("unknown_service")) {
        resource.build()
    } else {
        resource.with_service_name(names::GRAPHMILL).build()
    }
}
