//! Constrained generation on llama.cpp with the repository's small model: what it says under a
//! schema validates, whatever the schema; and texts beside it are what they are alone.

use graphmill_llm::{Constraint, FinishReason, LlmEngine, LlmEngineSpec, SamplingParams};
use serde_json::Value;

use crate::llama::schemas::Schemas;
use crate::llama::support::{Generation, chat, model};

/// Schemas in all.
const SCHEMAS: usize = 500;
/// How many of them generate at once.
const AT_ONCE: usize = 25;
/// Of 100 answers, those that at least come to their end, so that the test says something. The
/// others are cut off by the number of tokens: the model knows nothing of JSON, and an open string
/// or array goes on for as long as it likes.
const MIN_FINISHED: usize = 40;

fn start(
    engine: &LlmEngine,
    message: &str,
    constraint: Option<&Constraint>,
    seed: Option<u64>,
) -> Generation {
    Generation::start(engine, chat(engine, message), |request| {
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
    })
}

#[test]
fn every_answer_under_a_random_schema_validates() {
    let model = model();
    let spec = LlmEngineSpec {
        max_num_seqs: AT_ONCE as u32 + 1,
        cache_size: 1,
        ..LlmEngineSpec::new(model)
    };
    let engine = LlmEngine::load(spec).expect("the model loads");
    let greeting = "What is a side packet?";
    let alone = start(&engine, greeting, None, None).finish().tokens;
    let mut schemas = Schemas::new(7);
    let schemas: Vec<Value> = (0..SCHEMAS).map(|_| schemas.document()).collect();
    let mut finished = 0;
    for (round, schemas) in schemas.chunks(AT_ONCE).enumerate() {
        let beside = start(&engine, greeting, None, None);
        let runs: Vec<_> = (0..)
            .zip(schemas)
            .map(|(number, schema)| {
                let constraint = Constraint::JsonSchema(schema.clone());
                let seed = (round * AT_ONCE) as u64 + number;
                start(&engine, "Tell me a story", Some(&constraint), Some(seed))
            })
            .collect();
        for (run, schema) in runs.into_iter().zip(schemas) {
            let answer = run.finish();
            if answer.finish == FinishReason::Length {
                continue;
            }
            let text = answer.text(&engine);
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
        assert_eq!(beside.finish().tokens, alone);
    }
    assert!(
        finished * 100 >= SCHEMAS * MIN_FINISHED,
        "{finished} of {SCHEMAS} answers came to their end"
    );
}
