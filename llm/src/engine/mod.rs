//! The LLM engine: one thread that computes the sequences of all requests on one model. Its loop is
//! in [`step`]; [`handle`] and [`submit`] are its interface to the rest of the program.

mod apply_plan;
mod batch;
mod commit;
mod delivery;
mod entry;
mod handle;
mod order;
mod planner;
mod preview;
mod queue;
mod queue_pace;
mod recovery;
mod request;
mod sample;
mod sequence;
mod sequence_drafting;
mod sequence_tokens;
mod slots;
mod standing;
mod status;
mod step;
mod submit;
mod timing;

pub use handle::LlmEngine;
pub use preview::PromptPreview;
pub use request::{Entry, GenerationRequest, OnAdmission};
pub use standing::Standing;
pub use status::{LlmEngineStatus, StepStatus};
pub use submit::SequenceHandle;
