//! Drafts from hidden states, by MTP layers of the model and by EAGLE3 models: texts are those without.

use std::path::Path;

use graphmill_llm::{
    DraftCounts, DraftSource, DraftSpec, LlmEngine, LlmEngineSpec, LoadError, PluginConfig,
    SamplingParams, SpeculationParams,
};
use tempfile::TempDir;

use crate::llama::eagle3_model::Eagle3;
use crate::llama::families::{DraftsFrom, Family, WIDTH};
use crate::llama::support::{Answer, Generation, MESSAGES, chat, model, same};

/// How much log probabilities may differ: batches decide in which order floats are added.
const TOLERANCE: f32 = 0.1;
const TOKENS: u32 = 80;

/// What drafts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Mtp,
    Eagle3,
}

/// Each of them, with either KV cache.
fn all() -> impl Iterator<Item = (By, bool)> {
    let kinds = [By::Mtp, By::Eagle3].into_iter();
    kinds.flat_map(|by| [true, false].map(|kv_unified| (by, kv_unified)))
}

fn with_eagle3(folder: &Path, main: LlmEngineSpec, model: &Eagle3) -> LlmEngineSpec {
    let draft = DraftSpec {
        eagle3: true,
        ..DraftSpec::new(model.make(folder), &main)
    };
    LlmEngineSpec {
        draft: Some(draft),
        ..main
    }
}

fn load(by: By, from: DraftsFrom, kv_unified: bool) -> (TempDir, LlmEngine) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mtp = by == By::Mtp;
    let mut spec = LlmEngineSpec {
        max_num_seqs: 4,
        max_context: Some(512),
        plugin_config: PluginConfig {
            kv_unified: Some(kv_unified),
            mtp,
            ..PluginConfig::default()
        },
        ..LlmEngineSpec::new(Family::make_drafted(folder.path(), from, mtp))
    };
    if by == By::Eagle3 {
        spec = with_eagle3(folder.path(), spec, &Eagle3::new(from));
    }
    let engine = LlmEngine::load(spec).expect("it loads");
    (folder, engine)
}

fn start(
    engine: &LlmEngine,
    message: &str,
    sampling: SamplingParams,
    drafts: bool,
    priority: i32,
) -> Generation {
    Generation::start(engine, chat(engine, message), |request| {
        request.sampling = SamplingParams {
            logprobs: Some(2),
            ..sampling
        };
        request.max_tokens = Some(TOKENS);
        request.ignore_eos = true;
        request.priority = priority;
        request.speculation = drafts.then_some(SpeculationParams {
            num_assistant_tokens: 5,
            source: DraftSource::Model {
                confidence_threshold: 0.0,
            },
        });
    })
}

fn greedy(engine: &LlmEngine, message: &str, drafts: bool) -> Generation {
    start(engine, message, SamplingParams::greedy(), drafts, 0)
}

fn compare(plain: &Answer, drafting: &Answer, what: &str) {
    same(&plain.logprobs, &drafting.logprobs, TOLERANCE, true, what);
}

#[test]
fn texts_are_those_without_alone_together_and_after_cancellations() {
    for (by, kv_unified) in all() {
        let (folder, engine) = load(by, DraftsFrom::Token, kv_unified);
        let draft = engine.info().draft.as_ref().expect("it drafts");
        assert_eq!(draft.mtp, by == By::Mtp);
        let path = match by {
            By::Mtp => engine.info().path.clone(),
            By::Eagle3 => folder.path().join("eagle3.gguf"),
        };
        assert_eq!(draft.path, path);
        let mut counts = DraftCounts::default();
        let mut count = |answer: &Answer| {
            let drafts = answer.usage.drafts.expect("it drafts");
            counts.accepted += drafts.accepted;
            counts.rejected += drafts.rejected;
        };
        let mut alone = Vec::new();
        for message in MESSAGES {
            let plain = greedy(&engine, message, false).finish();
            assert_eq!(plain.usage.drafts, None);
            // The second one takes the beginning over from the first.
            for what in ["alone", "again"] {
                let drafting = greedy(&engine, message, true).finish();
                compare(&plain, &drafting, &format!("{message} {what} {by:?}"));
                count(&drafting);
            }
            alone.push(plain);
        }
        // More than there are slots, some without drafts, and some that leave.
        let crowd = || MESSAGES.iter().enumerate();
        let all: Vec<_> = crowd()
            .map(|(index, message)| {
                let left = greedy(&engine, message, true);
                if index % 2 == 0 {
                    left.next();
                }
                drop(left);
                greedy(&engine, message, index % 4 != 3)
            })
            .collect();
        for (generation, ((index, message), plain)) in all.into_iter().zip(crowd().zip(&alone)) {
            let answer = generation.finish();
            compare(plain, &answer, &format!("{message} in a crowd {by:?}"));
            if index % 4 != 3 {
                count(&answer);
            }
        }
        let status = engine.status();
        assert!(counts.accepted > 0, "{by:?}: no draft was right");
        assert!(status.drafted_tokens >= u64::from(counts.accepted + counts.rejected));
        assert!(status.accepted_tokens >= u64::from(counts.accepted));
        assert_eq!(status.failed_steps, 0);
    }
}

#[test]
fn each_token_is_drafted_from_the_hidden_state_before_it() {
    for (by, kv_unified) in all() {
        let (_folder, engine) = load(by, DraftsFrom::Hidden, kv_unified);
        let one_draft = |message: &&str| {
            Generation::start(&engine, chat(&engine, message), |request| {
                request.sampling = SamplingParams::greedy();
                request.max_tokens = Some(TOKENS);
                request.ignore_eos = true;
                request.speculation = Some(SpeculationParams {
                    num_assistant_tokens: 1,
                    source: DraftSource::Model {
                        confidence_threshold: 0.0,
                    },
                });
            })
        };
        let mut counts = DraftCounts::default();
        let mut count = |generation: Generation| {
            let drafts = generation.finish().usage.drafts.expect("it drafts");
            counts.accepted += drafts.accepted;
            counts.rejected += drafts.rejected;
        };
        MESSAGES.iter().map(one_draft).for_each(&mut count);
        let together: Vec<_> = MESSAGES.iter().map(one_draft).collect();
        together.into_iter().for_each(&mut count);
        let DraftCounts { accepted, rejected } = counts;
        assert!(accepted > 10 * rejected, "{by:?}: {accepted} {rejected}");
    }
}

#[test]
fn those_that_lose_their_slot_go_on_with_the_same_text() {
    for by in [By::Mtp, By::Eagle3] {
        let (_folder, engine) = load(by, DraftsFrom::Token, true);
        let plain: Vec<_> = MESSAGES
            .iter()
            .map(|message| greedy(&engine, message, false).finish())
            .collect();
        let (early, late) = MESSAGES.split_at(4);
        let early: Vec<_> = early
            .iter()
            .map(|message| greedy(&engine, message, true))
            .collect();
        early[3].next();
        let late: Vec<_> = late
            .iter()
            .map(|message| start(&engine, message, SamplingParams::greedy(), true, 10))
            .collect();
        for (generation, (plain, message)) in early
            .into_iter()
            .chain(late)
            .zip(plain.iter().zip(MESSAGES))
        {
            // What came before is part of the answer that `next` has taken.
            let answer = generation.finish();
            let taken = plain.logprobs.len() - answer.logprobs.len();
            same(
                &plain.logprobs[taken..],
                &answer.logprobs,
                TOLERANCE,
                true,
                message,
            );
        }
        assert_eq!(engine.status().failed_steps, 0);
    }
}

#[test]
fn a_seed_gives_the_text_it_gives_without_drafts() {
    for by in [By::Mtp, By::Eagle3] {
        let (_folder, engine) = load(by, DraftsFrom::Token, true);
        let mut parted = 0;
        for (seed, message) in (0..).zip(MESSAGES) {
            let sampling = SamplingParams {
                temperature: 0.7,
                seed: Some(seed),
                ..SamplingParams::default()
            };
            let plain = start(&engine, message, sampling.clone(), false, 0).finish();
            let drafting = start(&engine, message, sampling, true, 0).finish();
            let same = same(
                &plain.logprobs,
                &drafting.logprobs,
                TOLERANCE,
                false,
                message,
            );
            parted += u32::from(!same);
        }
        // A draw can fall between two tokens whose probabilities differ in their last bits.
        assert!(parted <= 1, "{by:?}: {parted} of 8 texts parted");
    }
}

#[test]
fn a_model_without_such_layers_is_refused_by_name() {
    let spec = LlmEngineSpec {
        plugin_config: PluginConfig {
            mtp: true,
            ..PluginConfig::default()
        },
        ..LlmEngineSpec::new(model())
    };
    match LlmEngine::load(spec).expect_err("refused") {
        LoadError::Spec { field, message } => {
            assert_eq!(field, "mtp");
            assert!(message.contains("it has no MTP layers"), "{message}");
            assert!(message.contains("tiny_chat/model.gguf"), "{message}");
        }
        other => panic!("{other}"),
    }
}

/// Tokens that one draft at a time was made for, of a text of so many.
fn drafted(engine: &LlmEngine, tokens: u32) -> DraftCounts {
    let generation = Generation::start(engine, chat(engine, MESSAGES[0]), |request| {
        request.sampling = SamplingParams::greedy();
        request.max_tokens = Some(tokens);
        request.ignore_eos = true;
        request.speculation = Some(SpeculationParams {
            num_assistant_tokens: 1,
            source: DraftSource::Model {
                confidence_threshold: 0.0,
            },
        });
    });
    generation.finish().usage.drafts.expect("it drafts")
}

#[test]
fn a_text_may_be_longer_than_the_context_of_its_eagle3_model() {
    const TOKENS: u32 = 400;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let main = LlmEngineSpec {
        max_num_seqs: 2,
        max_context: Some(512),
        ..LlmEngineSpec::new(Family::make_drafted(
            folder.path(),
            DraftsFrom::Hidden,
            false,
        ))
    };
    let short = Eagle3 {
        context_length: 256,
        ..Eagle3::new(DraftsFrom::Hidden)
    };
    let engine = LlmEngine::load(with_eagle3(folder.path(), main, &short)).expect("it loads");
    let draft = engine.info().draft.as_ref().expect("it drafts");
    assert_eq!(draft.context_length, 256);
    // How many are drafted depends on what they cost on this machine.
    let DraftCounts { accepted, rejected } = drafted(&engine, TOKENS);
    assert!(accepted > 10 * rejected, "{accepted} {rejected}");
}

#[test]
fn an_eagle3_model_of_another_model_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fits = || Eagle3::new(DraftsFrom::Token);
    let hybrid = || Family::make_drafted(folder.path(), DraftsFrom::Token, false);
    let layers = |target_layers| Eagle3 {
        target_layers,
        ..fits()
    };
    let wider = Eagle3 {
        target_width: 2 * WIDTH as u32,
        ..fits()
    };
    for (main, draft, reason) in [
        (
            hybrid(),
            wider,
            "it drafts from hidden states of 128 numbers, and the model's have 64",
        ),
        (
            hybrid(),
            layers([1, 2, 24]),
            "it drafts from layer 24, and the model has 24",
        ),
        (
            Family::Image.make(folder.path()),
            layers([1, 2, 3]),
            "the layer inputs of `qwen2vl`",
        ),
    ] {
        let spec = with_eagle3(folder.path(), LlmEngineSpec::new(main), &draft);
        let error = LlmEngine::load(spec).expect_err("refused").to_string();
        assert!(error.contains(reason), "{error}");
        assert!(error.contains("eagle3.gguf"), "{error}");
    }
    let main = LlmEngineSpec::new(hybrid());
    let other = LlmEngineSpec {
        draft: Some(DraftSpec {
            eagle3: true,
            ..DraftSpec::new(model(), &main)
        }),
        ..main
    };
    match LlmEngine::load(other).expect_err("refused") {
        LoadError::Spec { field, message } => {
            assert_eq!(field, "draft_eagle3_mode");
            assert!(message.contains("it is a model of `llama`"), "{message}");
        }
        other => panic!("{other}"),
    }
    let alone = LlmEngineSpec::new(fits().make(folder.path()));
    let error = LlmEngine::load(alone).expect_err("refused").to_string();
    assert!(error.contains("only draft for another model"), "{error}");
}
