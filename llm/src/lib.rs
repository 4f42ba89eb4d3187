//! The batching engine: many generations share one model through continuous batching.
//!
//! One thread per model owns the [`Backend`] (weights, KV cache, compute) and repeats one step:
//! receive messages, plan a batch under a token budget, decode it, sample the next tokens, and pass
//! the outputs of the whole step to a second thread that delivers them. Requests join and leave
//! between steps.
//!
//! ```
//! use std::sync::mpsc;
//! use graphmill_llm::{LlmEngine, LlmEngineSpec, GenerationRequest, StepOutput};
//! # let folder = std::env::temp_dir().join(format!("graphmill-llm-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! # let script = folder.join("hello.script.json");
//! # std::fs::write(&script, r#"{"replies": [{"text": "Hello."}]}"#)?;
//! let engine = LlmEngine::load(LlmEngineSpec::new(script))?;
//! let vocab = engine.vocab();
//! let prompt = vocab.tokenize("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", true, true)?;
//!
//! let (sender, outputs) = mpsc::channel();
//! let _handle = engine.submit(GenerationRequest::new(prompt, move |output: StepOutput| {
//!     sender.send(output).ok(); // the receiver outlives the generation here
//! }))?;
//!
//! let mut text = Vec::new();
//! for output in outputs {
//!     for token in output.tokens {
//!         vocab.piece(token, false, &mut text);
//!     }
//!     if output.finish.is_some() {
//!         break;
//!     }
//! }
//! assert_eq!(text, b"Hello.");
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Reading order: [`protocol`] (requests and outputs), [`settings`] (options of an engine), `schedule`
//! (plan of a step), `engine` (the thread), `sampler`, `speculate` (several tokens per step),
//! [`backend`]. [`embed`] is an engine for models that only read texts.

pub mod backend;
mod cache;
mod constrain;
mod debug;
pub mod embed;
mod engine;
mod load;
mod lock;
pub mod measure;
#[cfg(any(test, feature = "llama"))]
mod memory;
pub mod memory_budget;
mod model;
pub mod protocol;
mod sampler;
mod schedule;
pub mod settings;
mod speculate;
mod supervise;
pub mod vision;
mod worker;

pub use backend::Backend;
pub use cache::{CheckpointStatus, PrefixStatus};
pub use constrain::{
    CompileError, CompiledConstraint, Compiling, ConstrainedText, Constraint, ConstraintError,
    ReasoningLimit, ReasoningMarks, regex_to_lark, resolved_schema,
};
pub use engine::{
    Entry, GenerationRequest, LlmEngine, LlmEngineStatus, OnAdmission, PromptPreview,
    SequenceHandle, Standing, StepStatus,
};
pub use load::{check_headers, is_adapter, kind_of, prepare_process, trial};
pub use measure::{Histogram, Measurements, SlotWait};
pub use model::files::{ModelFiles, is_first_part, model_parts};
pub use model::info::{self, LlmEngineInfo};
pub use model::vocab::{GapMarks, NamedText, TokenizeError, Vocab};
pub use model::weights;
pub use model::{LoadStage, ModelKind, loading};
pub use protocol::{
    DraftCounts, DraftSource, DryParams, ErrorKind, FinishReason, GenerationError, LoadError,
    LogitBias, MirostatParams, MirostatVersion, NamedAdapter, OutOfMemory, RequestId,
    SamplingParams, SequenceId, SpeculationParams, StepOutput, StepSink, SubmitError, Tenant,
    Token, TokenLogprob, TokenSet, Tokens, Usage,
};
pub use sampler::{BadWords, SampledToken, Sampler, Scratch};
pub use settings::{
    AdapterSpec, BackendKind, Device, DraftSpec, FlashAttention, KvType, LlmEngineSpec, Numa,
    Number, PluginConfig, RopeScaling, SpecError, SplitMode, TensorOverride, ThreadPriority,
    VisionSpec, projector_beside, resolve_model_path,
};
pub use supervise::{Health, LlmEngineState, SupervisedEngine};
pub use vision::{
    Bitmap, DecodedMedium, Encoding, Medium, PlacedTile, Sound, Tile, Unread, Vision, VisionStatus,
};
pub use worker::QueuePlace;
