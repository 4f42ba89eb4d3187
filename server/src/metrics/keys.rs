//! Usage of keys, labeled with their names. The key file bounds the number of labels.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

/// Counts by key. Clones share the counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyCounts {
    requests: Family<KeyLabels, Counter>,
    refusals: Family<RefusalLabels, Counter>,
    prompt_tokens: Family<KeyLabels, Counter>,
    generated_tokens: Family<KeyLabels, Counter>,
    queued: Family<KeyLabels, Gauge>,
    queued_tokens: Family<KeyLabels, Gauge>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KeyLabels {
    key: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabels {
    /// Name of the key; empty for a request without a valid key.
    key: String,
    reason: &'static str,
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
        let labels = RefusalLabels {
            key: key.to_owned(),
            reason,
        };
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

fn labels(key: &str) -> KeyLabels {
    KeyLabels {
        key: key.to_owned(),
    }
}
