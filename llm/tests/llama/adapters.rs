//! LoRA adapters on llama.cpp, with the repository's small model and the adapter beside it.

use std::path::PathBuf;
use std::sync::Arc;

use graphmill_llm::{
    AdapterSpec, ErrorKind, FinishReason, LlmEngine, LlmEngineSpec, LoadError, NamedAdapter,
    Number, PluginConfig,
};

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
        request.adapters = NamedAdapter::list(adapter.map(Arc::from));
    })
}

/// Asks with the adapters at these scales.
fn ask_scaled(engine: &LlmEngine, question: &str, adapters: &[(&str, f32)]) -> Generation {
    let named = adapters.iter().map(|(name, scale)| NamedAdapter {
        name: (*name).into(),
        scale: Number::new(*scale),
    });
    let adapters: Arc<[NamedAdapter]> = named.collect();
    Generation::start(engine, chat(engine, question), |request| {
        request.max_tokens = Some(24);
        request.adapters = adapters;
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
fn scales_of_requests_are_those_of_adapters_with_such_scales() {
    let ahoy = demo("tiny_chat/adapters/ahoy.gguf");
    for config in LAYOUTS {
        let engine = load(vec![adapter("ahoy", ahoy.clone(), 1.0)], config).expect("it loads");
        let scales = [0.0, 0.5, 1.0];
        let asked = QUESTIONS
            .map(|question| scales.map(|scale| ask_scaled(&engine, question, &[("ahoy", scale)])));
        let told = asked.map(|texts| texts.map(|asked| asked.finish().text(&engine)));
        for (at, scale) in scales.into_iter().enumerate() {
            let fixed = adapter("fixed", ahoy.clone(), scale);
            let fixed = load(vec![fixed], config).expect("it loads");
            for (question, texts) in QUESTIONS.into_iter().zip(&told) {
                let alone = ask(&fixed, question, Some("fixed")).finish().text(&fixed);
                assert_eq!(texts[at], alone, "{config} {question} {scale}");
            }
        }
        // Half of a change, twice, is all of it.
        let halves = vec![
            adapter("one", ahoy.clone(), 0.5),
            adapter("other", ahoy.clone(), 1.0),
        ];
        let halves = load(halves, config).expect("it loads");
        let both = ask_scaled(&halves, QUESTIONS[0], &[("one", 0.5), ("other", 0.5)]);
        assert_eq!(both.finish().text(&halves), told[0][2], "{config}");
        assert_ne!(told[0][0], told[0][2], "{config}");
    }
}

#[test]
fn a_scale_that_gives_no_finite_numbers_ends_its_own_text_only() {
    for (layout, attention) in [(true, "off"), (false, "off"), (true, "on")] {
        let config = format!(r#"{{"kv_unified": {layout}, "flash_attention": "{attention}"}}"#);
        let ahoy = demo("tiny_chat/adapters/ahoy.gguf");
        let engine = load(vec![adapter("ahoy", ahoy, 1.0)], &config).expect("it loads");
        let texts = || {
            let asked = QUESTIONS.map(|question| ask(&engine, question, None));
            asked.map(|asked| asked.finish().text(&engine))
        };
        let before = texts();
        let running = QUESTIONS.map(|question| ask(&engine, question, None));
        let bad = ask_scaled(&engine, QUESTIONS[0], &[("ahoy", 1e6)]);
        let finish = loop {
            if let Some(finish) = bad.next().finish {
                break finish;
            }
        };
        let FinishReason::Error(error) = finish else {
            panic!("{config}: ended with {finish:?}")
        };
        assert_eq!(error.kind, ErrorKind::Adapters, "{config}: {error}");
        let running = running.map(|asked| asked.finish().text(&engine));
        assert_eq!(running, before, "{config}");
        assert_eq!(texts(), before, "{config}");
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
    let folder = tempfile::tempdir().expect("a folder");
    let damaged = folder.path().join("damaged.gguf");
    let sound = std::fs::read(demo("tiny_chat/adapters/ahoy.gguf")).expect("readable");
    let name = b"blk.0.attn_q.weight.lora_a";
    let at = sound.windows(name.len()).position(|it| it == name);
    // Behind the name are the number of dimensions, two lengths and the type.
    let lengths = at.expect("it has the tensor") + name.len() + 4;
    for kind in [24_u32, 25, 26, 27, 28] {
        let mut bytes = sound.clone();
        bytes[lengths + 16..][..4].copy_from_slice(&kind.to_le_bytes());
        std::fs::write(&damaged, bytes).expect("written");
        let message = refusal(damaged.clone());
        let expected = format!("the tensor `blk.0.attn_q.weight.lora_a` has the type {kind},");
        assert!(message.contains(&expected), "{message}");
    }
    let mut bytes = sound;
    bytes[lengths + 8..][..8].copy_from_slice(&3_u64.to_le_bytes());
    std::fs::write(&damaged, bytes).expect("written");
    let message = refusal(damaged);
    assert!(
        message.contains("`blk.0.attn_q.weight.lora_b` differ in their rank: 3 and 4"),
        "{message}"
    );
    let model = refusal(model());
    assert!(
        model.contains("`lora_adapters` has an adapter `odd` that does not fit the model"),
        "{model}"
    );
}
