//! What fails or is refused, and whom it harms.

use graphmill_llm::backend::scripted::{Script, Then};
use graphmill_llm::{
    ErrorKind, FinishReason, GenerationRequest, LlmEngineSpec, PluginConfig, StepOutput,
    SubmitError, Token,
};

use super::{Generation, chat, engine, eventually, gated, is_empty, replies, spec, stop};

#[test]
fn a_panicking_step_ends_its_batch_and_no_other_sequence() {
    let script = replies(&[
        ("bad", "x", Then::Panic),
        ("paused", "abcdef", Then::End),
        ("good", "yes", Then::End),
    ]);
    let engine = engine(script, spec());
    let paused = Generation::start(&engine, chat(&engine, "paused"), |request| {
        request.credits = 3;
    })
    .expect("accepted");
    (0..3).for_each(|_| drop(paused.next()));
    let (text, finish) = Generation::chat(&engine, "bad").finish();
    assert_eq!(text, "x");
    let FinishReason::Error(error) = finish else {
        panic!("ended with {finish:?}")
    };
    assert_eq!(error.kind, ErrorKind::Internal);
    assert_eq!(error.message, "the step panicked: scripted panic");
    assert_eq!(engine.status().failed_steps, 1);
    // The cache was cleared: the paused sequence is computed again and goes on where it was.
    paused.handle.grant(10);
    assert_eq!(paused.finish(), stop("def"));
    assert_eq!(Generation::chat(&engine, "good").finish(), stop("yes"));
    assert!(is_empty(&engine.status()));
}

#[test]
fn numbers_that_are_not_finite_end_the_sequence_that_computes_them_and_no_other() {
    for unified in [true, false] {
        let script = replies(&[("bad", "x", Then::Spoil), ("good", "abcdefgh", Then::End)]);
        let spec = LlmEngineSpec {
            max_num_seqs: 3,
            plugin_config: PluginConfig {
                kv_unified: Some(unified),
                ..PluginConfig::default()
            },
            ..spec()
        };
        let (engine, gate) = gated(script, spec);
        let good = |_| Generation::chat(&engine, "good");
        let before: Vec<_> = (0..2).map(good).collect();
        let bad = Generation::chat(&engine, "bad");
        let after: Vec<_> = (0..4).map(good).collect();
        drop(gate);
        let (text, finish) = bad.finish();
        assert_eq!(text, "x");
        let FinishReason::Error(error) = finish else {
            panic!("ended with {finish:?}")
        };
        assert_eq!(error.kind, ErrorKind::Internal);
        assert_eq!(error.message, "the model gave no finite logit");
        for generation in before.into_iter().chain(after) {
            assert_eq!(generation.finish(), stop("abcdefgh"), "unified: {unified}");
        }
        // The first bad row does not show its cause; the second does.
        assert_eq!(engine.status().failed_steps, 2);
        assert_eq!(good(0).finish(), stop("abcdefgh"));
        assert!(is_empty(&engine.status()));
    }
}

#[test]
fn a_failing_step_reports_the_backends_message() {
    let script = Script {
        fail_steps: vec![2],
        ..replies(&[("", "abc", Then::End)])
    };
    let engine = engine(script, spec());
    let (text, finish) = Generation::chat(&engine, "hello").finish();
    assert_eq!(text, "a");
    let FinishReason::Error(error) = finish else {
        panic!("ended with {finish:?}")
    };
    assert_eq!(error.message, "scripted failure at step 2");
    assert_eq!(Generation::chat(&engine, "hello").finish(), stop("abc"));
}

#[test]
fn requests_that_cannot_run_are_refused_with_the_numbers() {
    let script = Script {
        context: 100,
        ..Script::default()
    };
    let (engine, _gate) = gated(
        script,
        LlmEngineSpec {
            max_waiting: 2,
            max_num_seqs: 1,
            ..spec()
        },
    );
    let submit = |prompt: Vec<Token>| {
        Generation::start(&engine, prompt, |_| {}).map(|generation| generation.handle)
    };
    assert_eq!(
        submit(Vec::new()).expect_err("empty"),
        SubmitError::EmptyPrompt
    );
    let too_long = SubmitError::PromptTooLong {
        n_prompt_tokens: 100,
        n_ctx: 100,
    };
    assert_eq!(submit(vec![65; 100]).expect_err("too long"), too_long);
    let unknown = SubmitError::InvalidToken {
        token: 9_999,
        position: 1,
        n_vocab: 259,
    };
    assert_eq!(submit(vec![65, 9_999]).expect_err("unknown token"), unknown);
    let out_of_range =
        Generation::start(&engine, vec![65], |request| request.sampling.top_p = 1.5).map(|_| ());
    assert!(matches!(
        out_of_range,
        Err(SubmitError::InvalidParameter { field: "top_p", .. })
    ));

    let _running = submit(vec![65; 99]).expect("fits exactly");
    eventually(&engine, "running", |status| status.sequences_running == 1);
    let _waiting = [
        submit(vec![65]).expect("waits"),
        submit(vec![65]).expect("waits"),
    ];
    assert_eq!(
        submit(vec![65]).expect_err("full"),
        SubmitError::QueueFull {
            waiting: 2,
            limit: 2
        }
    );
}

#[test]
fn an_unsplit_prompt_must_fit_a_batch() {
    let spec = LlmEngineSpec {
        dynamic_split_fuse: false,
        max_num_batched_tokens: 32,
        ..spec()
    };
    let engine = engine(Script::default(), spec);
    let error = Generation::start(&engine, vec![65; 33], |_| {})
        .map(|_| ())
        .expect_err("too long");
    assert_eq!(
        error,
        SubmitError::PromptExceedsBatch {
            n_prompt_tokens: 33,
            max_num_batched_tokens: 32
        }
    );
    let (text, _) = Generation::start(&engine, vec![65; 32], |request| {
        request.max_tokens = Some(3);
    })
    .expect("fits")
    .finish();
    assert_eq!(text, "BCD");
}

#[test]
fn a_receiver_that_panics_harms_nobody() {
    let engine = engine(replies(&[("", "fine", Then::End)]), spec());
    let request = GenerationRequest::new(chat(&engine, "hello"), |_: StepOutput| {
        panic!("a bug in a receiver")
    });
    let _bad = engine.submit(request).expect("accepted");
    assert_eq!(Generation::chat(&engine, "hello").finish(), stop("fine"));
}

#[test]
fn dropping_the_engine_ends_what_runs() {
    let (engine, gate) = gated(replies(&[("", "x", Then::Repeat)]), spec());
    let generation = Generation::chat(&engine, "hello");
    drop(gate);
    generation.next();
    drop(engine);
    let (_, finish) = generation.finish();
    let FinishReason::Error(error) = finish else {
        panic!("ended with {finish:?}")
    };
    assert_eq!(error.kind, ErrorKind::Unavailable);
}
