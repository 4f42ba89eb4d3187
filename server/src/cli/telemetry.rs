//! Flags that say where traces go.

use clap::Args;

use crate::observe::trace::TraceOptions;

#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct Telemetry {
    /// The OpenTelemetry collector that takes traces: at port 4317 over gRPC, else over HTTP,
    /// unless `OTEL_EXPORTER_OTLP_PROTOCOL` says which. Without it, what
    /// `OTEL_EXPORTER_OTLP_ENDPOINT` names; without both there are no traces.
    #[arg(long, value_name = "URL")]
    otlp_endpoint: Option<String>,
    /// The part of requests that are traced, from 0 to 1. One that comes with a trace is decided by
    /// that. Without it, what `OTEL_TRACES_SAMPLER` says; without both, all.
    #[arg(long, value_name = "RATIO", value_parser = ratio)]
    trace_sample_ratio: Option<f64>,
}

impl Telemetry {
    /// Where traces go, if anywhere.
    pub(super) fn traces(&self) -> Result<Option<TraceOptions>, String> {
        let endpoint = self.otlp_endpoint.as_deref();
        TraceOptions::new(endpoint, self.trace_sample_ratio, |name| {
            std::env::var(name).ok()
        })
    }
}

fn ratio(text: &str) -> Result<f64, String> {
    let ratio = text.parse().ok();
    ratio
        .filter(|ratio| (0.0..=1.0).contains(ratio))
        .ok_or_else(|| "expected a number from 0 to 1".to_owned())
}
