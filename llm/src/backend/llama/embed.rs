//! Contexts that embed and rank: a batch of whole texts is computed at once and forgotten.

use std::sync::Arc;

use llama_cpp_sys_2 as sys;

use super::ffi::{Context, Model, SequenceWidth};
use super::model::{self, Weights};
use super::plan::{self, MAX_SCORE_BYTES, MAX_SEQUENCES};
use super::process::environment;
use super::threads::Threads;
use super::vocab::LlamaVocabulary;
use super::{describe, device_memory, devices};
use crate::backend::interface::{
    Adapters, BatchToken, EmbeddingBackend, EmbeddingCapacity, LoadedEmbedding, ServeEmbedding,
    Slot,
};
use crate::memory_budget;
use crate::model::info::{BackendInfo, Mebibytes};
use crate::model::vocab::Vocab as _;
use crate::model::{Head, PairForm};
use crate::protocol::{LoadError, Token};
use crate::settings::{EmbeddingSpec, EmbeddingTask, FlashAttention, KvType, Pooling};

/// Number of tokens up to which a text is always tokenized, even if the model takes fewer. So a
/// long text can be cut, or refused with its count.
const TOKENS_TO_COUNT: u32 = 1 << 16;
/// The metadata key of the template that joins a query and a document.
const RANK_TEMPLATE: &str = "tokenizer.chat_template.rerank";

/// Loads the model and runs `serve` with a context on it.
pub(crate) fn open(spec: &EmbeddingSpec, serve: &mut ServeEmbedding<'_>) -> Result<(), LoadError> {
    let environment = environment(&spec.model, spec.plugin_config.numa)?;
    let available = memory_budget::available_bytes();
    let weights = model::load(&spec.weights())?;
    let refused = |message: &str| LoadError::model(&spec.model, message);
    if weights.model.encodes_and_decodes() {
        return Err(refused("it has an encoder and a decoder, and cannot embed"));
    }
    let pooling = pooling(spec, &weights.model)?;
    let lengths = Lengths::new(spec, &weights.model)?;
    let flash_attention = flash_attention(spec, &weights, lengths);
    check_memory(spec, &weights, lengths, flash_attention, available)?;
    let threads = Threads::new(&spec.plugin_config, spec.device, environment.numa)?;
    let mut params = plan::context_params(&spec.plugin_config, spec.device, flash_attention);
    params.n_ctx = lengths.ubatch;
    params.n_batch = lengths.ubatch;
    params.n_ubatch = lengths.ubatch;
    params.n_seq_max = lengths.sequences();
    params.kv_unified = true;
    params.n_threads = threads.batch as i32;
    params.n_threads_batch = threads.batch as i32;
    params.embeddings = true;
    params.pooling_type = pooling_type(pooling);
    let created = plan::create_context(&weights, &threads, params, None, Vec::new(), "a context");
    let (context, heard) = created.map_err(|message| refused(&message))?;
    let width = context.sequence_width(&weights.model);
    let width = width.ok_or_else(|| refused("llama.cpp does not pool its output"))?;
    let info = describe(
        &weights,
        &heard,
        &threads,
        lengths.ubatch,
        flash_attention,
        None,
        environment,
    );
    let to_tokenize = lengths.context.max(TOKENS_TO_COUNT) as usize;
    let vocab = LlamaVocabulary::new(Arc::clone(&weights.model), &spec.model, to_tokenize);
    let pairs = pair_form(&weights.model, &vocab);
    let mut backend = LlamaEmbedding {
        context,
        capacity: EmbeddingCapacity {
            context_length: lengths.context,
            batch_tokens: spec.max_num_batched_tokens,
            max_sequences: lengths.sequences(),
            width: width.get() as u32,
            pooling,
        },
        width,
        head: Head {
            labels: weights.model.class_labels().into(),
            // llama.cpp ends the heads of these with a softmax.
            is_probability: matches!(&*weights.model.architecture(), "qwen3" | "qwen3vl"),
        },
        info,
        batch: Vec::new(),
    };
    serve(LoadedEmbedding {
        backend: &mut backend,
        vocab: Arc::new(vocab),
        pairs,
    });
    Ok(())
}

/// Returns the pooling that the spec asks for, or else that of the file.
fn pooling(spec: &EmbeddingSpec, model: &Model) -> Result<Pooling, LoadError> {
    let stored = model.number::<sys::llama_pooling_type>("pooling_type");
    let known = [Pooling::Mean, Pooling::Cls, Pooling::Last, Pooling::Rank];
    let mut known = known.into_iter();
    let stored = known.find(|pooling| stored == Some(pooling_type(*pooling)));
    let refused = |message: &str| Err(LoadError::model(&spec.model, message));
    match (spec.task, stored) {
        (EmbeddingTask::Rank, Some(Pooling::Rank)) => Ok(Pooling::Rank),
        (EmbeddingTask::Rank, _) => refused("it has no ranking head, so it cannot rerank"),
        (EmbeddingTask::Embed(_), Some(Pooling::Rank)) => {
            refused("it ranks: its output is a score for a query and a document, not a vector")
        }
        (EmbeddingTask::Embed(Some(Pooling::Rank)), _) => {
            Err(LoadError::spec("pooling", "must be MEAN, CLS or LAST"))
        }
        (EmbeddingTask::Embed(Some(wanted)), _) => Ok(wanted),
        (EmbeddingTask::Embed(None), Some(stored)) => Ok(stored),
        (EmbeddingTask::Embed(None), None) => Err(LoadError::spec(
            "pooling",
            "is missing: the model's file does not name one; choose MEAN, CLS or LAST as the model's authors do",
        )),
    }
}

/// Returns llama.cpp's constant for a pooling.
fn pooling_type(pooling: Pooling) -> sys::llama_pooling_type {
    match pooling {
        Pooling::Mean => sys::LLAMA_POOLING_TYPE_MEAN,
        Pooling::Cls => sys::LLAMA_POOLING_TYPE_CLS,
        Pooling::Last => sys::LLAMA_POOLING_TYPE_LAST,
        Pooling::Rank => sys::LLAMA_POOLING_TYPE_RANK,
    }
}

/// Returns the option that limits the tokens of a text.
fn length_option(task: EmbeddingTask) -> &'static str {
    match task {
        EmbeddingTask::Embed(_) => "max_context",
        EmbeddingTask::Rank => "max_position_embeddings",
    }
}

/// Maximum number of tokens of a text and of a batch.
#[derive(Clone, Copy)]
struct Lengths {
    context: u32,
    /// Tokens computed at once. A text that is longer than a batch of several texts is computed
    /// alone.
    ubatch: u32,
}

impl Lengths {
    fn new(spec: &EmbeddingSpec, model: &Model) -> Result<Self, LoadError> {
        let trained = model.trained_context();
        if let Some(wanted) = spec.max_context.filter(|wanted| *wanted > trained) {
            return Err(LoadError::spec(
                length_option(spec.task),
                format!("is {wanted}, and the model takes texts of {trained} tokens at most"),
            ));
        }
        let usual = trained.min(EmbeddingSpec::USUAL_CONTEXT);
        let context = spec.max_context.unwrap_or(usual);
        Ok(Self {
            context,
            ubatch: context.max(spec.max_num_batched_tokens),
        })
    }

    /// Returns the maximum number of texts in a batch. Each text has at least one token: llama.cpp
    /// ends the process if a batch has room for fewer tokens than sequences.
    fn sequences(self) -> u32 {
        MAX_SEQUENCES.min(self.ubatch)
    }
}

/// Chooses plain attention if its scores are small and the CPU kernels do not compute it. On a CPU
/// it is faster than llama.cpp's fused kernel, and keeps all bits of keys and values.
fn flash_attention(spec: &EmbeddingSpec, weights: &Weights, lengths: Lengths) -> FlashAttention {
    let chosen = spec.plugin_config.flash_attention;
    let small = score_bytes(&weights.model, lengths) <= MAX_SCORE_BYTES;
    if chosen == FlashAttention::Auto
        && small
        && !devices::have_gpus(spec.device)
        && !plan::kernels_attend(weights, KvType::F16, KvType::F16)
    {
        FlashAttention::Off
    } else {
        chosen
    }
}

fn score_bytes(model: &Model, lengths: Lengths) -> u64 {
    4 * u64::from(model.n_head()) * u64::from(lengths.ubatch).pow(2)
}

/// Refuses a model whose longest text needs more memory for a step than the machine has.
fn check_memory(
    spec: &EmbeddingSpec,
    weights: &Weights,
    lengths: Lengths,
    flash_attention: FlashAttention,
    available: Option<u64>,
) -> Result<(), LoadError> {
    let Some(available) = available.filter(|_| !devices::have_gpus(spec.device)) else {
        return Ok(());
    };
    let model = &weights.model;
    let tokens = u64::from(lengths.ubatch);
    // The mask of tokens; plain attention also keeps a score for each head.
    let mut step = 6 * tokens.pow(2);
    if flash_attention == FlashAttention::Off {
        step += score_bytes(model, lengths);
    }
    // The widest activations, which are in the feed-forward layers.
    step += tokens * 48 * u64::from(model.n_embd());
    if !model.architecture().contains("bert") {
        // Models that can generate compute logits of each token, and keep keys and values.
        step += tokens * 8 * u64::from(model.n_vocab());
        step += tokens * device_memory::bytes_per_cell(model, KvType::F16, KvType::F16);
    }
    let loaded = if weights.shared { 0 } else { weights.bytes() };
    if loaded + step <= available {
        return Ok(());
    }
    let (loaded, step, available) = (Mebibytes(loaded), Mebibytes(step), Mebibytes(available));
    let message = format!(
        "weights {loaded} and a step of {tokens} tokens {step}, and {available} are available on this machine: lower {}",
        length_option(spec.task)
    );
    Err(LoadError::memory(&spec.model, message))
}

/// Joins pairs as the model's own template does, or else with the special tokens that its
/// vocabulary puts around and between texts.
fn pair_form(model: &Model, vocab: &LlamaVocabulary) -> PairForm {
    if let Some(template) = model.metadata(RANK_TEMPLATE) {
        let form = PairForm::from_template(vocab, &template);
        if let Ok(Some(form)) = form {
            return form;
        }
        tracing::warn!(
            model = vocab.model_name(),
            "the model's rerank template lacks {{query}} or {{document}}"
        );
    }
    let tokens = model.vocab();
    let sep = tokens.sep();
    let begin = tokens.bos().filter(|_| tokens.adds_bos());
    if tokens.kind() == sys::LLAMA_VOCAB_TYPE_WPM {
        let sep = Vec::from_iter(sep);
        return PairForm::around(Vec::from_iter(begin), sep.clone(), sep);
    }
    let end = tokens.eos().or(sep).filter(|_| tokens.adds_eos());
    let sep = sep.filter(|_| tokens.adds_sep());
    PairForm::around(
        Vec::from_iter(begin),
        end.into_iter().chain(sep).collect(),
        Vec::from_iter(end),
    )
}

/// A llama.cpp context that serves an embedding engine.
struct LlamaEmbedding<'a> {
    context: Context<'a>,
    capacity: EmbeddingCapacity,
    width: SequenceWidth,
    head: Head,
    info: BackendInfo,
    batch: Vec<BatchToken>,
}

impl EmbeddingBackend for LlamaEmbedding<'_> {
    fn capacity(&self) -> EmbeddingCapacity {
        self.capacity
    }

    fn info(&self) -> BackendInfo {
        self.info.clone()
    }

    fn head(&self) -> Head {
        self.head.clone()
    }

    fn compute(&mut self, texts: &[&[Token]], out: &mut Vec<f32>) -> Result<(), String> {
        self.batch.clear();
        for (slot, text) in (0..).map(Slot).zip(texts) {
            let tokens = (0..).zip(*text).map(|(position, token)| BatchToken {
                token: *token,
                position,
                slot,
                logits: true,
                hidden: false,
                adapters: Adapters::default(),
            });
            self.batch.extend(tokens);
        }
        let computed = self.context.decode(&self.batch);
        if computed.is_ok() {
            for sequence in 0..texts.len() as u32 {
                let numbers = self.context.sequence_output(sequence, self.width);
                out.extend_from_slice(numbers.unwrap_or_default());
            }
        }
        self.context.clear(false);
        computed.map_err(|error| error.to_string())
    }

    fn rest(&mut self) {
        self.context.rest();
    }
}
