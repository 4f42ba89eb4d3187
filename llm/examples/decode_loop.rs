//! Compares the engine with a bare `llama_decode` loop through the same bindings: decode speed of a single stream, run by run in
//! turn, as medians and as the median of the rounds' ratios.
//!
//! `cargo run --release -p graphmill-llm --features llama --example decode_loop -- MODEL.gguf [rounds] [tokens]`

use std::error::Error;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Instant;

use graphmill_llm::{Engine, EngineSpec, GenerationRequest, StepOutput};
use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::context::params::LlamaContextParams;
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::llama_batch::LlamaBatch;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::model::params::LlamaModelParams;
use llama_cpp_2::token::LlamaToken;

const PROMPT_TOKENS: usize = 128;

#[expect(clippy::print_stdout, reason = "prints its measurement")]
fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = PathBuf::from(
        arguments
            .next()
            .ok_or("usage: decode_loop MODEL.gguf [rounds] [tokens]")?,
    );
    let rounds: usize = arguments.next().map_or(Ok(7), |text| text.parse())?;
    let tokens: usize = arguments.next().map_or(Ok(64), |text| text.parse())?;

    let engine = Engine::load(EngineSpec::new(&path))?; // initialises llama.cpp, which the value below stands for
    let llama = LlamaBackend {};
    let model = LlamaModel::load_from_file(&llama, &path, &LlamaModelParams::default())?;
    let threads = i32::try_from(std::thread::available_parallelism()?.get())?;
    let params = LlamaContextParams::default()
        .with_n_ctx(NonZeroU32::new(4096))
        .with_n_threads(threads)
        .with_n_threads_batch(threads);
    let mut context = model.new_context(&llama, params)?;

    let (mut bare_rates, mut engine_rates, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=rounds {
        let engine_first = if round % 2 == 0 {
            None
        } else {
            Some(engine_rate(&engine, tokens)?)
        };
        let bare = bare_rate(&mut context, tokens)?;
        let engine = match engine_first {
            Some(rate) => rate,
            None => engine_rate(&engine, tokens)?,
        };
        if round == 0 {
            continue; // warm-up
        }
        println!(
            "round {round}: bare {bare:.2} tok/s, engine {engine:.2} tok/s, ratio {:.4}",
            engine / bare
        );
        bare_rates.push(bare);
        engine_rates.push(engine);
        ratios.push(engine / bare);
    }
    println!(
        "median: bare {:.2} tok/s, engine {:.2} tok/s, ratio {:.4}",
        median(&mut bare_rates),
        median(&mut engine_rates),
        median(&mut ratios)
    );
    Ok(())
}

/// Tokens per second of `llama_decode` alone: nothing is sampled.
fn bare_rate(context: &mut LlamaContext<'_>, tokens: usize) -> Result<f64, Box<dyn Error>> {
    context.clear_kv_cache();
    let mut batch = LlamaBatch::new(PROMPT_TOKENS, 1);
    for position in 0..PROMPT_TOKENS {
        batch.add(
            LlamaToken(100 + position as i32),
            position as i32,
            &[0],
            position + 1 == PROMPT_TOKENS,
        )?;
    }
    context.decode(&mut batch)?;
    let start = Instant::now();
    for index in 0..tokens {
        batch.clear();
        batch.add(LlamaToken(300), (PROMPT_TOKENS + index) as i32, &[0], true)?;
        context.decode(&mut batch)?;
        context.synchronize();
    }
    Ok(tokens as f64 / start.elapsed().as_secs_f64())
}

/// Tokens per second of one greedy generation, from the first token's delivery to the last's.
fn engine_rate(engine: &Engine, tokens: usize) -> Result<f64, Box<dyn Error>> {
    let (sender, outputs) = mpsc::channel();
    let prompt = (0..PROMPT_TOKENS as i32)
        .map(|position| 100 + position)
        .collect();
    let sink = move |output: StepOutput| {
        sender.send((Instant::now(), output)).ok(); // the receiver below outlives the generation
    };
    let mut request = GenerationRequest::new(prompt, sink);
    request.max_tokens = Some(u32::try_from(tokens)? + 1);
    request.ignore_eos = true;
    let _handle = engine.submit(request)?;
    let times: Vec<Instant> = outputs
        .iter()
        .map(|(time, _)| time)
        .take(tokens + 1)
        .collect();
    let (Some(first), Some(last)) = (times.first(), times.last()) else {
        return Err("no output".into());
    };
    Ok((times.len() - 1) as f64 / (*last - *first).as_secs_f64())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
