//! Any bytes are a constraint, of the kind that the first byte says, or are refused with words.
#![no_main]

use std::sync::LazyLock;

use graphmill_llm::backend::scripted::{Script, ScriptedBackend};
use graphmill_llm::{Constraint, LlmEngine, LlmEngineSpec};
use libfuzzer_sys::fuzz_target;

static ENGINE: LazyLock<LlmEngine> = LazyLock::new(|| {
    let spec = LlmEngineSpec::new("fuzz.script.json");
    let to_open = spec.clone();
    let open = move || Ok(ScriptedBackend::new(Script::default(), &to_open));
    LlmEngine::with_backend(spec, open).expect("the spec is valid")
});

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, rest)) = bytes.split_first() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(rest) else {
        return;
    };
    let constraint = match kind % 5 {
        0 => Constraint::Regex(text.to_owned()),
        1 => Constraint::Lark(text.to_owned()),
        2 => Constraint::Gbnf(text.to_owned()),
        _ => match serde_json::from_str(text) {
            Ok(schema) => Constraint::JsonSchema(schema),
            Err(_) => return,
        },
    };
    match ENGINE.compile(&constraint) {
        Ok(compiled) => {
            let mut constrained = compiled.text();
            constrained.push("{\"a\": [1, \"b\", -0.5e3, null]}");
            constrained.can_end();
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
