//! The batching engine: many generations share one model through continuous batching.
//!
//! One thread per model owns the [`Backend`] (weights, KV cache, compute) and repeats one step: take in what arrived, plan a batch
//! under a token budget, decode it, sample the rows that ended, and hand the outputs of the whole step to a second thread that
//! delivers them. Requests join and leave between steps.
//!
//! ```
//! use std::sync::mpsc;
//! use graphmill_llm::{Engine, EngineSpec, GenerationRequest, StepOutput};
//! # let folder = std::env::temp_dir().join(format!("graphmill-llm-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! # let script = folder.join("hello.script.json");
//! # std::fs::write(&script, r#"{"replies": [{"text": "Hello."}]}"#)?;
//! let engine = Engine::load(EngineSpec::new(script))?;
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
//! Reading order: [`protocol`] (what goes in and out), [`spec`] (what is loaded), `schedule` (who computes what in a step),
//! `engine` (the thread), `sampler`, `speculate` (several tokens a step), [`backend`]; [`embed`] is an engine for texts that are only read.

pub mod backend;
mod cache;
mod constrain;
pub mod embed;
mod engine;
mod files;
pub mod info;
mod load;
pub mod measure;
#[cfg(any(test, feature = "llama"))]
mod memory;
pub mod protocol;
mod reasoning;
pub mod room;
mod sampler;
mod schedule;
mod sequence;
pub mod spec;
mod speculate;
mod supervise;
pub mod trial;
mod vocab;
mod worker;

pub use backend::Backend;
pub use constrain::{
    CompileError, CompiledConstraint, ConstrainedText, Constraint, ConstraintError, ReasoningMarks,
};
pub use engine::{Engine, EngineStatus, PromptPreview, SequenceHandle};
pub use files::ModelFiles;
pub use info::EngineInfo;
pub use measure::{Histogram, Measurements};
pub use protocol::{
    DraftCounts, DraftSource, DryParams, Entry, ErrorKind, FinishReason, GenerationError,
    GenerationRequest, LoadError, LogitBias, MirostatParams, MirostatVersion, OutOfMemory,
    RequestId, SamplingParams, SequenceId, SpeculationParams, StepOutput, StepSink, SubmitError,
    Token, TokenLogprob, TokenSet, Tokens, Usage,
};
pub use reasoning::ReasoningLimit;
pub use sampler::{Sampled, Sampler, Scratch};
pub use spec::{
    AdapterSpec, BackendKind, Device, DraftSpec, EngineSpec, FlashAttention, KvType, Numa, Number,
    PluginConfig, RopeScaling, SpecError, SplitMode, TensorOverride, ThreadPriority,
    resolve_model_path,
};
pub use supervise::{EngineState, Health, Supervised};
pub use vocab::{GapMarks, TokenizeError, Vocab};
pub use worker::QueuePlace;
