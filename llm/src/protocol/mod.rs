//! What crosses the border of the engine thread: requests in, step outputs out, and the errors of
//! both directions.

mod adapters;
mod errors;
mod ids;
mod output;
mod sampling;
mod speculation;
mod tokens;

pub use adapters::NamedAdapter;
pub use errors::{ErrorKind, GenerationError, LoadError, OutOfMemory, SubmitError};
pub use ids::{RequestId, SequenceId, Tenant, Token, Tokens};
pub use output::{DraftCounts, FinishReason, StepOutput, StepSink, TokenLogprob, Usage};
pub use sampling::{DryParams, MirostatParams, MirostatVersion, SamplingParams};
pub use speculation::{DraftSource, SpeculationParams};
pub use tokens::{LogitBias, TokenSet};
