//! Usage of keys, labeled with their names. The key file bounds the number of labels.

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use super::Labels;

/// Counts by key. Clones share the counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyCounts {
    requests: Family<Labels<1>, Counter>,
    /// Counts by key and reason. The key is empty for a request without a valid one.
    refusals: Family<Labels<2>, Counter>,
    prompt_tokens: Family<Labels<1>, Counter>,
    generated_tokens: Family<Labels<1>, Counter>,
    queued: Family<Labels<1>, Gauge>,
    queued_tokens: Family<Labels<1>, Gauge>,
}

impl KeyCounts {
    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Requests with a valid key";
        registry.register("key_requests", help, self.requests.clone());
        let help = "Requests refused because of their key";
        registry.register("key_refusals", help, self.refusals.clone());
        let help = "Prompt tokens, including reused ones";
        registry.register("key_prompt_tokens", help, self.prompt_tokens.clone());
        let help = "Tokens generated";
        registry.register("key_generation_tokens", help, self.generated_tokens.clone());
        let help = "Requests that prepare their prompt or wait for a slot";
        registry.register("key_requests_queued", help, self.queued.clone());
        let help = "Prompt tokens of requests that wait for a slot";
        registry.register("key_prompt_tokens_queued", help, self.queued_tokens.clone());
    }

    /// Counts a request with this key.
    pub(crate) fn request(&self, key: &str) {
        self.requests.get_or_create(&labels(key)).inc();
    }

    /// Counts a refused request; `key` is empty for a request without a valid key.
    pub(crate) fn refused(&self, key: &str, reason: &'static str) {
        let labels = [("key", key.to_owned()), ("reason", reason.to_owned())];
        self.refusals.get_or_create(&labels).inc();
    }

    /// Adds to the numbers of waiting requests and of their prompt tokens.
    pub(crate) fn queued(&self, key: &str, requests: i64, tokens: i64) {
        for (family, more) in [(&self.queued, requests), (&self.queued_tokens, tokens)] {
            if more != 0 {
                family.get_or_create(&labels(key)).inc_by(more);
            }
        }
    }

    /// Counts the tokens of a request that has ended.
    pub(crate) fn used(&self, key: &str, prompt: u32, generated: u32) {
        for (family, tokens) in [
            (&self.prompt_tokens, prompt),
            (&self.generated_tokens, generated),
        ] {
            if tokens > 0 {
                family.get_or_create(&labels(key)).inc_by(tokens.into());
            }
        }
    }
}

fn labels(key: &str) -> Labels<1> {
    [("key", key.to_owned())]
}
