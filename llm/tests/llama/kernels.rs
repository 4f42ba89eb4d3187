//! The CPU kernels on llama.cpp with the repository's small model: who uses them, and that what
//! they compute is what llama.cpp does.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::mpsc;

use graphmill_kernels::Kernels;
use graphmill_llm::embed::{
    EmbeddingEngine, EmbeddingRequest, EmbeddingSpec, EmbeddingTask, Pooling,
};
use graphmill_llm::info::KernelsInfo;
use graphmill_llm::{
    AdapterSpec, LlmEngine, LlmEngineSpec, LoadError, NamedAdapter, Number, PluginConfig, Token,
    TokenLogprob,
};

use crate::llama::support::{self, Generation, MESSAGES, chat};

/// Turns the kernels off for a process, or names their instructions.
const SWITCH: &str = "GRAPHMILL_CPU_KERNELS";
/// Kernels also where llama.cpp's are as fast.
const ON: &str = r#"{"cpu_kernels": "on"}"#;

/// The model, where this processor has kernels.
fn model() -> Option<PathBuf> {
    if Kernels::detect().is_none() {
        eprintln!("skipped: there are no kernels for this processor");
        return None;
    }
    Some(support::model())
}

/// An engine with a whole context, and so a KV cache, for each sequence.
fn engine(plugin_config: &str, max_num_batched_tokens: u32) -> Option<LlmEngine> {
    engine_of(model()?, plugin_config, max_num_batched_tokens)
}

fn engine_of(
    model: PathBuf,
    plugin_config: &str,
    max_num_batched_tokens: u32,
) -> Option<LlmEngine> {
    let spec = LlmEngineSpec {
        max_num_batched_tokens,
        max_num_seqs: 8,
        cache_size: 2,
        plugin_config: PluginConfig::from_json(plugin_config).expect("good knobs"),
        ..LlmEngineSpec::new(model)
    };
    load(LlmEngine::load(spec))
}

/// What was loaded, unless the environment has turned the kernels off.
fn load<T>(loaded: Result<T, LoadError>) -> Option<T> {
    match loaded {
        Ok(loaded) => Some(loaded),
        Err(LoadError::Spec {
            field: "cpu_kernels",
            message,
        }) => {
            eprintln!("skipped: `cpu_kernels` {message}");
            None
        }
        Err(error) => panic!("the model loads: {error}"),
    }
}

fn kernels(engine: &LlmEngine) -> Option<&KernelsInfo> {
    engine.info().backend.kernels.as_ref()
}

fn start(engine: &LlmEngine, prompt: Vec<Token>) -> Generation {
    Generation::start(engine, prompt, |request| {
        request.max_tokens = Some(32);
        request.sampling.logprobs = Some(3);
        request.prompt_logprobs = Some(1);
    })
}

/// The tokens of an answer, and the log probabilities of it and of the prompt.
type Numbers = (Vec<Token>, Vec<TokenLogprob>, Vec<f32>);

fn numbers(generation: Generation) -> Numbers {
    let answer = generation.finish();
    (answer.tokens, answer.logprobs, answer.prompt_logprobs)
}

/// Answers one after the other.
fn alone(engine: &LlmEngine) -> Vec<Numbers> {
    let ask = |message: &&str| numbers(start(engine, chat(engine, message)));
    MESSAGES.iter().map(ask).collect()
}

#[test]
fn engines_of_one_process_may_differ() {
    let Some(with) = engine(ON, 256) else { return };
    let without = engine(r#"{"cpu_kernels": "off"}"#, 256).expect("as above");
    assert_eq!(kernels(&without), None);
    let info = kernels(&with).expect("they are on");
    // Seven matrices in each of six layers, and the output, which is the embedding a second time.
    assert_eq!((info.matrices, info.left.len()), (43, 0), "{info:?}");
    let weights = with.info().backend.weights.as_ref().expect("weights");
    assert!(
        info.bytes > weights.bytes * 9 / 10 && info.bytes < weights.bytes * 13 / 10,
        "{info:?}, {weights:?}"
    );
    let texts = |answers: Vec<Numbers>| -> Vec<_> {
        answers.into_iter().map(|(tokens, ..)| tokens).collect()
    };
    assert_eq!(texts(alone(&with)), texts(alone(&without)));
}

#[test]
fn texts_are_as_likely_as_llama_cpp_finds_them() {
    let Some(with) = engine(ON, 256) else { return };
    let without = engine(r#"{"cpu_kernels": "off"}"#, 256).expect("as above");
    let answers = alone(&without).into_iter();
    let texts: Vec<Vec<Token>> = answers
        .zip(MESSAGES)
        .map(|((answer, ..), message)| [chat(&with, message), answer].concat())
        .collect();
    let surprise = |engine: &LlmEngine| {
        let of_text = |text: &Vec<Token>| start(engine, text.clone()).finish().prompt_logprobs;
        let logprobs: Vec<f32> = texts.iter().flat_map(of_text).collect();
        assert!(logprobs.len() > 200, "{}", logprobs.len());
        -logprobs.iter().map(|value| f64::from(*value)).sum::<f64>() / logprobs.len() as f64
    };
    let (ours, theirs) = (surprise(&with), surprise(&without));
    let ratio = (ours - theirs).exp();
    assert!(
        (ratio - 1.0).abs() < 1e-3,
        "perplexity {} times {ratio}",
        theirs.exp()
    );
}

#[test]
fn attention_is_theirs_where_nobody_says_otherwise() {
    let Some(with) = engine(ON, 256) else { return };
    if !Kernels::detect().is_some_and(|kernels| kernels.attends()) {
        eprintln!("skipped: the kernels for this processor leave attention to llama.cpp");
        return;
    }
    let without = engine(r#"{"cpu_kernels": "off"}"#, 256).expect("as above");
    let fused = |engine: &LlmEngine| {
        let compute = engine.info().backend.compute.as_ref();
        compute.expect("it computes").flash_attention
    };
    assert!(fused(&with) && !fused(&without));
}

#[test]
fn attention_with_linear_biases_is_left_to_llama_cpp() {
    let Some(path) = model() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("model.gguf");
    fs::write(&copy, as_refact(fs::read(path).expect("it is there"))).expect("room for it");
    let Some(engine) = engine_of(copy, ON, 256) else {
        return;
    };
    let info = engine.info();
    let weights = info.backend.weights.as_ref().expect("it has weights");
    assert_eq!(weights.architecture, "refact");
    let compute = info.backend.compute.as_ref().expect("it computes");
    assert!(kernels(&engine).is_some() && !compute.flash_attention);
}

/// The shipped model as one of an architecture with the same tensors, which has linear biases
/// instead of rotary positions.
fn as_refact(mut gguf: Vec<u8>) -> Vec<u8> {
    let mut rename = |old: &str, new: &str| {
        let text = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
        let (old, new) = (text(old), text(new));
        let at = gguf.windows(old.len()).position(|bytes| bytes == old);
        let at = at.expect("the file has it");
        gguf.splice(at..at + old.len(), new);
    };
    rename("llama", "refact");
    let keys = [
        "context_length",
        "embedding_length",
        "block_count",
        "feed_forward_length",
        "attention.head_count",
        "attention.head_count_kv",
        "rope.dimension_count",
        "rope.freq_base",
        "attention.layer_norm_rms_epsilon",
        "vocab_size",
    ];
    for key in keys {
        rename(&format!("llama.{key}"), &format!("refact.{key}"));
    }
    // All behind it stays where it was.
    let description = "A very small assistant that answers questions about Graphmill, dataflow graphs and model serving";
    rename(
        description,
        &description[..description.len() - 1 - keys.len()],
    );
    gguf
}

/// Cells of 16 and of 8 bits.
const KINDS_OF_CELLS: [&str; 2] = [
    ON,
    r#"{"cpu_kernels": "on", "kv_type_k": "q8_0", "kv_type_v": "q8_0"}"#,
];

#[test]
fn neighbors_change_no_bit() {
    for plugin_config in KINDS_OF_CELLS {
        neighbors_change_no_bit_with(plugin_config);
    }
}

#[track_caller]
fn neighbors_change_no_bit_with(plugin_config: &str) {
    let Some(engine) = engine(plugin_config, 256) else {
        return;
    };
    let alone = alone(&engine);
    let together = MESSAGES.map(|message| start(&engine, chat(&engine, message)));
    for ((message, alone), generation) in MESSAGES.iter().zip(&alone).zip(together) {
        assert_eq!(numbers(generation), *alone, "{message}");
    }
}

#[test]
fn threads_change_no_bit() {
    let Some(one) = engine(r#"{"cpu_kernels": "on", "threads": 1}"#, 256) else {
        return;
    };
    let three = engine(r#"{"cpu_kernels": "on", "threads": 3}"#, 256).expect("as above");
    for ((message, one), three) in MESSAGES.iter().zip(alone(&one)).zip(alone(&three)) {
        assert_eq!(one, three, "{message}");
    }
}

#[test]
fn adapters_are_added_to_packed_weights() {
    let Some(model) = model() else { return };
    let ahoy = AdapterSpec {
        name: "ahoy".to_owned(),
        path: model.with_file_name("adapters").join("ahoy.gguf"),
        scale: Number::new(1.0).expect("finite"),
    };
    let answers = |config: &str| {
        let spec = LlmEngineSpec {
            max_context: Some(512),
            adapters: vec![ahoy.clone()],
            plugin_config: PluginConfig::from_json(config).expect("good knobs"),
            ..LlmEngineSpec::new(&model)
        };
        let engine = load(LlmEngine::load(spec))?;
        let packed = kernels(&engine).map(|info| info.matrices);
        assert_eq!(packed, (config == ON).then_some(43), "{config}");
        let answers = MESSAGES.map(|message| {
            let generation = Generation::start(&engine, chat(&engine, message), |request| {
                request.max_tokens = Some(24);
                request.adapters = NamedAdapter::list(Some("ahoy".into()));
            });
            generation.finish()
        });
        let first = answers[0].text(&engine);
        assert!(first.starts_with("Ahoy!"), "{config}: {first}");
        let answers = answers.map(|answer| answer.tokens);
        Some(answers)
    };
    let Some(with) = answers(ON) else { return };
    assert_eq!(Some(with), answers(r#"{"cpu_kernels": "off"}"#));
}

#[test]
fn embeddings_are_those_of_llama_cpp() {
    let Some(model) = model() else { return };
    let vectors = |config: &str| {
        let task = EmbeddingTask::Embed(Some(Pooling::Mean));
        let engine = load(EmbeddingEngine::load(EmbeddingSpec {
            plugin_config: PluginConfig::from_json(config).expect("good knobs"),
            ..EmbeddingSpec::new(&model, task)
        }))?;
        let packed = engine.info().backend.kernels.as_ref();
        assert_eq!(packed.is_some(), config == ON, "{packed:?}");
        let read = |text: &str| engine.vocab().tokenize(text, true, false).expect("short");
        let (sender, outcome) = mpsc::channel();
        let request = EmbeddingRequest::new(MESSAGES.map(read).to_vec(), move |result| {
            sender.send(result).expect("the test listens");
        });
        let _handle = engine.submit(request).expect("it is taken");
        Some(outcome.recv().expect("an outcome").expect("numbers"))
    };
    let Some(with) = vectors(ON) else { return };
    let without = vectors(r#"{"cpu_kernels": "off"}"#).expect("as above");
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    for (message, (ours, theirs)) in MESSAGES.iter().zip(with.iter().zip(&without)) {
        let cosine = dot(ours, theirs) / (dot(ours, ours) * dot(theirs, theirs)).sqrt();
        assert!(cosine > 0.999, "{message}: {cosine}");
    }
}

#[test]
fn the_environment_turns_them_off() {
    if std::env::var_os(SWITCH).is_some() {
        assert!(engine(ON, 256).is_none(), "`on` is refused");
        let by_default = engine("", 256);
        assert!(by_default.is_none_or(|engine| kernels(&engine).is_none()));
        return;
    }
    let run = again("the_environment_turns_them_off", "off");
    assert!(run.status.success(), "{run:?}");
}

#[test]
fn the_environment_names_their_instructions() {
    const TEST: &str = "the_environment_names_their_instructions";
    if let Ok(name) = std::env::var(SWITCH) {
        // Attention is a kernel's for some instructions, and llama.cpp's for others.
        let plain = r#"{"cpu_kernels": "on", "flash_attention": "off"}"#;
        let engine = engine(plain, 256).expect("this processor has them");
        let info = kernels(&engine).expect("they are on");
        assert_eq!(info.instructions, name);
        let answer = numbers(start(&engine, chat(&engine, MESSAGES[0])));
        println!("answer: {answer:?}");
        return;
    }
    if model().is_none() {
        return;
    }
    let answers = |kernels: &Kernels| {
        let run = again(TEST, kernels.name());
        assert!(run.status.success(), "{run:?}");
        let text = String::from_utf8(run.stdout).expect("text");
        let answers = text.lines().find(|line| line.contains("answer: "));
        answers.expect("answers").to_owned()
    };
    let all: Vec<_> = Kernels::all().iter().map(answers).collect();
    for of_other_instructions in &all {
        assert!(*of_other_instructions == all[0], "the same bits");
    }
}

#[test]
fn instructions_that_there_are_not_are_an_error() {
    const TEST: &str = "instructions_that_there_are_not_are_an_error";
    if std::env::var_os(SWITCH).is_some() {
        let spec = LlmEngineSpec::new(model().expect("a model"));
        let error = LlmEngine::load(spec).expect_err("an error").to_string();
        assert!(
            error.contains("`GRAPHMILL_CPU_KERNELS` is `MMX`"),
            "{error}"
        );
        return;
    }
    if model().is_some() {
        let run = again(TEST, "MMX");
        assert!(run.status.success(), "{run:?}");
    }
}

/// Runs a test of this file in another process, with a value of the switch: llama.cpp is
/// initialized once in a process.
fn again(test: &str, switch: &str) -> Output {
    let itself = std::env::current_exe().expect("a program");
    Command::new(itself)
        .args(["--exact", &format!("llama::kernels::{test}"), "--nocapture"])
        .env(SWITCH, switch)
        .output()
        .expect("it runs")
}
