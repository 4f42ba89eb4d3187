//! LoRA adapters on llama.cpp, with the repository's small model and the adapter beside it.

use std::path::PathBuf;
use std::sync::Arc;

use graphmill_llm::{AdapterSpec, LlmEngine, LlmEngineSpec, LoadError, Number, PluginConfig};

use crate::llama::support::{Generation, chat, demo, model};

const QUESTIONS: [&str; 4] = [
    "Hello!",
    "What is your name?",
    "What is a packet?",
    "How are you?",
];

fn adapter(name: &str, file: PathBuf, scale: f32) -> AdapterSpec {
    AdapterSpec {
        name: name.to_owned(),
        path: file,
        scale: Number::new(scale).expect("finite"),
    }
}

/// How cells are laid out, and whether attention is fused; each divides batches in its own way.
const LAYOUTS: [&str; 3] = [
    r#"{"kv_unified": true}"#,
    r#"{"kv_unified": false, "flash_attention": "off"}"#,
    r#"{"kv_unified": false, "flash_attention": "on"}"#,
];

fn load(adapters: Vec<AdapterSpec>, config: &str) -> Result<LlmEngine, LoadError> {
    let spec = LlmEngineSpec {
        max_num_seqs: 16,
        cache_size: 1,
        max_context: Some(512),
        adapters,
        plugin_config: PluginConfig::from_json(config).expect("valid"),
        ..LlmEngineSpec::new(model())
    };
    LlmEngine::load(spec)
}

fn ask(engine: &LlmEngine, question: &str, adapter: Option<&str>) -> Generation {
    Generation::start(engine, chat(engine, question), |request| {
        request.max_tokens = Some(24);
        request.adapter = adapter.map(Arc::from);
    })
}

#[test]
fn adapters_compute_side_by_side_as_they_do_alone() {
    let ahoy = demo("tiny_chat/adapters/ahoy.gguf");
    for config in LAYOUTS {
        let adapters = vec![
            adapter("ahoy", ahoy.clone(), 1.0),
            adapter("nothing", ahoy.clone(), 0.0),
        ];
        let engine = load(adapters, config).expect("the model and its adapters load");
        let plain = load(Vec::new(), config).expect("the model loads");
        let asked: Vec<_> = QUESTIONS
            .iter()
            .flat_map(|question| {
                [None, Some("ahoy"), Some("nothing")].map(|name| (*question, name))
            })
            .collect();
        let together: Vec<_> = asked
            .iter()
            .map(|(question, name)| ask(&engine, question, *name))
            .collect();
        let together: Vec<_> = together
            .into_iter()
            .map(|generation| generation.finish().text(&engine))
            .collect();
        for ((question, name), text) in asked.iter().zip(&together) {
            let alone = ask(&engine, question, *name).finish().text(&engine);
            assert_eq!(*text, alone, "{config} {question} {name:?}");
            if *name == Some("ahoy") {
                assert!(text.starts_with("Ahoy!"), "{config}: {text}");
            } else {
                let without = ask(&plain, question, None).finish().text(&plain);
                assert_eq!(*text, without, "{config} {question} {name:?}");
            }
        }
    }
}

#[test]
fn an_adapter_that_cannot_be_loaded_is_refused_by_name() {
    let refusal = |path: PathBuf| {
        let adapters = vec![adapter("odd", path, 1.0)];
        let refused = load(adapters, LAYOUTS[0]).map(|_| ());
        refused.expect_err("refused").to_string()
    };
    let missing = refusal(model().with_file_name("nowhere.gguf"));
    assert!(missing.starts_with("cannot read `"), "{missing}");
    let model = refusal(model());
    assert!(
        model.contains("`lora_adapters` has an adapter `odd` that does not fit the model"),
        "{model}"
    );
}
