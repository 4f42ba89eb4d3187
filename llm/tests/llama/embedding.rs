//! The shipped models that embed and rank, on llama.cpp.

use std::sync::mpsc;

use graphmill_llm::embed::{
    EmbeddingEngine, EmbeddingRequest, EmbeddingSpec, EmbeddingTask, Pooling,
};
use graphmill_llm::{LoadError, Token};

use crate::llama::support::demo;

fn load(path: &str, task: EmbeddingTask) -> EmbeddingEngine {
    EmbeddingEngine::load(EmbeddingSpec::new(demo(path), task)).expect("the shipped model loads")
}

fn compute(engine: &EmbeddingEngine, texts: Vec<Vec<Token>>) -> Vec<Vec<f32>> {
    let (sender, outcome) = mpsc::channel();
    let request = EmbeddingRequest::new(texts, move |result| {
        sender.send(result).expect("the test listens");
    });
    let _handle = engine.submit(request).expect("it is taken");
    outcome.recv().expect("an outcome").expect("numbers")
}

fn tokens(engine: &EmbeddingEngine, text: &str) -> Vec<Token> {
    engine
        .vocab()
        .tokenize(text, true, false)
        .expect("a short text")
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

const TEXTS: [&str; 6] = [
    "What is a packet?",
    "A packet is one piece of data with a timestamp.",
    "The kitten sleeps on the couch.",
    "Continuous batching lets requests join and leave the batch at every step. A new request does not have to wait.",
    "hello",
    "Tell me a story about a dragon, a knight and a very long road over the green hills to the sea.",
];

/// Within this part of the largest number, or of one.
fn assert_equal(together: &[f32], alone: &[f32], part: f32, what: &str) {
    let largest = alone.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    for (a, b) in together.iter().zip(alone) {
        assert!(
            (a - b).abs() <= part * largest.max(1.0),
            "{what}: {a} and {b}"
        );
    }
}

#[test]
fn a_text_has_the_same_numbers_alone_and_among_many() {
    for (model, task, part) in [
        ("tiny_embed/embed.gguf", EmbeddingTask::Embed(None), 1e-5),
        ("tiny_embed/rerank.gguf", EmbeddingTask::Rank, 1e-4),
        // A model that generates: its tokens see only those before them. Its weights are quantized,
        // and so is what they are multiplied with, where the last bit can decide which way a number
        // is rounded.
        (
            "tiny_chat/model.gguf",
            EmbeddingTask::Embed(Some(Pooling::Last)),
            1e-2,
        ),
        (
            "tiny_chat/model.gguf",
            EmbeddingTask::Embed(Some(Pooling::Mean)),
            1e-2,
        ),
    ] {
        let engine = load(model, task);
        let texts: Vec<_> = TEXTS.iter().map(|text| tokens(&engine, text)).collect();
        let many = (0..20).flat_map(|_| texts.clone()).collect();
        let together = compute(&engine, many);
        for (index, text) in texts.into_iter().enumerate() {
            let alone = compute(&engine, vec![text]).remove(0);
            assert_eq!(alone.len(), engine.width());
            for round in 0..20 {
                let what = format!("{model} text {index}");
                assert_equal(&together[index + round * TEXTS.len()], &alone, part, &what);
            }
        }
    }
}

#[test]
fn near_texts_are_near() {
    let engine = load("tiny_embed/embed.gguf", EmbeddingTask::Embed(None));
    let texts = TEXTS.iter().map(|text| tokens(&engine, text)).collect();
    let vectors = compute(&engine, texts);
    let near = cosine(&vectors[0], &vectors[1]);
    for other in &vectors[2..] {
        assert!(near > cosine(&vectors[0], other) + 0.2);
    }
}

#[test]
fn the_answer_ranks_above_other_documents() {
    let engine = load("tiny_embed/rerank.gguf", EmbeddingTask::Rank);
    let read = |text: &str| engine.vocab().tokenize(text, false, false).expect("short");
    let query = read(TEXTS[0]);
    let pairs = TEXTS[1..]
        .iter()
        .map(|document| engine.pairs().join(&query, &read(document)));
    let scores = compute(&engine, pairs.collect());
    assert!(scores.iter().all(|score| score.len() == 1));
    assert!(scores[1..].iter().all(|score| score[0] < scores[0][0]));
}

#[test]
fn the_longest_text_is_computed_and_a_longer_one_refused_with_its_count() {
    let engine = load("tiny_embed/embed.gguf", EmbeddingTask::Embed(None));
    assert_eq!(engine.context_length(), 512);
    let word = tokens(&engine, "node")[1];
    let vectors = compute(&engine, vec![vec![word; 512], vec![word; 3]]);
    assert_eq!(vectors.len(), 2);
    let request = EmbeddingRequest::new(vec![vec![word; 513]], |_| {});
    let refusal = engine.submit(request).expect_err("it is too long");
    assert_eq!(
        refusal.to_string(),
        "text 0 has 513 tokens, and the model takes at most 512"
    );
}

#[test]
fn what_a_model_cannot_do_is_said_when_it_is_loaded() {
    let refusal = |path: &str, change: &dyn Fn(&mut EmbeddingSpec)| {
        let mut spec = EmbeddingSpec::new(demo(path), EmbeddingTask::Embed(None));
        change(&mut spec);
        EmbeddingEngine::load(spec).expect_err("it is refused")
    };
    let message = |error: LoadError| error.to_string();
    let as_it_is = |_: &mut EmbeddingSpec| {};
    assert!(message(refusal("tiny_chat/model.gguf", &as_it_is)).contains("`pooling` is missing"));
    assert!(message(refusal("tiny_embed/rerank.gguf", &as_it_is)).contains("it ranks"));
    let rank = |spec: &mut EmbeddingSpec| spec.task = EmbeddingTask::Rank;
    assert!(message(refusal("tiny_embed/embed.gguf", &rank)).contains("no ranking head"));
    let longer = |spec: &mut EmbeddingSpec| spec.max_context = Some(513);
    assert!(message(refusal("tiny_embed/embed.gguf", &longer)).contains("512 tokens at most"));
}
