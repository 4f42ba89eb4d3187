//! The engine on llama.cpp with the repository's small model: batching does not change texts, seeds
//! fix them, limits hold.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use graphmill_llm::{
    GenerationRequest, LlmEngine, LlmEngineSpec, LoadError, PluginConfig, SamplingParams,
    StepOutput, SubmitError, Token,
};

use crate::llama::support::{Generation, MESSAGES, chat, model};

/// The engine that the tests of this file share, as many as run at once.
fn engine() -> Arc<LlmEngine> {
    static ENGINE: OnceLock<Arc<LlmEngine>> = OnceLock::new();
    let load = || {
        let spec = LlmEngineSpec {
            max_num_batched_tokens: 64,
            // A whole context for each sequence, and so a KV cache of its own.
            max_num_seqs: 32,
            cache_size: 2,
            ..LlmEngineSpec::new(model())
        };
        Arc::new(LlmEngine::load(spec).expect("the model loads"))
    };
    Arc::clone(ENGINE.get_or_init(load))
}

fn start(engine: &LlmEngine, message: &str, sampling: SamplingParams) -> Generation {
    Generation::start(engine, chat(engine, message), |request| {
        request.sampling = sampling;
        request.max_tokens = Some(48);
    })
}

fn tokens(engine: &LlmEngine, message: &str) -> Vec<Token> {
    start(engine, message, SamplingParams::greedy())
        .finish()
        .tokens
}

#[test]
fn thirty_two_greedy_streams_give_the_texts_they_give_alone() {
    let engine = engine();
    let alone: Vec<_> = MESSAGES
        .iter()
        .map(|message| tokens(&engine, message))
        .collect();
    let together: Vec<_> = (0..32)
        .map(|index| start(&engine, MESSAGES[index % 8], SamplingParams::greedy()))
        .collect();
    for (index, generation) in together.into_iter().enumerate() {
        assert_eq!(
            generation.finish().tokens,
            alone[index % 8],
            "stream {index}: {}",
            MESSAGES[index % 8]
        );
    }
}

#[test]
fn short_streams_beside_a_long_one_give_the_texts_they_give_alone() {
    let engine = engine();
    let alone: Vec<_> = MESSAGES
        .iter()
        .map(|message| tokens(&engine, message))
        .collect();
    // Many times as long as the others, so that it is computed apart from them, first its prompt
    // and then its text.
    let long = "Say this is a test. ".repeat(200);
    assert!(chat(&engine, &long).len() > 1_000);
    let together: Vec<_> = MESSAGES[..4]
        .iter()
        .chain([&long.as_str()])
        .chain(&MESSAGES[4..])
        .map(|message| start(&engine, message, SamplingParams::greedy()))
        .collect();
    for (index, generation) in together.into_iter().enumerate() {
        let text = generation.finish().tokens;
        match index {
            0..4 => assert_eq!(text, alone[index], "{}", MESSAGES[index]),
            4 => assert!(!text.is_empty()),
            _ => assert_eq!(text, alone[index - 1], "{}", MESSAGES[index - 1]),
        }
    }
}

#[test]
fn a_seed_gives_the_same_text_again() {
    // An engine of its own: what else is in a batch can change the last bits of a logit, and with
    // them a draw.
    let path = model();
    let engine = LlmEngine::load(LlmEngineSpec::new(path)).expect("the model loads");
    let run = |seed| {
        let sampling = SamplingParams {
            temperature: 1.5,
            seed: Some(seed),
            ..SamplingParams::default()
        };
        start(&engine, "Write a short story.", sampling)
            .finish()
            .tokens
    };
    let first = run(42);
    assert_eq!(run(42), first);
    assert!((43..48).any(|seed| run(seed) != first));
}

#[test]
fn cancelled_sequences_leave_no_cells() {
    let path = model();
    let engine = LlmEngine::load(LlmEngineSpec::new(path)).expect("the model loads");
    let generation = start(&engine, "Write a short story.", SamplingParams::greedy());
    generation.next();
    drop(generation);
    let deadline = Instant::now() + Duration::from_secs(20);
    while engine.status().kv_cells_used > 0 || engine.status().sequences_running > 0 {
        assert!(Instant::now() < deadline, "{:?}", engine.status());
        std::thread::yield_now();
    }
}

#[test]
fn a_prompt_beyond_the_context_is_refused_with_the_numbers() {
    let engine = engine();
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
fn a_unified_kv_cache_gives_the_same_text_alone() {
    let path = model();
    let plugin_config = PluginConfig {
        kv_unified: Some(true),
        ..PluginConfig::default()
    };
    let spec = LlmEngineSpec {
        max_num_seqs: 4,
        plugin_config,
        ..LlmEngineSpec::new(path)
    };
    let unified = LlmEngine::load(spec).expect("the model loads");
    assert_eq!(tokens(&unified, "Hello!"), tokens(&engine(), "Hello!"));
}

#[test]
fn a_file_that_is_no_model_says_so() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("broken.gguf");
    std::fs::write(&path, b"not a model").expect("the temporary folder is writable");
    let error = LlmEngine::load(LlmEngineSpec::new(&path)).expect_err("not a model");
    assert!(
        matches!(&error, LoadError::Model { message, .. } if message.contains("magic")),
        "{error}"
    );
    let missing = LlmEngine::load(LlmEngineSpec::new(folder.path().join("missing.gguf")))
        .expect_err("no file");
    assert!(matches!(missing, LoadError::Read { .. }), "{missing}");
}
