//! The required cases of JSON-Schema-Test-Suite for draft 2020-12, as the source package of
//! `jsonschema` at `PyPI` has them: a schema is refused, or no invalid instance matches it and what
//! is generated for it is valid.

use std::path::Path;
use std::process::Command;

use crate::speculating::{markov, start};
use graphmill_llm::{CompiledConstraint, Constraint, FinishReason, LlmEngine, SamplingParams};
use serde_json::Value;

const PACKAGE: &str = "jsonschema==4.23.0";
const CASES: &str = "jsonschema-4.23.0/json/tests/draft2020-12";
const SEEDS: u64 = 4;

/// Fetches the cases; `false` where there is no network.
fn fetch(folder: &Path) -> bool {
    let script = format!(
        "pip download --quiet --no-deps --no-binary :all: {PACKAGE} && tar xzf jsonschema*.tar.gz"
    );
    let output = Command::new("sh")
        .args(["-c", &script])
        .current_dir(folder)
        .output();
    output.is_ok_and(|output| output.status.success())
}

/// A text that is generated for a constraint, if it comes to an end.
pub(crate) fn generate(
    engine: &LlmEngine,
    compiled: &CompiledConstraint,
    seed: u64,
) -> Option<String> {
    let said = start(engine, |request| {
        request.constraint = Some(compiled.clone());
        request.sampling = SamplingParams {
            temperature: 4.0,
            seed: Some(seed),
            // So that texts come to an end.
            logit_bias: b"\"]}"
                .map(|byte| (i32::from(byte), 14.0))
                .into_iter()
                .collect(),
            ..SamplingParams::default()
        };
    });
    let said = said.finish().0;
    let bytes = said.tokens.iter().map(|token| *token as u8).collect();
    let ends = said.finish == FinishReason::Stop;
    ends.then(|| String::from_utf8(bytes).expect("UTF-8"))
}

#[test]
fn nothing_invalid_matches_a_schema_of_the_test_suite() {
    let folder = tempfile::tempdir().expect("a folder");
    if !fetch(folder.path()) {
        println!("skipped: {PACKAGE} cannot be fetched");
        return;
    }
    let engine = markov(4096);
    let (mut accepted, mut refused, mut matched, mut valid, mut generated) = (0, 0, 0, 0, 0);
    for file in folder.path().join(CASES).read_dir().expect("the cases") {
        let file = file.expect("a file").path();
        if file.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let text = std::fs::read_to_string(&file).expect("UTF-8");
        let groups: Vec<Value> = serde_json::from_str(&text).expect("JSON");
        for group in groups {
            let schema = &group["schema"];
            let Ok(compiled) = engine.compile(&Constraint::JsonSchema(schema.clone())) else {
                refused += 1;
                continue;
            };
            accepted += 1;
            for test in group["tests"].as_array().expect("tests") {
                let mut text = compiled.text();
                text.push(&test["data"].to_string());
                let is_match = text.can_end();
                let is_valid = test["valid"] == true;
                assert!(
                    is_valid || !is_match,
                    "{}: {schema} {}",
                    file.display(),
                    test["data"]
                );
                valid += u32::from(is_valid);
                matched += u32::from(is_valid && is_match);
            }
            let validator = jsonschema::options()
                .with_draft(jsonschema::Draft::Draft202012)
                .build(schema);
            let Ok(validator) = validator else { continue };
            for seed in 0..SEEDS {
                let Some(text) = generate(&engine, &compiled, seed) else {
                    continue;
                };
                // The validator computes with floating-point numbers.
                let is_long = |digits: &str| digits.len() > 15;
                let no_digit = |c: char| !c.is_ascii_digit();
                if text.split(no_digit).any(is_long) {
                    continue;
                }
                if let Ok(instance) = serde_json::from_str(&text) {
                    generated += 1;
                    assert!(validator.is_valid(&instance), "{schema}: {text}");
                }
            }
        }
    }
    println!(
        "{accepted} schemas accepted, {refused} refused; {matched} of {valid} valid instances match; {generated} generated"
    );
    assert!(
        accepted >= 240 && matched * 100 >= valid * 90,
        "{accepted} accepted, {matched} of {valid} match"
    );
}
