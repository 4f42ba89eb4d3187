//! The effective settings of an embedding engine, and its measurements.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::declare_measurements;
use crate::measure::{REQUEST_SECONDS, TOKEN_SECONDS, TOKENS};
use crate::model::info::{BackendInfo, Mebibytes};
use crate::settings::Pooling;

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
            pooling = self.pooling.to_string(),
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
            self.context_length, self.max_num_batched_tokens, self.dimensions, self.pooling
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

declare_measurements! {
    /// Measurements of an embedding engine since it was loaded.
    pub struct EmbeddingMeasurements from pub(super) Recorders;
    histograms {
        /// Seconds from a request's submission to its result.
        request_seconds: REQUEST_SECONDS,
        /// Duration of steps, in seconds.
        step_seconds: TOKEN_SECONDS,
        /// Number of tokens per step.
        step_tokens: TOKENS,
        /// Number of texts per step.
        step_texts: TOKENS,
    }
    counters {
        /// Number of steps that failed or panicked.
        failed_steps,
    }
    /// Number of ended requests, by outcome: `done`, `error` or `cancelled`.
    finished {
        done: "done",
        failed: "error",
        cancelled: "cancelled",
    }
}

impl Recorders {
    pub(super) fn step(&self, took: Duration, texts: usize, tokens: usize) {
        self.step_seconds.record(took.as_secs_f64());
        self.step_texts.record(texts as f64);
        self.step_tokens.record(tokens as f64);
    }

    pub(super) fn ended(&self, submitted: Instant, well: bool) {
        self.request_seconds
            .record(submitted.elapsed().as_secs_f64());
        let counter = if well { &self.done } else { &self.failed };
        counter.add(1);
    }
}
