//! A draft model on llama.cpp with the repository's small model: it drafts for itself, and a broken
//! copy of it drafts.

use std::path::{Path, PathBuf};

use graphmill_llm::settings::DraftSpec;
use graphmill_llm::{
    DraftCounts, DraftSource, LlmEngine, LlmEngineSpec, LoadError, PluginConfig, SamplingParams,
    SpeculationParams, TokenLogprob,
};

use crate::llama::support::{Generation, MESSAGES, chat, model, same};

/// How much the log probabilities of one place may differ when the batches do.
const TOLERANCE: f32 = 0.05;

/// A copy of the model with another number for a key of its metadata.
fn patched(folder: &Path, model: &Path, key: &str, number: [u8; 4]) -> PathBuf {
    let mut bytes = std::fs::read(model).expect("the model is readable");
    let mut places = bytes.windows(key.len()).enumerate();
    let (place, _) = places
        .find(|(_, window)| *window == key.as_bytes())
        .expect("the model has the key");
    // The type of the number comes between.
    let value = place + key.len() + 4;
    bytes[value..value + 4].copy_from_slice(&number);
    let path = folder.join("patched.gguf");
    std::fs::write(&path, bytes).expect("the folder is writable");
    path
}

fn spec(model: &Path, draft: &Path, kv_unified: bool) -> LlmEngineSpec {
    let mut spec = LlmEngineSpec {
        max_num_seqs: 4,
        max_context: Some(512),
        plugin_config: PluginConfig {
            kv_unified: Some(kv_unified),
            ..PluginConfig::default()
        },
        ..LlmEngineSpec::new(model)
    };
    spec.draft = Some(DraftSpec::new(draft, &spec));
    spec
}

fn say(
    engine: &LlmEngine,
    message: &str,
    sampling: &SamplingParams,
    drafts: bool,
) -> (Vec<TokenLogprob>, Option<DraftCounts>) {
    let answer = Generation::start(engine, chat(engine, message), |request| {
        request.sampling = SamplingParams {
            logprobs: Some(2),
            ..sampling.clone()
        };
        request.max_tokens = Some(96);
        request.ignore_eos = true;
        request.speculation = drafts.then_some(SpeculationParams {
            num_assistant_tokens: 5,
            source: DraftSource::Model {
                confidence_threshold: 0.0,
            },
        });
    })
    .finish();
    (answer.logprobs, answer.usage.drafts)
}

/// What became of the drafts for all messages.
fn drafts(engine: &LlmEngine) -> DraftCounts {
    let mut all = DraftCounts::default();
    let mut parted = 0;
    for message in MESSAGES {
        let greedy = SamplingParams::greedy();
        let (plain, none) = say(engine, message, &greedy, false);
        assert_eq!(none, None);
        let (drafting, counts) = say(engine, message, &greedy, true);
        parted += u32::from(!same(&plain, &drafting, TOLERANCE, true, message));
        let counts = counts.expect("it drafts");
        all.accepted += counts.accepted;
        all.rejected += counts.rejected;
    }
    assert!(parted <= 1, "{parted} texts parted");
    assert_eq!(engine.status().failed_steps, 0);
    all
}

#[test]
fn a_model_is_always_right_about_itself() {
    let path = model();
    for kv_unified in [true, false] {
        let engine = LlmEngine::load(spec(&path, &path, kv_unified)).expect("it loads");
        let weights = engine.info().backend.weights.as_ref().expect("weights");
        assert!(weights.shared, "both models are one file");
        let draft = engine.info().draft.as_ref().expect("a draft model");
        assert_eq!((draft.max_num_seqs, draft.context_length), (4, 512));
        let DraftCounts { accepted, rejected } = drafts(&engine);
        // It takes as long as the model, so it is only tried until that is known, and now and then.
        assert!(accepted >= 1 && rejected <= 1, "{accepted} {rejected}");
    }
}

#[test]
fn a_model_that_is_wrong_changes_no_text() {
    let path = model();
    let folder = tempfile::tempdir().expect("a temporary folder");
    // Norms of next to nothing: all tokens look the same to it.
    let key = "attention.layer_norm_rms_epsilon";
    let broken = patched(folder.path(), &path, key, 1e12_f32.to_le_bytes());
    let engine = LlmEngine::load(spec(&path, &broken, true)).expect("it loads");
    let DraftCounts { accepted, rejected } = drafts(&engine);
    assert!(
        accepted + rejected < 10 * MESSAGES.len() as u32,
        "{accepted} {rejected}"
    );
    for (seed, message) in (0..).zip(MESSAGES) {
        let sampling = SamplingParams {
            temperature: 0.7,
            seed: Some(seed),
            ..SamplingParams::default()
        };
        let (plain, _) = say(&engine, message, &sampling, false);
        let (drafting, _) = say(&engine, message, &sampling, true);
        let tokens =
            |places: &[TokenLogprob]| places.iter().map(|place| place.token).collect::<Vec<_>>();
        assert_eq!(tokens(&plain), tokens(&drafting), "{message}");
    }
}

#[test]
fn a_model_with_another_vocabulary_is_refused() {
    let path = model();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let other = patched(
        folder.path(),
        &path,
        "tokenizer.ggml.eos_token_id",
        5_u32.to_le_bytes(),
    );
    match LlmEngine::load(spec(&path, &other, true)).expect_err("refused") {
        LoadError::Spec { field, message } => {
            assert_eq!(field, "draft_models_path");
            assert!(
                message.contains("a text ends with token 5, and with token"),
                "{message}"
            );
        }
        other => panic!("{other}"),
    }
}
