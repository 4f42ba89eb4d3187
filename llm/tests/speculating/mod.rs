//! What tests of speculation share: a model whose logits are a function of the text, engines
//! without a model file, and generations with everything that must not depend on drafts.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use graphmill_llm::backend::scripted::{Script, ScriptedBackend};
use graphmill_llm::backend::{BatchToken, Capacity, DecodeError, DraftSupport, Reuse, Slot};
use graphmill_llm::{
    Backend, DraftSource, FinishReason, GenerationRequest, LlmEngine, LlmEngineSpec,
    SamplingParams, SequenceHandle, SpeculationParams, StepOutput, Token, TokenLogprob, Usage,
    Vocab,
};
use proptest::prelude::*;

const N_VOCAB: usize = 259;
/// The tokens that the model is likely to say. Few, so that its texts repeat themselves.
const WORDS: u64 = 6;
const END: Token = 257;
/// The number of the model that engines run on. A draft model with the same one is always right,
/// one with another hardly ever.
pub(crate) const MAIN: u64 = 7;

/// A model whose next token depends on the last two, and which wants every token at its place.
pub(crate) struct Markov {
    capacity: Capacity,
    slots: Vec<Vec<Token>>,
    rows: Vec<f32>,
    /// Cells it really has.
    cells: usize,
    /// Models with the same number say the same.
    seed: u64,
    pub(crate) support: DraftSupport,
    /// How long a batch takes by its clock: what is worth drafting depends on it.
    pub(crate) takes: Duration,
    now: Instant,
}

impl Markov {
    /// A model that says it has `capacity`, and has `cells`.
    pub(crate) fn new(capacity: Capacity, cells: usize, seed: u64) -> Self {
        Self {
            slots: vec![Vec::new(); capacity.max_sequences as usize],
            capacity,
            rows: Vec::new(),
            cells,
            seed,
            support: DraftSupport::AnyLength,
            takes: Duration::from_millis(1),
            now: Instant::now(),
        }
    }

    fn logits_after(seed: u64, text: &[Token]) -> Vec<f32> {
        let mut state = seed;
        for token in text.iter().rev().take(2) {
            state = (state ^ *token as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            state ^= state >> 29;
        }
        let mut logits = vec![-9.0; N_VOCAB];
        let mut say = |word: u64, logit| logits[97 + (word % WORDS) as usize] = logit;
        say(state >> 8, 2.0);
        say(state >> 16, 4.0);
        say(state >> 24, 6.5);
        logits[END as usize] = 0.5;
        logits
    }
}

impl Backend for Markov {
    fn capacity(&self) -> Capacity {
        self.capacity
    }

    fn n_vocab(&self) -> usize {
        N_VOCAB
    }

    fn draft_support(&self) -> DraftSupport {
        self.support
    }

    fn decode(&mut self, batch: &[BatchToken]) -> Result<(), DecodeError> {
        let used: usize = self.slots.iter().map(Vec::len).sum();
        if used + batch.len() > self.cells {
            return Err(DecodeError::NoCells);
        }
        self.now += self.takes;
        self.rows.clear();
        for entry in batch {
            let text = &mut self.slots[entry.slot.0 as usize];
            assert_eq!(text.len(), entry.position as usize, "cells are left over");
            text.push(entry.token);
            if entry.logits {
                let row = Self::logits_after(self.seed, text);
                self.rows.extend(row);
            }
        }
        Ok(())
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn logits(&self) -> &[f32] {
        &self.rows
    }

    fn remove(&mut self, slot: Slot, from: u32) {
        self.slots[slot.0 as usize].truncate(from as usize);
    }

    fn remove_before(&mut self, _: Slot, _: u32) {
        unreachable!("the capacity says that no cells are reused");
    }

    fn share(&mut self, _: Slot, _: Slot, _: u32) {
        unreachable!("the capacity says that no cells are reused");
    }

    fn clear(&mut self) {
        self.slots.iter_mut().for_each(Vec::clear);
    }
}

/// A [`Markov`] model that says it has 4096 cells and has `cells`, and the vocabulary of scripts.
pub(crate) fn markov_backend(spec: &LlmEngineSpec, cells: usize) -> (Markov, Arc<dyn Vocab>) {
    let script = Script {
        cells: 4096,
        ..Script::default()
    };
    let (scripted, vocab) = ScriptedBackend::new(script, spec);
    let capacity = Capacity {
        reuse: Reuse::Never,
        ..scripted.capacity()
    };
    (Markov::new(capacity, cells, MAIN), vocab)
}

/// An engine on [`markov_backend`].
pub(crate) fn markov(cells: usize) -> LlmEngine {
    let spec = LlmEngineSpec::new("test.script.json");
    let to_open = spec.clone();
    LlmEngine::with_backend(spec, move || Ok(markov_backend(&to_open, cells)))
        .expect("the spec is valid")
}

/// An engine on a script.
pub(crate) fn scripted(script: Script) -> LlmEngine {
    let spec = LlmEngineSpec::new("test.script.json");
    let to_open = spec.clone();
    LlmEngine::with_backend(spec, move || Ok(ScriptedBackend::new(script, &to_open)))
        .expect("the spec is valid")
}

/// The prompt of a chat with a message that says this.
pub(crate) fn chat(engine: &LlmEngine, message: &str) -> Vec<Token> {
    let text = format!("<|im_start|>user\n{message}<|im_end|>\n<|im_start|>assistant\n");
    engine.vocab().tokenize(&text, true, true).expect("short")
}

/// Everything a generation gave that must not depend on drafts.
#[derive(Debug, PartialEq)]
pub(crate) struct Said {
    pub(crate) tokens: Vec<Token>,
    pub(crate) logprobs: Vec<TokenLogprob>,
    pub(crate) end_token: Option<Token>,
    pub(crate) finish: FinishReason,
    pub(crate) generated: u32,
}

pub(crate) fn start(engine: &LlmEngine, adapt: impl FnOnce(&mut GenerationRequest)) -> Run {
    let (sender, outputs) = mpsc::channel();
    let mut request = GenerationRequest::new(vec![97, 98, 97, 98, 99], move |output| {
        sender.send(output).ok(); // the test may have seen enough
    });
    request.max_tokens = Some(120);
    adapt(&mut request);
    Run {
        handle: engine.submit(request).expect("accepted"),
        outputs,
    }
}

pub(crate) struct Run {
    pub(crate) handle: SequenceHandle,
    outputs: Receiver<StepOutput>,
}

impl Run {
    pub(crate) fn next(&self) -> StepOutput {
        self.outputs
            .recv_timeout(Duration::from_secs(20))
            .expect("an output")
    }

    /// What was generated, the last counts, and the number of outputs.
    pub(crate) fn finish(self) -> (Said, Usage, usize) {
        let (mut tokens, mut logprobs) = (Vec::new(), Vec::new());
        for count in 1.. {
            let output = self.next();
            tokens.extend(output.tokens);
            logprobs.extend(output.logprobs);
            if let Some(finish) = output.finish {
                let generated = output.usage.generated_tokens;
                let end_token = output.end_token;
                let said = Said {
                    tokens,
                    logprobs,
                    end_token,
                    finish,
                    generated,
                };
                drop(self.handle);
                return (said, output.usage, count);
            }
        }
        unreachable!("the loop ends with the generation")
    }
}

/// Checks that `count` generations say the same one after the other without drafts, so with drafts,
/// and all at once, where those that `together` picks have drafts. `adapt` makes a request that of
/// one of them, with drafts or without. Returns what they said.
pub(crate) fn same_texts(
    engine: &LlmEngine,
    count: usize,
    adapt: impl Fn(&mut GenerationRequest, usize, bool),
    together: impl Fn(usize) -> bool,
) -> Result<Vec<Said>, TestCaseError> {
    let run = |index, drafts| start(engine, |request| adapt(request, index, drafts));
    let plain: Vec<_> = (0..count)
        .map(|index| run(index, false).finish().0)
        .collect();
    for (index, plain) in plain.iter().enumerate() {
        prop_assert_eq!(&run(index, true).finish().0, plain);
    }
    let runs: Vec<_> = (0..count)
        .map(|index| run(index, together(index)))
        .collect();
    for (run, plain) in runs.into_iter().zip(&plain) {
        prop_assert_eq!(&run.finish().0, plain);
    }
    Ok(plain)
}

/// A request as a test varies it.
#[derive(Clone, Debug)]
pub(crate) struct Variant {
    prompt: Vec<Token>,
    sampling: SamplingParams,
    max_tokens: u32,
    min_tokens: u32,
    stop_tokens: Vec<Token>,
    ignore_eos: bool,
    pub(crate) speculation: SpeculationParams,
}

impl Variant {
    pub(crate) fn apply(&self, request: &mut GenerationRequest, speculates: bool) {
        request.prompt.clone_from(&self.prompt);
        request.sampling = self.sampling.clone();
        request.max_tokens = Some(self.max_tokens);
        request.min_tokens = self.min_tokens;
        request.stop_tokens = self.stop_tokens.clone().into();
        request.ignore_eos = self.ignore_eos;
        request.speculation = speculates.then_some(self.speculation);
    }
}

pub(crate) fn variants() -> impl Strategy<Value = Variant> {
    let sampling = (
        prop_oneof![Just(0.0_f32), Just(0.3), 0.0..1.5_f32],
        0..5_i32,
        prop_oneof![Just(1.0_f32), 0.5..1.0_f32],
        prop_oneof![Just(0.0_f32), -0.5..1.5_f32],
        prop_oneof![Just(1.0_f32), 0.8..1.5_f32],
        any::<u64>(),
        prop::option::of(0..3_u8),
    );
    let sampling = sampling.prop_map(
        |(temperature, top_k, top_p, frequency_penalty, repetition_penalty, seed, logprobs)| {
            SamplingParams {
                temperature,
                top_k,
                top_p,
                frequency_penalty,
                repetition_penalty,
                seed: Some(seed),
                logprobs,
                ..SamplingParams::default()
            }
        },
    );
    (
        prop::collection::vec(97..103_i32, 1..30),
        sampling,
        1..150_u32,
        0..60_u32,
        prop::option::of(97..103_i32),
        any::<bool>(),
        (1..9_u32, 1..5_u32),
    )
        .prop_map(
            |(prompt, sampling, max_tokens, min_tokens, stop, ignore_eos, (drafts, ngram))| {
                Variant {
                    prompt,
                    sampling,
                    max_tokens,
                    min_tokens,
                    stop_tokens: stop.into_iter().collect(),
                    ignore_eos,
                    speculation: SpeculationParams {
                        num_assistant_tokens: drafts,
                        source: DraftSource::Text {
                            max_ngram_size: ngram,
                        },
                    },
                }
            },
        )
}
