//! Constrained generation on llama.cpp with the repository's small model: what it says under a schema validates, whatever the
//! schema; and texts beside it are what they are alone.

#![cfg(feature = "llama")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use graphmill_llm::{
    Constraint, Engine, EngineSpec, FinishReason, GenerationRequest, SamplingParams,
    SequenceHandle, StepOutput, Vocab,
};
use schemas::Schemas;
use serde_json::Value;

mod schemas;

/// Schemas in all.
const SCHEMAS: usize = 500;
/// How many of them generate at once.
const AT_ONCE: usize = 25;
/// Of 100 answers, those that at least come to their end, so that the test says something. The others are cut off by the number of tokens: the model
/// knows nothing of JSON, and an open string or array goes on for as long as it likes.
const MIN_FINISHED: usize = 40;

fn model() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../demos/tiny_chat/model.gguf");
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: there is no model at `{}`", path.display());
    None
}

struct Generation {
    outputs: Receiver<StepOutput>,
    _handle: SequenceHandle,
    vocab: Arc<dyn Vocab>,
}

impl Generation {
    fn start(
        engine: &Engine,
        message: &str,
        constraint: Option<&Constraint>,
        seed: Option<u64>,
    ) -> Self {
        let text = format!("<|im_start|>user\n{message}<|im_end|>\n<|im_start|>assistant\n");
        let prompt = engine.vocab().tokenize(&text, true, true).expect("short");
        let (sender, outputs) = mpsc::channel();
        let mut request = GenerationRequest::new(prompt, move |output| {
            sender.send(output).expect("the test reads to the end");
        });
        request.sampling = match seed {
            None => SamplingParams::greedy(),
            seed => SamplingParams {
                seed,
                ..SamplingParams::default()
            },
        };
        request.max_tokens = Some(300);
        request.constraint = constraint.map(|constraint| {
            let compiled = engine.compile(constraint);
            compiled.unwrap_or_else(|error| panic!("{error}: {constraint:?}"))
        });
        Self {
            outputs,
            _handle: engine.submit(request).expect("accepted"),
            vocab: engine.vocab(),
        }
    }

    fn finish(self) -> (String, FinishReason) {
        let mut text = Vec::new();
        loop {
            let output = self
                .outputs
                .recv_timeout(Duration::from_mins(2))
                .expect("an output");
            for token in output.tokens {
                self.vocab.piece(token, false, &mut text);
            }
            if let Some(finish) = output.finish {
                return (String::from_utf8_lossy(&text).into_owned(), finish);
            }
        }
    }
}

#[test]
fn every_answer_under_a_random_schema_validates() {
    let Some(model) = model() else { return };
    let spec = EngineSpec {
        max_num_seqs: AT_ONCE as u32 + 1,
        cache_size: 1,
        ..EngineSpec::new(model)
    };
    let engine = Engine::load(spec).expect("the model loads");
    let greeting = "What is a side packet?";
    let alone = Generation::start(&engine, greeting, None, None).finish();
    let mut schemas = Schemas::new(7);
    let schemas: Vec<Value> = (0..SCHEMAS).map(|_| schemas.document()).collect();
    let mut finished = 0;
    for (round, schemas) in schemas.chunks(AT_ONCE).enumerate() {
        let beside = Generation::start(&engine, greeting, None, None);
        let runs: Vec<_> = (0..)
            .zip(schemas)
            .map(|(number, schema)| {
                let constraint = Constraint::JsonSchema(schema.clone());
                let seed = (round * AT_ONCE) as u64 + number;
                Generation::start(&engine, "Tell me a story", Some(&constraint), Some(seed))
            })
            .collect();
        for (run, schema) in runs.into_iter().zip(schemas) {
            let (text, finish) = run.finish();
            match finish {
                FinishReason::Length => continue,
                FinishReason::Stop => {}
                FinishReason::Error(error) => panic!("{error}: {schema}"),
            }
            finished += 1;
            let value: Value = serde_json::from_str(&text)
                .unwrap_or_else(|error| panic!("{error}: `{text}` under {schema}"));
            let validator = jsonschema::options()
                .should_validate_formats(true)
                .build(schema);
            let validator = validator.expect("a schema");
            if let Err(error) = validator.validate(&value) {
                panic!("{error}: `{text}` under {schema}");
            }
        }
        assert_eq!(beside.finish(), alone);
    }
    assert!(
        finished * 100 >= SCHEMAS * MIN_FINISHED,
        "{finished} of {SCHEMAS} answers came to their end"
    );
}
