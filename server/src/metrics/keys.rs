//! The usage of each key, labeled with its name. The key file bounds the number of labels.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

/// Counts by key. Clones count together.
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
    /// Empty for a request without a valid key.
    key: String,
    reason: &'static str,
}

impl KeyCounts {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "key_requests",
            "Requests with a valid key",
            self.requests.clone(),
        );
        registry.register(
            "key_refusals",
            "Requests that were refused for their key",
            self.refusals.clone(),
        );
        registry.register(
            "key_prompt_tokens",
            "Tokens of prompts, reused ones included",
            self.prompt_tokens.clone(),
        );
        registry.register(
            "key_generation_tokens",
            "Tokens generated",
            self.generated_tokens.clone(),
        );
        registry.register(
            "key_requests_queued",
            "Requests that make their prompt or wait for a place in the batches",
            self.queued.clone(),
        );
        registry.register(
            "key_prompt_tokens_queued",
            "Tokens of the prompts of requests that wait for a place in the batches",
            self.queued_tokens.clone(),
        );
    }

    /// A request came with this key.
    pub(crate) fn request(&self, key: &str) {
        self.requests.get_or_create(&labels(key)).inc();
    }

    /// A request was refused; `key` is empty where it had none that is valid.
    pub(crate) fn refused(&self, key: &str, reason: &'static str) {
        let labels = RefusalLabels {
            key: key.to_owned(),
            reason,
        };
        self.refusals.get_or_create(&labels).inc();
    }

    /// So many more requests wait, and tokens of prompts.
    pub(crate) fn queued(&self, key: &str, requests: i64, tokens: i64) {
        for (family, more) in [(&self.queued, requests), (&self.queued_tokens, tokens)] {
            if more != 0 {
                family.get_or_create(&labels(key)).inc_by(more);
            }
        }
    }

    /// A request has ended.
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
