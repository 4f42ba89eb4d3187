//! Sequences that run: joining and leaving, chunks of prompts, and what ends a generation.

use graphmill_llm::backend::scripted::{Script, Then};
use graphmill_llm::{FinishReason, GenerationRequest, LlmEngineSpec, Token};

use super::{Generation, chat, engine, eventually, gated, is_empty, replies, spec, stop};

#[test]
fn sequences_join_and_leave_between_steps() {
    let script = replies(&[
        ("long", "a long answer to a question", Then::End),
        ("short", "no", Then::End),
    ]);
    let (engine, gate) = gated(script, spec());
    let long = Generation::chat(&engine, "long");
    for _ in 0..5 {
        gate.send(()).expect("the engine runs");
        long.next();
    }
    let short = Generation::chat(&engine, "short");
    drop(gate);
    assert_eq!(short.finish(), stop("no"));
    assert_eq!(long.finish(), stop("g answer to a question"));
    // The short one rode along: each token of the long answer, and its end, took one step.
    assert_eq!(
        engine.status().steps,
        "a long answer to a question".len() as u64 + 1
    );
    assert!(is_empty(&engine.status()));
}

#[test]
fn a_prompt_joins_in_chunks() {
    let (engine, gate) = gated(
        replies(&[("", "ok", Then::End)]),
        LlmEngineSpec {
            max_num_batched_tokens: 16,
            ..spec()
        },
    );
    let generation = Generation::chat(&engine, &"x".repeat(60));
    for _ in 0..2 {
        gate.send(()).expect("the engine runs");
    }
    eventually(&engine, "two chunks", |status| status.kv_cells_used == 32);
    drop(gate);
    assert_eq!(generation.finish(), stop("ok"));
}

#[test]
fn usage_counts_the_end_token() {
    let engine = engine(replies(&[("", "abc", Then::End)]), spec());
    let prompt = chat(&engine, "hello");
    let prompt_tokens = prompt.len() as u32;
    let generation = Generation::start(&engine, prompt, |_| {}).expect("accepted");
    let mut last = generation.next();
    while last.finish.is_none() {
        last = generation.next();
    }
    assert_eq!(
        (last.usage.prompt_tokens, last.usage.generated_tokens),
        (prompt_tokens, 4)
    );
    assert_eq!(last.tokens.len(), 0);
    assert_eq!(last.end_token, engine.vocab().eos());
}

#[test]
fn limits_end_a_generation() {
    let engine = engine(replies(&[("", "abcdef", Then::End)]), spec());
    let run = |adapt: fn(&mut GenerationRequest)| {
        Generation::start(&engine, chat(&engine, "hello"), adapt)
            .expect("accepted")
            .finish()
    };
    assert_eq!(
        run(|request| request.max_tokens = Some(3)),
        ("abc".to_owned(), FinishReason::Length)
    );
    assert_eq!(
        run(|request| request.stop_tokens = vec![Token::from(b'd')].into()),
        stop("abc")
    );
    let (text, finish) = run(|request| {
        request.ignore_eos = true;
        request.max_tokens = Some(8);
    });
    assert_eq!((text.as_str(), finish), ("abcdef", FinishReason::Length));
    let (text, _) = run(|request| request.min_tokens = 9);
    assert!(text.len() >= 9 && text.starts_with("abcdef"), "{text:?}");
}

#[test]
fn a_generation_without_limit_ends_with_the_context() {
    let script = Script {
        context: 64,
        ..Script::default()
    };
    let engine = engine(script, spec());
    let (text, finish) = Generation::start(&engine, vec![96; 40], |_| {})
        .expect("accepted")
        .finish();
    assert_eq!(text.len(), 24);
    assert_eq!(finish, FinishReason::Length);
}
