//! The CPU kernels on models of the bench: what they compute is what llama.cpp does, whoever else computes at the same time.

use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use graphmill_bench::model::{Recipe, SHAPES, Type};
use graphmill_kernels::Kernels;
use graphmill_llm::{
    Engine, EngineSpec, FinishReason, GenerationRequest, PluginConfig, SequenceHandle, StepOutput,
    Token,
};

/// Tokens of prompts of different lengths: the longest is computed in several steps.
const PROMPTS: [i32; 5] = [3, 40, 7, 700, 90];

fn engine(model: &Path, plugin_config: &str) -> Engine {
    Engine::load(EngineSpec {
        max_num_batched_tokens: 256,
        max_num_seqs: PROMPTS.len() as u32,
        max_context: Some(1024),
        plugin_config: PluginConfig::from_json(plugin_config).expect("good knobs"),
        ..EngineSpec::new(model)
    })
    .expect("the model loads")
}

fn start(engine: &Engine, length: i32) -> (Receiver<StepOutput>, SequenceHandle) {
    let prompt: Vec<Token> = (0..length).map(|place| 300 + place * 37 % 1000).collect();
    let (sender, outputs) = mpsc::channel();
    let mut request = GenerationRequest::new(prompt, move |output| {
        sender.send(output).expect("the test waits for all outputs");
    });
    request.max_tokens = Some(4);
    request.ignore_eos = true;
    request.sampling.logprobs = Some(0);
    request.prompt_logprobs = Some(0);
    (outputs, engine.submit(request).expect("accepted"))
}

/// The log probabilities of the prompt and of the tokens that were chosen.
fn logprobs(outputs: &Receiver<StepOutput>) -> Vec<f32> {
    let mut logprobs = Vec::new();
    loop {
        let output = outputs
            .recv_timeout(Duration::from_secs(50))
            .expect("an output");
        let of_prompt = output.prompt_logprobs.iter().flatten();
        let all = of_prompt.chain(&output.logprobs);
        logprobs.extend(all.map(|token| token.logprob));
        match output.finish {
            Some(FinishReason::Error(error)) => panic!("{error}"),
            Some(_) => return logprobs,
            None => {}
        }
    }
}

fn alone(engine: &Engine) -> Vec<Vec<f32>> {
    let ask = |length: &i32| logprobs(&start(engine, *length).0);
    PROMPTS.iter().map(ask).collect()
}

fn bits(logprobs: &[f32]) -> Vec<u32> {
    logprobs.iter().map(|value| value.to_bits()).collect()
}

#[track_caller]
fn check(kind: Type) {
    let vocabulary = Path::new(env!("CARGO_MANIFEST_DIR")).join("../demos/tiny_chat/model.gguf");
    if !vocabulary.exists() {
        eprintln!("skipped: there is no model at `{}`", vocabulary.display());
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let recipe = Recipe {
        shape: SHAPES[0],
        kind,
        loops: false,
        seed: 1,
    };
    let model = recipe
        .make(folder.path(), &vocabulary)
        .expect("it is written");
    if Kernels::detect().is_none() {
        eprintln!("skipped: there are no kernels for this processor");
        return;
    }
    let ours = engine(&model, r#"{"cpu_kernels": "on"}"#);
    let expected = alone(&ours);

    let together = PROMPTS.map(|length| start(&ours, length));
    for ((length, expected), (outputs, _handle)) in PROMPTS.iter().zip(&expected).zip(&together) {
        assert_eq!(
            bits(&logprobs(outputs)),
            bits(expected),
            "beside others: {length}"
        );
    }
    let one_thread = alone(&engine(&model, r#"{"cpu_kernels": "on", "threads": 1}"#));
    for ((length, expected), other) in PROMPTS.iter().zip(&expected).zip(&one_thread) {
        assert_eq!(bits(other), bits(expected), "on one thread: {length}");
    }

    let theirs = alone(&engine(&model, r#"{"cpu_kernels": "off"}"#)).concat();
    let ours = expected.concat();
    assert_eq!(ours.len(), theirs.len());
    let apart = ours.iter().zip(&theirs).map(|(ours, theirs)| ours - theirs);
    let mean = f64::from(apart.sum::<f32>()) / ours.len() as f64;
    assert!(mean.abs() < 1e-3, "perplexity times {}", mean.exp());
}

#[test]
fn a_model_of_8_bits_has_the_same_numbers_in_a_crowd() {
    check(Type::Q8_0);
}

#[test]
fn a_model_of_4_bits_has_the_same_numbers_in_a_crowd() {
    check(Type::Q4_0);
}
