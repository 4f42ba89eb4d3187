//! Adapters with a scripted model, which moves each letter of a reply on by the adapter's number
//! times its scale, and refuses cells that were computed with other adapters or at another scale.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use graphmill_llm::backend::scripted::{Reply, Script, ScriptedBackend};
use graphmill_llm::{
    AdapterSpec, FinishReason, GenerationRequest, LlmEngine, LlmEngineSpec, LoadError,
    NamedAdapter, Number, PluginConfig, SequenceHandle, StepOutput, SubmitError, Usage,
};

/// Long enough to be worth sharing.
const QUESTION: &str = "What is it that you say to everybody who comes to see you on a fine day?";

fn adapter(name: &str) -> AdapterSpec {
    AdapterSpec {
        name: name.to_owned(),
        path: format!("{name}.gguf").into(),
        scale: Number::new(1.0).expect("finite"),
    }
}

fn load(adapters: &[&str], unified: bool) -> Result<LlmEngine, LoadError> {
    let script = Script {
        replies: vec![Reply {
            text: "abc xyz, Hal.".to_owned(),
            ..Reply::default()
        }],
        ..Script::default()
    };
    let spec = LlmEngineSpec {
        max_num_seqs: 8,
        max_num_batched_tokens: 48,
        adapters: adapters.iter().copied().map(adapter).collect(),
        plugin_config: PluginConfig {
            kv_unified: Some(unified),
            ..PluginConfig::default()
        },
        ..LlmEngineSpec::new("scripted.script.json")
    };
    let to_open = spec.clone();
    LlmEngine::with_backend(spec, move || Ok(ScriptedBackend::new(script, &to_open)))
}

struct Answer {
    outputs: mpsc::Receiver<StepOutput>,
    _handle: SequenceHandle,
}

fn ask(engine: &LlmEngine, adapter: Option<&str>) -> Result<Answer, SubmitError> {
    ask_with(engine, NamedAdapter::list(adapter.map(Arc::from)))
}

/// Asks with adapters at scales of their own.
fn ask_scaled(engine: &LlmEngine, adapters: &[(&str, f32)]) -> Result<Answer, SubmitError> {
    let named = adapters.iter().map(|(name, scale)| NamedAdapter {
        name: (*name).into(),
        scale: Number::new(*scale),
    });
    ask_with(engine, named.collect())
}

fn ask_with(engine: &LlmEngine, adapters: Arc<[NamedAdapter]>) -> Result<Answer, SubmitError> {
    let text = format!("<|im_start|>user\n{QUESTION}<|im_end|>\n<|im_start|>assistant\n");
    let prompt = engine.vocab().tokenize(&text, true, true).expect("short");
    let (sender, outputs) = mpsc::channel();
    let mut request = GenerationRequest::new(prompt, move |output| {
        sender.send(output).ok(); // a test that fails drops the receiver
    });
    request.adapters = adapters;
    let handle = engine.submit(request)?;
    Ok(Answer {
        outputs,
        _handle: handle,
    })
}

impl Answer {
    fn finish(self, engine: &LlmEngine) -> (String, Usage) {
        let mut text = Vec::new();
        loop {
            let output = self.outputs.recv_timeout(Duration::from_secs(50));
            let output = output.expect("an output");
            for token in output.tokens {
                engine.vocab().piece(token, false, &mut text);
            }
            match output.finish {
                Some(FinishReason::Error(error)) => panic!("{error}"),
                Some(_) => return (String::from_utf8(text).expect("UTF-8"), output.usage),
                None => {}
            }
        }
    }
}

#[test]
fn each_request_computes_with_the_adapter_it_names() {
    for unified in [true, false] {
        let engine = load(&["one", "two"], unified).expect("loads");
        let wanted = [
            (None, "abc xyz, Hal."),
            (Some("one"), "bcd yza, Ibm."),
            (Some("two"), "cde zab, Jcn."),
        ];
        let answers: Vec<_> = wanted
            .iter()
            .chain(&wanted)
            .map(|(adapter, _)| ask(&engine, *adapter).expect("accepted"))
            .collect();
        for (answer, (_, text)) in answers.into_iter().zip(wanted.iter().chain(&wanted)) {
            assert_eq!(answer.finish(&engine).0, *text, "unified: {unified}");
        }
    }
}

#[test]
fn prompts_are_shared_with_the_same_adapter_only() {
    for unified in [true, false] {
        let engine = load(&["one", "two"], unified).expect("loads");
        let cached = |adapter| {
            let answer = ask(&engine, adapter).expect("accepted");
            answer.finish(&engine).1.cached_tokens
        };
        for adapter in [None, Some("one"), Some("two")] {
            assert_eq!(cached(adapter), 0, "unified: {unified}");
        }
        for adapter in [None, Some("one"), Some("two")] {
            assert!(cached(adapter) > 64, "unified: {unified}");
        }
    }
}

#[test]
fn each_request_has_scales_of_its_own() {
    const ASKED: [(&[(&str, f32)], &str); 6] = [
        (&[("one", 1.0)], "bcd yza, Ibm."),
        (&[("one", 2.0)], "cde zab, Jcn."),
        (&[("one", -1.0)], "zab wxy, Gzk."),
        (&[("one", 0.0)], "abc xyz, Hal."),
        (&[("one", 1.0), ("two", 1.0)], "def abc, Kdo."),
        (&[("two", 0.5), ("one", 0.0)], "bcd yza, Ibm."),
    ];
    for unified in [true, false] {
        let engine = load(&["one", "two"], unified).expect("loads");
        let answers = ASKED.map(|(adapters, _)| ask_scaled(&engine, adapters).expect("accepted"));
        for (answer, (adapters, text)) in answers.into_iter().zip(ASKED) {
            let (told, _) = answer.finish(&engine);
            assert_eq!(told, text, "unified: {unified}, {adapters:?}");
        }
        // What was computed is reused at the same scale alone.
        let cached = |scale: f32| {
            let answer = ask_scaled(&engine, &[("one", scale)]).expect("accepted");
            answer.finish(&engine).1.cached_tokens
        };
        assert!(cached(2.0) > 64, "unified: {unified}");
        assert_eq!(cached(3.0), 0, "unified: {unified}");
        // A scale of 0 is the model as it is.
        let plain = ask(&engine, None).expect("accepted");
        assert!(
            plain.finish(&engine).1.cached_tokens > 64,
            "unified: {unified}"
        );
    }
}

#[test]
fn too_many_adapters_are_refused() {
    let names = ["a", "b", "c", "d", "e"];
    let engine = load(&names, true).expect("loads");
    let all = names.map(|name| (name, 1.0));
    assert!(ask_scaled(&engine, &all[..4]).is_ok());
    for (adapters, problem) in [
        (
            &all[..],
            "`adapters` names 5 adapters, but a text can have at most 4",
        ),
        (
            &[("a", 1.0), ("a", 0.5)],
            "`adapters` names an adapter twice",
        ),
    ] {
        let refused = ask_scaled(&engine, adapters).map(|_| ());
        let message = refused.expect_err("refused").to_string();
        assert!(message.starts_with(problem), "{message}");
    }
}

#[test]
fn an_unknown_adapter_is_refused_with_the_names_there_are() {
    let refusal = |adapters: &[&str]| {
        let engine = load(adapters, true).expect("loads");
        let refused = ask(&engine, Some("three")).map(|_| ());
        refused.expect_err("refused").to_string()
    };
    assert_eq!(
        refusal(&["one", "two"]),
        "the model has no adapter `three`; there are `one`, `two`"
    );
    assert_eq!(refusal(&[]), "the model has no adapter `three`");
}

#[test]
fn names_that_no_request_could_tell_apart_are_refused() {
    for (names, problem) in [
        (["one", "one"], "two adapters with the name `one`"),
        (["one", "a:b"], "without colons, not `a:b`"),
        (["", "one"], "at least one character"),
    ] {
        let error = load(&names, true).map(|_| ()).expect_err("refused");
        let message = error.to_string();
        assert!(message.starts_with("`lora_adapters` "), "{message}");
        assert!(message.contains(problem), "{message}");
    }
}

#[test]
fn scales_that_would_drown_the_model_are_refused() {
    for (scale, is_allowed) in [(10.0, true), (-10.0, true), (10.5, false), (-1e6, false)] {
        let spec = LlmEngineSpec {
            adapters: vec![AdapterSpec {
                scale: Number::new(scale).expect("finite"),
                ..adapter("one")
            }],
            ..LlmEngineSpec::new("scripted.script.json")
        };
        let checked = spec.validate().map_err(|error| error.to_string());
        assert_eq!(checked.is_ok(), is_allowed, "{scale}: {checked:?}");
        if let Err(message) = checked {
            assert!(message.contains("between -10 and 10"), "{message}");
        }
    }
}
