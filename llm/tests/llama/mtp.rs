//! MTP layers: a model drafts with layers of its own, and texts are those without.

use graphmill_llm::{
    DraftCounts, DraftSource, LlmEngine, LlmEngineSpec, LoadError, PluginConfig, SamplingParams,
    SpeculationParams,
};
use tempfile::TempDir;

use crate::families::{Family, Mtp};
use crate::support::{Answer, Generation, MESSAGES, chat, model, same};

/// How much log probabilities may differ: batches decide in which order floats are added.
const TOLERANCE: f32 = 0.1;
const TOKENS: u32 = 80;

fn load(mtp: Mtp, kv_unified: bool) -> (TempDir, LlmEngine) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let spec = LlmEngineSpec {
        max_num_seqs: 4,
        max_context: Some(512),
        plugin_config: PluginConfig {
            kv_unified: Some(kv_unified),
            mtp: true,
            ..PluginConfig::default()
        },
        ..LlmEngineSpec::new(Family::make_with_mtp(folder.path(), mtp))
    };
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
    for kv_unified in [true, false] {
        let (_folder, engine) = load(Mtp::Token, kv_unified);
        let draft = engine.info().draft.as_ref().expect("it drafts");
        assert!(draft.mtp);
        assert_eq!(draft.path, engine.info().path);
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
                compare(&plain, &drafting, &format!("{message} {what}"));
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
            compare(plain, &answer, &format!("{message} in a crowd"));
            if index % 4 != 3 {
                count(&answer);
            }
        }
        let status = engine.status();
        assert!(counts.accepted > 0, "no draft was right");
        assert!(status.drafted_tokens >= u64::from(counts.accepted + counts.rejected));
        assert!(status.accepted_tokens >= u64::from(counts.accepted));
        assert_eq!(status.failed_steps, 0);
    }
}

#[test]
fn each_token_is_drafted_from_the_hidden_state_before_it() {
    for kv_unified in [true, false] {
        let (_folder, engine) = load(Mtp::Hidden, kv_unified);
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
        assert!(accepted > 10 * rejected, "{accepted} {rejected}");
    }
}

#[test]
fn those_that_lose_their_slot_go_on_with_the_same_text() {
    let (_folder, engine) = load(Mtp::Token, true);
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

#[test]
fn a_seed_gives_the_text_it_gives_without_drafts() {
    let (_folder, engine) = load(Mtp::Token, true);
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
    assert!(parted <= 1, "{parted} of 8 texts parted");
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
