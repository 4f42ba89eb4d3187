//! Messages between the engine thread and the rest of the program: requests, step outputs, and
//! errors of both directions.

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
