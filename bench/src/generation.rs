//! The engine alone: the same work as the ceiling's, submitted as requests.

use std::{
    sync::mpsc,
    time::{Duration, Instant},
};

use graphmill_llm::{FinishReason, GenerationRequest, LlmEngine, StepOutput};

use crate::{
    BenchResult,
    load::{random::Random, stats::common_rate},
    raw::Work,
};

/// No step takes longer than this; an engine that is silent for so long has stopped.
const SILENCE: Duration = Duration::from_mins(2);

/// Tokens a second, over all sequences, while all of them were decoding. The requests come at once
/// and are greedy; prompts of another `seed` are others, for an engine that keeps what it has
/// computed.
///
/// # Errors
///
/// If a request is refused or fails, or the sequences never decoded together.
pub(crate) fn decode_rate(engine: &LlmEngine, work: Work, seed: u64) -> BenchResult<f64> {
    let chunk = engine.spec().max_num_batched_tokens;
    let times = run(engine, work, tokens(work, chunk), seed)?;
    let times: Vec<&[f64]> = times.iter().map(Vec::as_slice).collect();
    common_rate(&times).ok_or_else(|| "the sequences did not decode at the same time".into())
}

/// Cells that a sequence of [`decode_rate`] takes, where a step has at most `chunk` tokens.
pub(crate) fn cells(work: Work, chunk: u32) -> usize {
    work.prompt_tokens + tokens(work, chunk)
}

/// The first sequences decode while the last ones' prompts are computed: all need tokens for that
/// time too.
fn tokens(work: Work, chunk: u32) -> usize {
    let prompts = work.sequences * work.prompt_tokens;
    work.tokens + prompts.div_ceil(chunk.max(1) as usize) + work.sequences
}

/// Tokens a second of computing one prompt, its first token included. `seed` as in [`decode_rate`].
///
/// # Errors
///
/// If the request is refused or fails.
pub(crate) fn prefill_rate(
    engine: &LlmEngine,
    prompt_tokens: usize,
    seed: u64,
) -> BenchResult<f64> {
    let work = Work {
        sequences: 1,
        prompt_tokens,
        tokens: 1,
    };
    let times = run(engine, work, 1, seed)?;
    let first = times.first().and_then(|times| times.first());
    let rate = first.map(|first| prompt_tokens as f64 / first);
    rate.ok_or_else(|| "no token came".into())
}

/// When the tokens of each request came, in seconds from the submission of all.
fn run(engine: &LlmEngine, work: Work, tokens: usize, seed: u64) -> BenchResult<Vec<Vec<f64>>> {
    let vocabulary = engine.vocab().n_vocab();
    let (sender, outputs) = mpsc::channel();
    let begun = Instant::now();
    let mut handles = Vec::new();
    for number in 0..work.sequences {
        let mut random = Random::named(seed, &number.to_string());
        let prompt = (0..work.prompt_tokens).map(|_| random.below(vocabulary) as i32);
        let sender = sender.clone();
        let sink = move |output: StepOutput| {
            // Nobody listens once one has failed.
            sender.send((number, Instant::now(), output)).ok();
        };
        let mut request = GenerationRequest::new(prompt.collect(), sink);
        request.max_tokens = Some(tokens as u32);
        request.ignore_eos = true;
        handles.push(engine.submit(request)?);
    }
    let mut times = vec![Vec::with_capacity(tokens); work.sequences];
    let mut running = work.sequences;
    while running > 0 {
        let (number, time, output) = outputs.recv_timeout(SILENCE)?;
        let at = (time - begun).as_secs_f64();
        times[number].extend(output.tokens.iter().map(|_| at));
        match output.finish {
            None => {}
            Some(FinishReason::Error(error)) => return Err(error.into()),
            Some(FinishReason::Stop | FinishReason::Length) => running -= 1,
        }
    }
    Ok(times)
}
