//! Speculation on llama.cpp with the repository's small model: texts are those without it.
//!
//! What else is in a batch, and which cells of the pool it uses, decides in which order floats are added. So a text may part from
//! the one without drafts where the model is all but undecided between two tokens, and nowhere else.

#![cfg(feature = "llama")]

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use graphmill_llm::{
    Engine, EngineSpec, FinishReason, GenerationRequest, PluginConfig, SamplingParams,
    SequenceHandle, SpeculationParams, StepOutput, TokenLogprob, Usage,
};
use messages::MESSAGES;

mod messages;

/// How much the log probabilities of one place may differ when the batches do: alone, and beside others in one pool.
const ALONE: f32 = 0.05;
const TOGETHER: f32 = 0.2;

fn model() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../demos/tiny_chat/model.gguf");
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: there is no model at `{}`", path.display());
    None
}

/// An engine whose sequences share one pool of cells, or have a stream each.
fn engine(kv_unified: bool) -> Option<Engine> {
    let plugin_config = PluginConfig {
        kv_unified: Some(kv_unified),
        ..PluginConfig::default()
    };
    let spec = EngineSpec {
        max_num_seqs: 8,
        plugin_config,
        ..EngineSpec::new(model()?)
    };
    Some(Engine::load(spec).expect("the model loads"))
}

struct Generation {
    outputs: Receiver<StepOutput>,
    _handle: SequenceHandle,
}

fn start(engine: &Engine, message: &str, sampling: SamplingParams, speculates: bool) -> Generation {
    let text = format!("<|im_start|>user\n{message}<|im_end|>\n<|im_start|>assistant\n");
    let prompt = engine.vocab().tokenize(&text, true, true).expect("short");
    let (sender, outputs) = mpsc::channel();
    let mut request = GenerationRequest::new(prompt, move |output| {
        sender.send(output).ok(); // the test waits for the end
    });
    request.sampling = SamplingParams {
        logprobs: Some(2),
        ..sampling
    };
    request.max_tokens = Some(96);
    // Over the model's end token it goes on, and begins to repeat itself.
    request.ignore_eos = true;
    request.speculation = speculates.then(SpeculationParams::default);
    Generation {
        _handle: engine.submit(request).expect("accepted"),
        outputs,
    }
}

impl Generation {
    fn finish(self) -> (Vec<TokenLogprob>, Usage) {
        let mut places = Vec::new();
        loop {
            let output = self
                .outputs
                .recv_timeout(Duration::from_secs(50))
                .expect("an output");
            places.extend(output.logprobs);
            match output.finish {
                Some(FinishReason::Error(error)) => panic!("{error}"),
                Some(_) => return (places, output.usage),
                None => {}
            }
        }
    }
}

/// Checks that both texts are the same up to a place where the model is undecided, if there is one. True if there is none.
fn same(
    plain: &[TokenLogprob],
    drafting: &[TokenLogprob],
    tolerance: f32,
    greedy: bool,
    what: &str,
) -> bool {
    assert_eq!(plain.len(), drafting.len(), "{what}");
    for (place, (left, right)) in plain.iter().zip(drafting).enumerate() {
        if left.token != right.token {
            let gap = left.top[0].1 - left.top[1].1;
            assert!(
                !greedy || gap < tolerance,
                "{what}: the texts part at {place}: {left:?}, {right:?}"
            );
            return false;
        }
        assert!(
            (left.logprob - right.logprob).abs() < tolerance,
            "{what}: at {place} {left:?} became {right:?}"
        );
    }
    true
}

#[test]
fn greedy_texts_are_the_same_alone_and_in_a_batch() {
    for kv_unified in [true, false] {
        let Some(engine) = engine(kv_unified) else {
            return;
        };
        let greedy = SamplingParams::greedy;
        let mut accepted = 0;
        let mut plain = Vec::new();
        for message in MESSAGES {
            let (text, usage) = start(&engine, message, greedy(), false).finish();
            assert_eq!(usage.drafts, None);
            let (drafting, usage) = start(&engine, message, greedy(), true).finish();
            same(&text, &drafting, ALONE, true, message);
            accepted += usage.drafts.expect("it speculates").accepted;
            plain.push(text);
        }
        // How many depends on the time that steps take.
        assert!(accepted > 0, "no draft was right");
        let together: Vec<_> = MESSAGES
            .iter()
            .enumerate()
            .map(|(index, message)| start(&engine, message, greedy(), index % 4 != 3))
            .collect();
        for ((generation, plain), message) in together.into_iter().zip(&plain).zip(MESSAGES) {
            same(plain, &generation.finish().0, TOGETHER, true, message);
        }
        assert_eq!(engine.status().failed_steps, 0);
    }
}

#[test]
fn a_seed_gives_the_text_it_gives_without_drafts() {
    let Some(engine) = engine(true) else { return };
    let mut parted = 0;
    let mut accepted = 0;
    for (seed, message) in (0..).zip(MESSAGES) {
        let sampling = SamplingParams {
            temperature: 0.7,
            frequency_penalty: 0.1,
            seed: Some(seed),
            ..SamplingParams::default()
        };
        let (plain, _) = start(&engine, message, sampling.clone(), false).finish();
        let (drafting, usage) = start(&engine, message, sampling, true).finish();
        parted += u32::from(!same(&plain, &drafting, ALONE, false, message));
        accepted += usage.drafts.expect("it speculates").accepted;
    }
    assert!(accepted > 0, "no draft was right");
    // A draw can fall between two tokens whose probabilities differ in their last bits.
    assert!(parted <= 1, "{parted} of 8 texts parted");
}
