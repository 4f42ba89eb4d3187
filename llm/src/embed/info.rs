//! The effective settings of an embedding engine, and its measurements.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::measure::{Counter, Histogram, REQUEST_SECONDS, Recorder, TOKEN_SECONDS, TOKENS};
use crate::model::info::{BackendInfo, Mebibytes};
use crate::spec::Pooling;

/// The effective values of an embedding engine. They do not change while it lives.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EmbeddingInfo {
    /// Model name, from its file.
    pub model: String,
    /// Path of the model file.
    pub path: PathBuf,
    /// Maximum number of tokens of a text.
    pub context_length: u32,
    /// Maximum number of tokens in a step of several texts.
    pub max_num_batched_tokens: u32,
    /// Length of a vector, or number of outputs of a ranking head.
    pub dimensions: u32,
    /// Rule that makes one vector from the vectors of all tokens.
    pub pooling: Pooling,
    /// Maximum number of requests at the same time.
    pub max_waiting: u32,
    /// Devices, weights and threads, reported by the backend.
    #[serde(flatten)]
    pub backend: BackendInfo,
}

impl EmbeddingInfo {
    /// Logs the chosen values, as an engine that generates does.
    pub(super) fn log(&self) {
        let weights = self.backend.weights.as_ref();
        tracing::info!(
            model = self.model,
            path = %self.path.display(),
            architecture = weights.map(|weights| weights.architecture.as_str()),
            quantization = weights.map(|weights| weights.quantization.as_str()),
            parameters = weights.map(|weights| weights.parameters),
            context_length = self.context_length,
            max_num_batched_tokens = self.max_num_batched_tokens,
            max_waiting = self.max_waiting,
            dimensions = self.dimensions,
            pooling = self.pooling.as_str(),
            threads = (self.backend.compute.as_ref()).map(|compute| compute.batch_threads),
            "embedding engine loaded"
        );
        tracing::debug!("embedding engine\n{self}");
    }
}

/// Formats one line for each concern.
impl fmt::Display for EmbeddingInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "model     {} ({})", self.model, self.path.display())?;
        if let Some(weights) = &self.backend.weights {
            writeln!(f, "weights   {weights}")?;
        }
        write!(
            f,
            "texts     {} tokens at most, {} at once; {} numbers each, pooling {}",
            self.context_length,
            self.max_num_batched_tokens,
            self.dimensions,
            self.pooling.as_str()
        )?;
        if let Some(compute) = &self.backend.compute {
            let bytes: u64 = self.backend.buffers.iter().map(|buffer| buffer.bytes).sum();
            write!(
                f,
                "\ncompute   {} threads, flash attention {}; memory {}",
                compute.batch_threads,
                if compute.flash_attention { "on" } else { "off" },
                Mebibytes(bytes)
            )?;
        }
        Ok(())
    }
}

/// Measurements of an embedding engine since it was loaded.
#[derive(Clone, Debug, PartialEq)]
pub struct EmbeddingMeasurements {
    /// Seconds from a request's submission to its result.
    pub request_seconds: Histogram,
    /// Duration of steps, in seconds.
    pub step_seconds: Histogram,
    /// Number of tokens per step.
    pub step_tokens: Histogram,
    /// Number of texts per step.
    pub step_texts: Histogram,
    /// Number of ended requests, by outcome: `done`, `error` or `cancelled`.
    pub finished: [(&'static str, u64); 3],
}

/// Recorders of measurements, written by the engine thread.
#[derive(Debug)]
pub(super) struct Recorders {
    request: Recorder,
    step: Recorder,
    step_tokens: Recorder,
    step_texts: Recorder,
    pub(super) failed_steps: Counter,
    done: Counter,
    failed: Counter,
    pub(super) cancelled: Counter,
}

impl Default for Recorders {
    fn default() -> Self {
        Self {
            request: Recorder::new(REQUEST_SECONDS),
            step: Recorder::new(TOKEN_SECONDS),
            step_tokens: Recorder::new(TOKENS),
            step_texts: Recorder::new(TOKENS),
            failed_steps: Counter::default(),
            done: Counter::default(),
            failed: Counter::default(),
            cancelled: Counter::default(),
        }
    }
}

impl Recorders {
    pub(super) fn step(&self, took: Duration, texts: usize, tokens: usize) {
        self.step.record(took.as_secs_f64());
        self.step_texts.record(texts as f64);
        self.step_tokens.record(tokens as f64);
    }

    pub(super) fn ended(&self, submitted: Instant, well: bool) {
        self.request.record(submitted.elapsed().as_secs_f64());
        let counter = if well { &self.done } else { &self.failed };
        counter.add(1);
    }

    pub(super) fn read(&self) -> EmbeddingMeasurements {
        EmbeddingMeasurements {
            request_seconds: self.request.read(),
            step_seconds: self.step.read(),
            step_tokens: self.step_tokens.read(),
            step_texts: self.step_texts.read(),
            finished: [
                ("done", self.done.get()),
                ("error", self.failed.get()),
                ("cancelled", self.cancelled.get()),
            ],
        }
    }
}
