//! A sample of a server's activity.

use std::{collections::BTreeMap, time::Instant};

use prometheus_parse::{HistogramCount, Scrape, Value as Measured};
use serde_json::Value;

use crate::cli::client::Client;

const TTFT: &str = "graphmill_time_to_first_token_seconds";
const REQUESTS: &str = "graphmill_requests_total";

/// The status and the metrics of a server at one time.
pub(super) struct Sample {
    pub(super) at: Instant,
    pub(super) status: Value,
    /// The open sessions, or the reason why they cannot be listed.
    pub(super) sessions: Result<Value, String>,
    /// Histogram of times to the first token, by graph. The count of a bucket includes the buckets
    /// below it.
    ttft: BTreeMap<String, Vec<HistogramCount>>,
    /// Requests and failed requests, by graph.
    requests: BTreeMap<String, Requests>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Requests {
    pub(super) all: f64,
    /// Requests with a status of 400 or above.
    pub(super) failed: f64,
}

impl Sample {
    /// Fetches the status and the metrics of a server.
    pub(super) async fn take(client: &Client) -> Result<Self, String> {
        let status = client.get_json("/v3/status").await?;
        let text = client.get("/metrics").await?;
        let sessions = client.get_json("/v3/sessions").await;
        Ok(Self::new(status, sessions, &text, Instant::now()))
    }

    fn new(status: Value, sessions: Result<Value, String>, metrics: &str, at: Instant) -> Self {
        let lines = metrics.lines().map(|line| Ok(line.to_owned()));
        // A parse error would come from the lines, which were read without one.
        let samples = Scrape::parse(lines).map_or(Vec::new(), |scrape| scrape.samples);
        let mut ttft = BTreeMap::new();
        let mut requests: BTreeMap<String, Requests> = BTreeMap::new();
        for sample in samples {
            let graph = sample.labels.get("graph").unwrap_or_default().to_owned();
            match sample.value {
                Measured::Histogram(buckets) if sample.metric == TTFT => {
                    ttft.insert(graph, buckets);
                }
                Measured::Counter(count) if sample.metric == REQUESTS => {
                    let of_graph = requests.entry(graph).or_default();
                    of_graph.all += count;
                    let code = sample.labels.get("code").unwrap_or_default();
                    if code.starts_with(['4', '5']) {
                        of_graph.failed += count;
                    }
                }
                _ => {}
            }
        }
        Self {
            at,
            status,
            sessions,
            ttft,
            requests,
        }
    }

    /// Returns the median time to the first token in seconds, of the requests since `before`, or of
    /// all if there were none.
    pub(super) fn ttft_median(&self, graph: &str, before: &Self) -> Option<f64> {
        let now = self.ttft.get(graph)?;
        let earlier = before
            .ttft
            .get(graph)
            .filter(|earlier| earlier.len() == now.len());
        let since: Option<Vec<HistogramCount>> = earlier.map(|earlier| {
            let pairs = now.iter().zip(earlier);
            let counted = pairs.map(|(now, earlier)| HistogramCount {
                count: now.count - earlier.count,
                ..*now
            });
            counted.collect()
        });
        since
            .and_then(|since| median(&since))
            .or_else(|| median(now))
    }

    /// Returns the numbers of requests of a graph.
    pub(super) fn requests(&self, graph: &str) -> Requests {
        self.requests.get(graph).copied().unwrap_or_default()
    }
}

/// Returns the median of a histogram in seconds, as if times were spread evenly within a bucket.
fn median(buckets: &[HistogramCount]) -> Option<f64> {
    let half = buckets.last()?.count / 2.0;
    if half <= 0.0 {
        return None;
    }
    let (mut below, mut counted) = (0.0, 0.0);
    for bucket in buckets {
        if bucket.count >= half {
            if bucket.less_than.is_infinite() {
                return Some(below);
            }
            let part = (half - counted) / (bucket.count - counted);
            return Some(below + part * (bucket.less_than - below));
        }
        (below, counted) = (bucket.less_than, bucket.count);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(fast: u32, slow: u32, failed: u32) -> Sample {
        let text = format!(
            "# TYPE {TTFT} histogram\n\
             {TTFT}_bucket{{graph=\"a\",model=\"m\",le=\"0.1\"}} {fast}\n\
             {TTFT}_bucket{{graph=\"a\",model=\"m\",le=\"0.3\"}} {both}\n\
             {TTFT}_bucket{{graph=\"a\",model=\"m\",le=\"+Inf\"}} {both}\n\
             {TTFT}_sum{{graph=\"a\",model=\"m\"}} 1\n\
             {TTFT}_count{{graph=\"a\",model=\"m\"}} {both}\n\
             # TYPE {REQUESTS} counter\n\
             {REQUESTS}{{graph=\"a\",endpoint=\"chat\",code=\"200\"}} {both}\n\
             {REQUESTS}{{graph=\"a\",endpoint=\"chat\",code=\"429\"}} {failed}\n",
            both = fast + slow
        );
        Sample::new(Value::Null, Ok(Value::Null), &text, Instant::now())
    }

    #[test]
    fn medians_are_of_what_came_since_or_else_of_all() {
        let (first, second) = (sample(4, 0, 1), sample(4, 4, 3));
        assert_eq!(first.ttft_median("a", &first), Some(0.05));
        let since = second.ttft_median("a", &first).expect("some came");
        assert!((since - 0.2).abs() < 1e-9, "{since}");
        assert_eq!(sample(0, 0, 0).ttft_median("a", &first), None);
        assert_eq!(second.ttft_median("b", &first), None);
        let requests = second.requests("a");
        assert!((requests.all - 11.0).abs() < 1e-9 && (requests.failed - 3.0).abs() < 1e-9);
    }
}
