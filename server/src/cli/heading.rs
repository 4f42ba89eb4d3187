//! The headings of flags in the help.

pub(super) const MODELS: &str = "Models";
pub(super) const NETWORK: &str = "Network";
pub(super) const SECURITY: &str = "Security";
pub(super) const LIMITS: &str = "Limits";
pub(super) const OBSERVABILITY: &str = "Observability";
pub(super) const LIFECYCLE: &str = "Lifecycle";
/// Options of the graph that a model gets.
pub(super) const MODEL: &str = "Model options, for a model without a graph of its own";
/// Options of the node that reads requests in that graph.
pub(super) const SAMPLING: &str = "Defaults of requests, for a model without a graph of its own";
pub(super) const EDITING: &str = "Instead of serving";
