//! Log probabilities of prompts, on a scripted model: whole however the prompt is split, shared or
//! computed again.

use std::sync::mpsc;
use std::time::Duration;

use graphmill_llm::backend::scripted::Script;
use graphmill_llm::{FinishReason, GenerationRequest, LlmEngine, LlmEngineSpec, StepOutput, Token};

use crate::support;

fn engine(spec: LlmEngineSpec, script: Script) -> LlmEngine {
    support::gated(script, spec, |_| {})
}

fn start(
    engine: &LlmEngine,
    prompt: &[Token],
    adapt: impl FnOnce(&mut GenerationRequest),
) -> (mpsc::Receiver<StepOutput>, graphmill_llm::SequenceHandle) {
    let (sender, outputs) = mpsc::channel();
    let mut request = GenerationRequest::new(prompt.to_vec(), move |output| {
        sender.send(output).ok(); // the test may have what it wants
    });
    request.prompt_logprobs = Some(1);
    request.max_tokens = Some(2);
    adapt(&mut request);
    let handle = engine.submit(request).expect("accepted");
    (outputs, handle)
}

fn next(outputs: &mpsc::Receiver<StepOutput>) -> StepOutput {
    outputs
        .recv_timeout(Duration::from_secs(20))
        .expect("an output")
}

/// A prompt in which every third token is not what the model would have said: one more than the
/// last.
fn prompt(length: i32) -> Vec<Token> {
    (0..length).map(|place| (place + place / 3) % 256).collect()
}

#[track_caller]
fn assert_whole(prompt: &[Token], output: &StepOutput) {
    let logprobs = output.prompt_logprobs.as_ref().expect("asked for");
    assert_eq!(logprobs.len(), prompt.len() - 1);
    for (pair, logprob) in prompt.windows(2).zip(logprobs) {
        assert_eq!(logprob.token, pair[1]);
        let is_next = pair[1] == (pair[0] + 1) % 256;
        assert_eq!(logprob.logprob > -1.0, is_next, "{logprob:?}");
        assert_eq!(logprob.top[0].0, (pair[0] + 1) % 256);
    }
}

#[test]
fn a_prompt_that_is_split_over_steps_has_all_of_them() {
    let mut spec = LlmEngineSpec::new("test.script.json");
    spec.max_num_batched_tokens = 7;
    let engine = engine(spec, Script::default());
    let prompt = prompt(100);
    let (outputs, _handle) = start(&engine, &prompt, |_| {});
    let first = next(&outputs);
    assert_whole(&prompt, &first);
    assert_eq!(first.tokens.len(), 1);
    assert_eq!(next(&outputs).prompt_logprobs, None, "told once");
}

#[test]
fn a_prompt_alone_ends_without_a_token() {
    let engine = engine(LlmEngineSpec::new("test.script.json"), Script::default());
    for length in [1, 2, 50] {
        let prompt = prompt(length);
        let (outputs, _handle) = start(&engine, &prompt, |request| request.max_tokens = Some(0));
        let output = next(&outputs);
        assert_whole(&prompt, &output);
        assert!(output.tokens.is_empty());
        assert_eq!(output.finish, Some(FinishReason::Length));
        assert_eq!(output.usage.generated_tokens, 0);
    }
}

#[test]
fn a_prompt_that_fills_the_context_can_be_computed_alone() {
    let script = Script {
        context: 64,
        ..Script::default()
    };
    let engine = engine(LlmEngineSpec::new("test.script.json"), script);
    let prompt = prompt(64);
    let (outputs, _handle) = start(&engine, &prompt, |request| request.max_tokens = Some(0));
    assert_whole(&prompt, &next(&outputs));
}

#[test]
fn nothing_is_taken_over_for_them_and_what_was_computed_is_there_for_others() {
    let engine = engine(LlmEngineSpec::new("test.script.json"), Script::default());
    let prompt = prompt(80);
    for _ in 0..2 {
        let (outputs, _handle) = start(&engine, &prompt, |_| {});
        let first = next(&outputs);
        assert_eq!(first.usage.cached_tokens, 0);
        assert_whole(&prompt, &first);
        assert!(next(&outputs).finish.is_some());
    }
    let (outputs, _handle) = start(&engine, &prompt, |request| request.prompt_logprobs = None);
    let first = next(&outputs);
    assert_eq!(first.prompt_logprobs, None);
    assert!(first.usage.cached_tokens > 60, "{:?}", first.usage);
}

#[test]
fn sequences_that_lose_their_cells_have_all_of_them() {
    let mut spec = LlmEngineSpec::new("test.script.json");
    spec.max_num_batched_tokens = 32;
    spec.max_num_seqs = 8;
    let script = Script {
        cells: 300,
        ..Script::default()
    };
    let engine = engine(spec, script);
    let prompts: Vec<Vec<Token>> = (0..8).map(|number| prompt(60 + number)).collect();
    let running: Vec<_> = prompts
        .iter()
        .map(|prompt| start(&engine, prompt, |request| request.max_tokens = Some(60)))
        .collect();
    for (prompt, (outputs, _handle)) in prompts.iter().zip(&running) {
        assert_whole(prompt, &next(outputs));
        while next(outputs).finish.is_none() {}
    }
    assert!(engine.status().preemptions > 0, "the cells suffice for all");
}

#[test]
fn the_tokens_that_end_a_text_are_not_chosen_too_early() {
    let engine = engine(LlmEngineSpec::new("test.script.json"), Script::default());
    let (outputs, _handle) = start(&engine, &[1], |request| {
        request.stop_tokens = vec![2].into();
        request.min_tokens = 3;
        request.max_tokens = Some(5);
    });
    let mut tokens = Vec::new();
    loop {
        let output = next(&outputs);
        tokens.extend(output.tokens);
        if output.finish.is_some() {
            break;
        }
    }
    assert!(tokens.len() >= 3 && !tokens.contains(&2), "{tokens:?}");
}
