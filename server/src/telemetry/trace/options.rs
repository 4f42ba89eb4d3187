//! Options for traces, from flags and the environment.

use std::time::Duration;

use axum::http::Uri;

/// Destination and sampling of spans.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceOptions {
    /// URL of the collector; for HTTP with the path.
    pub endpoint: String,
    /// Protocol that the collector speaks.
    pub protocol: OtlpProtocol,
    /// Time limit for an answer of the collector.
    pub timeout: Duration,
    /// Share of requests with spans, from 0 to 1, among requests that are not part of a trace. With
    /// `None`, `OTEL_TRACES_SAMPLER` decides; without it, all have spans.
    pub sample_ratio: Option<f64>,
}

/// The protocol of a collector.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum OtlpProtocol {
    /// OTLP over gRPC, usually at port 4317.
    Grpc,
    /// Protocol buffers over HTTP, usually at port 4318.
    HttpProtobuf,
}

/// Port that means OTLP over gRPC.
const GRPC_PORT: u16 = 4317;

/// Path that is appended to the URL of an HTTP collector.
const HTTP_PATH: &str = "/v1/traces";

impl TraceOptions {
    /// Combines flags and the environment, which `variable` reads. `None` if there is no collector,
    /// or the environment turns traces off.
    pub(crate) fn new(
        flag: Option<&str>,
        sample_ratio: Option<f64>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, String> {
        let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let of_traces = |name: &str| {
            let own = format!("OTEL_EXPORTER_OTLP_TRACES_{name}");
            let all = format!("OTEL_EXPORTER_OTLP_{name}");
            set(&own)
                .map(|value| (own, value))
                .or_else(|| set(&all).map(|value| (all, value)))
        };
        let off = set("OTEL_SDK_DISABLED").is_some_and(|it| it.eq_ignore_ascii_case("true"))
            || set("OTEL_TRACES_EXPORTER").is_some_and(|it| it == "none");
        let named = match flag {
            Some(endpoint) => Some(("--otlp_endpoint".to_owned(), endpoint.to_owned())),
            None if off => None,
            None => of_traces("ENDPOINT"),
        };
        let Some((source, endpoint)) = named else {
            return Ok(None);
        };
        let uri = url(&endpoint).map_err(|why| format!("{source} is `{endpoint}`: {why}"))?;
        let protocol = match of_traces("PROTOCOL") {
            None if uri.port_u16() == Some(GRPC_PORT) => OtlpProtocol::Grpc,
            None => OtlpProtocol::HttpProtobuf,
            Some((name, value)) => match value.as_str() {
                "grpc" => OtlpProtocol::Grpc,
                "http/protobuf" => OtlpProtocol::HttpProtobuf,
                _ => {
                    return Err(format!(
                        "{name} is `{value}`: expected grpc or http/protobuf"
                    ));
                }
            },
        };
        let timeout = match of_traces("TIMEOUT") {
            None => Duration::from_secs(10),
            Some((name, value)) => {
                let expected =
                    |_| format!("{name} is `{value}`: expected a number of milliseconds");
                Duration::from_millis(value.parse().map_err(expected)?)
            }
        };
        // Only the URL that is specific to traces includes the path.
        let is_whole = source == "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
            || uri.path().trim_end_matches('/').ends_with(HTTP_PATH);
        let endpoint = if protocol == OtlpProtocol::HttpProtobuf && !is_whole {
            format!("{}{HTTP_PATH}", endpoint.trim_end_matches('/'))
        } else {
            endpoint
        };
        Ok(Some(Self {
            endpoint,
            protocol,
            timeout,
            sample_ratio,
        }))
    }
}

/// Parses the URL of a collector.
fn url(text: &str) -> Result<Uri, &'static str> {
    let expected = "expected the URL of a collector, such as http://127.0.0.1:4318";
    let uri: Uri = text.parse().map_err(|_| expected)?;
    match uri.scheme_str() {
        Some("http") if uri.host().is_some_and(|host| !host.is_empty()) => Ok(uri),
        Some("https") => Err("expected http://; a local collector can forward spans over https"),
        _ => Err(expected),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(
        flag: Option<&str>,
        environment: &[(&str, &str)],
    ) -> Result<Option<TraceOptions>, String> {
        TraceOptions::new(flag, None, |name| {
            let found = environment.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    fn sent_to(flag: Option<&str>, environment: &[(&str, &str)]) -> (String, OtlpProtocol) {
        let options = options(flag, environment).expect("good").expect("on");
        (options.endpoint, options.protocol)
    }

    #[test]
    fn without_a_collector_there_are_no_traces() {
        assert_eq!(options(None, &[]), Ok(None));
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318");
        for off in [
            ("OTEL_SDK_DISABLED", "true"),
            ("OTEL_TRACES_EXPORTER", "none"),
        ] {
            assert_eq!(options(None, &[endpoint, off]), Ok(None));
        }
        assert_eq!(
            options(None, &[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]),
            Ok(None)
        );
    }

    #[test]
    fn the_path_of_spans_is_added_where_the_url_is_for_all_signals() {
        let http = |endpoint: &str| (endpoint.to_owned(), OtlpProtocol::HttpProtobuf);
        assert_eq!(
            sent_to(Some("http://c:4318"), &[]),
            http("http://c:4318/v1/traces")
        );
        let whole = "http://c:4318/v1/traces";
        assert_eq!(sent_to(Some(whole), &[]), http(whole));
        let all = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/otlp/")];
        assert_eq!(sent_to(None, &all), http("http://c:4318/otlp/v1/traces"));
        let own = [("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c:4318/spans")];
        assert_eq!(sent_to(None, &own), http("http://c:4318/spans"));
    }

    #[test]
    fn the_protocol_follows_the_port_unless_it_is_named() {
        let grpc = ("http://c:4317".to_owned(), OtlpProtocol::Grpc);
        assert_eq!(sent_to(Some("http://c:4317"), &[]), grpc);
        let named = [("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")];
        assert_eq!(sent_to(Some("http://c:9"), &named).1, OtlpProtocol::Grpc);
    }

    #[test]
    fn mistakes_say_where_they_are() {
        for (flag, environment, told) in [
            (Some("c:4318"), &[][..], "--otlp_endpoint is `c:4318`"),
            (Some("https://c"), &[], "expected http://"),
            (
                None,
                &[("OTEL_EXPORTER_OTLP_ENDPOINT", "no url")],
                "OTEL_EXPORTER_OTLP_ENDPOINT is `no url`",
            ),
            (
                Some("http://c"),
                &[("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")],
                "OTEL_EXPORTER_OTLP_PROTOCOL is `http/json`",
            ),
            (
                Some("http://c"),
                &[("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "1s")],
                "milliseconds",
            ),
        ] {
            let error = options(flag, environment).expect_err("a mistake");
            assert!(error.contains(told), "{error}");
        }
    }
}
