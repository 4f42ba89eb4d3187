//! Engines without a model file.

use graphmill_llm::backend::Capacity;
use graphmill_llm::backend::scripted::{Script, ScriptedBackend};
use graphmill_llm::{Backend, LlmEngine, LlmEngineSpec};

use crate::speculating::Markov;

/// An engine on a [`Markov`] model that says it has 4096 cells and has `cells`.
pub(crate) fn markov(cells: usize) -> LlmEngine {
    let spec = LlmEngineSpec::new("test.script.json");
    let to_open = spec.clone();
    LlmEngine::with_backend(spec, move || {
        let (scripted, vocab) = ScriptedBackend::new(
            Script {
                cells: 4096,
                ..Script::default()
            },
            &to_open,
        );
        let capacity = Capacity {
            reuses_cells: false,
            ..scripted.capacity()
        };
        Ok((Markov::new(capacity, cells, 7), vocab))
    })
    .expect("the spec is valid")
}

/// An engine on a script.
pub(crate) fn scripted(script: Script) -> LlmEngine {
    let spec = LlmEngineSpec::new("test.script.json");
    let to_open = spec.clone();
    LlmEngine::with_backend(spec, move || Ok(ScriptedBackend::new(script, &to_open)))
        .expect("the spec is valid")
}
