//! The engine on llama.cpp with the repository's small model: batching does not change texts, seeds fix them, limits hold.

#![cfg(feature = "llama")]

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use graphmill_llm::{
    Engine, EngineSpec, FinishReason, GenerationRequest, LoadError, PluginConfig, SamplingParams,
    SequenceHandle, StepOutput, SubmitError, Token,
};
use messages::MESSAGES;

mod messages;

fn model() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../demos/tiny_chat/model.gguf");
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: there is no model at `{}`", path.display());
    None
}

/// The engine that the tests of this file share, as many as run at once.
fn engine() -> Option<Arc<Engine>> {
    static ENGINE: OnceLock<Option<Arc<Engine>>> = OnceLock::new();
    ENGINE
        .get_or_init(|| {
            let spec = EngineSpec {
                max_num_batched_tokens: 64,
                // A whole context for each sequence, and so a stream of its own.
                max_num_seqs: 32,
                cache_size: 2,
                ..EngineSpec::new(model()?)
            };
            Some(Arc::new(Engine::load(spec).expect("the model loads")))
        })
        .clone()
}

fn chat(engine: &Engine, message: &str) -> Vec<Token> {
    let text = format!("<|im_start|>user\n{message}<|im_end|>\n<|im_start|>assistant\n");
    engine.vocab().tokenize(&text, true, true).expect("short")
}

fn start(
    engine: &Engine,
    message: &str,
    sampling: SamplingParams,
) -> (Receiver<StepOutput>, SequenceHandle) {
    let (sender, outputs) = mpsc::channel();
    let mut request = GenerationRequest::new(chat(engine, message), move |output| {
        sender.send(output).ok(); // a test that cancels drops the receiver
    });
    request.sampling = sampling;
    request.max_tokens = Some(48);
    (outputs, engine.submit(request).expect("accepted"))
}

fn tokens(outputs: &Receiver<StepOutput>) -> Vec<Token> {
    let mut tokens = Vec::new();
    loop {
        let output = outputs
            .recv_timeout(Duration::from_secs(50))
            .expect("an output");
        tokens.extend(output.tokens);
        match output.finish {
            Some(FinishReason::Error(error)) => panic!("{error}"),
            Some(_) => return tokens,
            None => {}
        }
    }
}

#[test]
fn thirty_two_greedy_streams_give_the_texts_they_give_alone() {
    let Some(engine) = engine() else { return };
    let alone: Vec<_> = MESSAGES
        .iter()
        .map(|message| tokens(&start(&engine, message, SamplingParams::greedy()).0))
        .collect();
    let together: Vec<_> = (0..32)
        .map(|index| start(&engine, MESSAGES[index % 8], SamplingParams::greedy()))
        .collect();
    for (index, (outputs, _handle)) in together.iter().enumerate() {
        assert_eq!(
            tokens(outputs),
            alone[index % 8],
            "stream {index}: {}",
            MESSAGES[index % 8]
        );
    }
}

#[test]
fn short_streams_beside_a_long_one_give_the_texts_they_give_alone() {
    let Some(engine) = engine() else { return };
    let alone: Vec<_> = MESSAGES
        .iter()
        .map(|message| tokens(&start(&engine, message, SamplingParams::greedy()).0))
        .collect();
    // Many times as long as the others, so that it is computed apart from them, first its prompt and then its text.
    let long = "Say this is a test. ".repeat(200);
    assert!(chat(&engine, &long).len() > 1_000);
    let together: Vec<_> = MESSAGES[..4]
        .iter()
        .chain([&long.as_str()])
        .chain(&MESSAGES[4..])
        .map(|message| start(&engine, message, SamplingParams::greedy()))
        .collect();
    for (index, (outputs, _handle)) in together.iter().enumerate() {
        let text = tokens(outputs);
        match index {
            0..4 => assert_eq!(text, alone[index], "{}", MESSAGES[index]),
            4 => assert!(!text.is_empty()),
            _ => assert_eq!(text, alone[index - 1], "{}", MESSAGES[index - 1]),
        }
    }
}

#[test]
fn a_seed_gives_the_same_text_again() {
    // An engine of its own: what else is in a batch can change the last bits of a logit, and with them a draw.
    let Some(path) = model() else { return };
    let engine = Engine::load(EngineSpec::new(path)).expect("the model loads");
    let run = |seed| {
        let sampling = SamplingParams {
            temperature: 1.5,
            seed: Some(seed),
            ..SamplingParams::default()
        };
        tokens(&start(&engine, "Write a short story.", sampling).0)
    };
    let first = run(42);
    assert_eq!(run(42), first);
    assert!((43..48).any(|seed| run(seed) != first));
}

#[test]
fn cancelled_sequences_leave_no_cells() {
    let Some(path) = model() else { return };
    let engine = Engine::load(EngineSpec::new(path)).expect("the model loads");
    let (outputs, handle) = start(&engine, "Write a short story.", SamplingParams::greedy());
    outputs
        .recv_timeout(Duration::from_secs(50))
        .expect("an output");
    drop(handle);
    let deadline = Instant::now() + Duration::from_secs(20);
    while engine.status().kv_cells_used > 0 || engine.status().sequences_running > 0 {
        assert!(Instant::now() < deadline, "{:?}", engine.status());
        std::thread::yield_now();
    }
}

#[test]
fn a_prompt_beyond_the_context_is_refused_with_the_numbers() {
    let Some(engine) = engine() else { return };
    let n_ctx = engine.context_length();
    let request = GenerationRequest::new(vec![1; n_ctx], |_: StepOutput| {});
    let error = engine.submit(request).expect_err("too long");
    assert_eq!(
        error,
        SubmitError::PromptTooLong {
            n_prompt_tokens: n_ctx,
            n_ctx
        }
    );
}

#[test]
fn one_pool_for_all_gives_the_same_text_alone() {
    let Some(path) = model() else { return };
    let plugin_config = PluginConfig {
        kv_unified: Some(true),
        ..PluginConfig::default()
    };
    let spec = EngineSpec {
        max_num_seqs: 4,
        plugin_config,
        ..EngineSpec::new(path)
    };
    let pool = Engine::load(spec).expect("the model loads");
    let (outputs, _handle) = start(&pool, "Hello!", SamplingParams::greedy());
    let Some(streams) = engine() else { return };
    assert_eq!(
        tokens(&outputs),
        tokens(&start(&streams, "Hello!", SamplingParams::greedy()).0)
    );
}

#[test]
fn a_file_that_is_no_model_says_so() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("broken.gguf");
    std::fs::write(&path, b"not a model").expect("the temporary folder is writable");
    let error = Engine::load(EngineSpec::new(&path)).expect_err("not a model");
    assert!(
        matches!(&error, LoadError::Model { message, .. } if message.contains("magic")),
        "{error}"
    );
    let missing =
        Engine::load(EngineSpec::new(folder.path().join("missing.gguf"))).expect_err("no file");
    assert!(matches!(missing, LoadError::Read { .. }), "{missing}");
}
