//! The ceiling: the speed of `llama_decode` alone.
//!
//! A server cannot be faster than this with the same kernels. Every sequence has its logits
//! computed, as a server must; nothing is sampled.

use std::{
    mem::ManuallyDrop, num::NonZeroU32, path::Path, thread::available_parallelism, time::Instant,
};

use graphmill_llm::{backend::with_cpu_kernels, settings::CpuKernels};
use llama_cpp_2::{
    LogOptions,
    context::{LlamaContext, params::LlamaContextParams},
    llama_backend::LlamaBackend,
    llama_batch::LlamaBatch,
    model::{LlamaModel, params::LlamaModelParams},
    send_logs_to_tracing,
    token::LlamaToken,
};
use llama_cpp_sys_2::{LLAMA_FLASH_ATTN_TYPE_DISABLED, LLAMA_FLASH_ATTN_TYPE_ENABLED};

use crate::{BenchResult, load::random::Random};

/// Tokens of a batch, and how many of them are computed at once: llama.cpp's own defaults.
const BATCH: usize = 2048;
const UBATCH: u32 = 512;
/// Steps before the clock starts.
const WARM_UP: usize = 2;

/// A way to compute attention. The fastest one depends on the model, the batch and the lengths, so
/// all are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attention {
    pub(crate) layout: Layout,
    /// Uses the fused kernel instead of the plain ones.
    pub(crate) flash: bool,
}

impl Attention {
    /// Returns the name in results.
    pub(crate) fn name(self) -> &'static str {
        match (self.layout, self.flash) {
            (Layout::PerSequence, true) => "per sequence, flash",
            (Layout::PerSequence, false) => "per sequence, plain",
            (Layout::Unified, true) => "unified, flash",
            (Layout::Unified, false) => "unified, plain",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// One cache for all sequences: a sequence's attention runs over all cells that are used.
    Unified,
    /// A cache for each sequence.
    PerSequence,
}

/// The amount of work of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    /// Number of sequences that decode at once.
    pub(crate) sequences: usize,
    /// Number of tokens in each prompt.
    pub(crate) prompt_tokens: usize,
    /// Number of tokens generated for each sequence.
    pub(crate) tokens: usize,
}

/// A model loaded without an engine.
pub(crate) struct Raw {
    /// Never dropped: that would end llama.cpp under the engines of this process.
    backend: ManuallyDrop<LlamaBackend>,
    model: LlamaModel,
    threads: i32,
    /// Cells that each sequence has at least.
    context: usize,
}

impl Raw {
    /// Loads a model, to be computed with the kernels that an engine would use. Without `threads`,
    /// one for each processor that this process may use. Each sequence gets `context` cells, or as
    /// many as it needs if those are more.
    ///
    /// # Errors
    ///
    /// If llama.cpp cannot load it.
    pub(crate) fn load(
        path: &Path,
        threads: Option<u32>,
        kernels: CpuKernels,
        context: usize,
    ) -> BenchResult<Self> {
        let load = || Self::load_weights(path);
        let (backend, model) = with_cpu_kernels(kernels, load)?;
        let threads = match threads {
            Some(threads) => threads as i32,
            None => available_parallelism()?.get() as i32,
        };
        Ok(Self {
            backend,
            model,
            threads,
            context,
        })
    }

    fn load_weights(path: &Path) -> BenchResult<(ManuallyDrop<LlamaBackend>, LlamaModel)> {
        // Where an engine of this process has initialized llama.cpp before, the value only stands
        // for that.
        let backend = ManuallyDrop::new(LlamaBackend::init().unwrap_or_else(|_| LlamaBackend {}));
        send_logs_to_tracing(LogOptions::default().with_logs_enabled(false));
        // GPUs would compute large batches even with weights in main memory.
        let params = LlamaModelParams::default()
            .with_devices(&[])?
            .with_n_gpu_layers(0);
        let model = LlamaModel::load_from_file(&backend, path, &params)?;
        Ok((backend, model))
    }

    /// Tokens a second, over all sequences, of decoding one token of each at a time after their
    /// prompts.
    ///
    /// # Errors
    ///
    /// If llama.cpp cannot make the context or compute.
    pub(crate) fn decode_rate(&self, attention: Attention, work: Work) -> BenchResult<f64> {
        let mut begun = Instant::now();
        let mut steps = 0;
        let warmed_up = Work {
            tokens: WARM_UP + work.tokens,
            ..work
        };
        self.decode(attention, warmed_up, || {
            steps += 1;
            if steps == WARM_UP {
                begun = Instant::now();
            }
        })?;
        Ok((work.sequences * work.tokens) as f64 / begun.elapsed().as_secs_f64())
    }

    /// Decodes one token of each sequence at a time after their prompts, and calls `after` each
    /// time.
    ///
    /// # Errors
    ///
    /// If llama.cpp cannot make the context or compute.
    pub(crate) fn decode(
        &self,
        attention: Attention,
        work: Work,
        mut after: impl FnMut(),
    ) -> BenchResult {
        let mut context = self.context(attention, work)?;
        self.prefill(&mut context, work)?;
        let mut batch = LlamaBatch::new(work.sequences, 1);
        for step in 0..work.tokens {
            batch.clear();
            for sequence in 0..work.sequences {
                let token = self.token((step * work.sequences + sequence) as u64);
                let position = (work.prompt_tokens + step) as i32;
                batch.add(token, position, &[sequence as i32], true)?;
            }
            context.decode(&mut batch)?;
            context.synchronize();
            for row in 0..work.sequences {
                std::hint::black_box(context.get_logits_ith(row as i32));
            }
            after();
        }
        Ok(())
    }

    /// Tokens a second of computing one prompt.
    ///
    /// # Errors
    ///
    /// If llama.cpp cannot make the context or compute.
    pub(crate) fn prefill_rate(
        &self,
        attention: Attention,
        prompt_tokens: usize,
    ) -> BenchResult<f64> {
        let work = Work {
            sequences: 1,
            prompt_tokens,
            tokens: 0,
        };
        let mut context = self.context(attention, work)?;
        self.prefill(&mut context, work)?;
        context.clear_kv_cache();
        let begun = Instant::now();
        self.prefill(&mut context, work)?;
        Ok(prompt_tokens as f64 / begun.elapsed().as_secs_f64())
    }

    fn context(&self, attention: Attention, work: Work) -> BenchResult<LlamaContext<'_>> {
        // llama.cpp allocates cells of a sequence in multiples of 256.
        let needed = work.prompt_tokens + work.tokens;
        let cells = needed.max(self.context).next_multiple_of(256);
        let flash = if attention.flash {
            LLAMA_FLASH_ATTN_TYPE_ENABLED
        } else {
            LLAMA_FLASH_ATTN_TYPE_DISABLED
        };
        let params = LlamaContextParams::default()
            .with_n_ctx(NonZeroU32::new((cells * work.sequences) as u32))
            .with_n_batch(BATCH as u32)
            .with_n_ubatch(UBATCH)
            .with_n_seq_max(work.sequences as u32)
            .with_n_threads(self.threads)
            .with_n_threads_batch(self.threads)
            .with_kv_unified(attention.layout == Layout::Unified)
            .with_flash_attention_policy(flash)
            .with_offload_kqv(false)
            .with_op_offload(false)
            .with_no_perf(true);
        Ok(self.model.new_context(&self.backend, params)?)
    }

    fn prefill(&self, context: &mut LlamaContext<'_>, work: Work) -> BenchResult {
        let mut batch = LlamaBatch::new(BATCH, 1);
        for sequence in 0..work.sequences {
            let positions: Vec<usize> = (0..work.prompt_tokens).collect();
            for part in positions.chunks(BATCH) {
                batch.clear();
                for &position in part {
                    let token = self.token((sequence * work.prompt_tokens + position) as u64);
                    let last = position + 1 == work.prompt_tokens;
                    batch.add(token, position as i32, &[sequence as i32], last)?;
                }
                context.decode(&mut batch)?;
            }
        }
        context.synchronize();
        Ok(())
    }

    fn token(&self, number: u64) -> LlamaToken {
        LlamaToken(Random::new(number).below(self.model.n_vocab() as usize) as i32)
    }
}
