//! Headings of groups of flags in the help.

pub(super) const MODELS: &str = "Models";
pub(super) const NETWORK: &str = "Network";
pub(super) const SECURITY: &str = "Security";
pub(super) const LIMITS: &str = "Limits";
pub(super) const OBSERVABILITY: &str = "Observability";
pub(super) const LIFECYCLE: &str = "Lifecycle";
/// Options of the built-in graph of a model.
pub(super) const MODEL: &str = "Model options (for a model without its own graph)";
/// Options of the request node in that graph.
pub(super) const SAMPLING: &str = "Request defaults (for a model without its own graph)";
pub(super) const EDITING: &str = "Instead of serving";
