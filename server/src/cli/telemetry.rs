//! Flags for traces.

use clap::Args;

use super::heading;
use crate::telemetry::trace::TraceOptions;

#[derive(Debug, Args)]
#[command(rename_all = "snake_case", next_help_heading = heading::OBSERVABILITY)]
pub(super) struct Telemetry {
    /// OpenTelemetry collector for traces: gRPC at port 4317, otherwise HTTP.
    ///
    /// `OTEL_EXPORTER_OTLP_PROTOCOL` sets the protocol. Without the flag,
    /// `OTEL_EXPORTER_OTLP_ENDPOINT` names the collector; without either, there are no traces.
    #[arg(long, value_name = "URL")]
    otlp_endpoint: Option<String>,
    /// Share of requests that are traced, from 0 to 1.
    ///
    /// A request that is part of a trace follows the decision of that trace. Without the flag,
    /// `OTEL_TRACES_SAMPLER` decides; without either, all requests are traced.
    #[arg(long, value_name = "RATIO", value_parser = ratio)]
    trace_sample_ratio: Option<f64>,
}

impl Telemetry {
    /// Returns the options for traces; `None` if there is no collector.
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
