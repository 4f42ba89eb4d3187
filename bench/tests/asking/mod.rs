//! Small models of the bench, and what an engine finds the tokens of prompts to be worth.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use graphmill_bench::model::{Recipe, SHAPES};
use graphmill_llm::{
    FinishReason, GenerationRequest, LlmEngine, LlmEngineSpec, PluginConfig, SequenceHandle,
    StepOutput, Token,
};

/// Tokens of prompts of different lengths: the longest is computed in several steps.
pub(crate) const PROMPTS: [i32; 5] = [3, 40, 7, 700, 90];

/// Makes a model of a shape in a folder, with the vocabulary of the repository's own.
pub(crate) fn model(folder: &Path, shape: &str, kind: &'static str) -> PathBuf {
    model_of_seed(folder, shape, kind, 1)
}

/// Makes such a model with other weights for each seed.
pub(crate) fn model_of_seed(folder: &Path, shape: &str, kind: &'static str, seed: u64) -> PathBuf {
    let vocabulary = Path::new(env!("CARGO_MANIFEST_DIR")).join("../demos/tiny_chat/model.gguf");
    assert!(vocabulary.exists(), "`{}` is missing", vocabulary.display());
    let shape = SHAPES.into_iter().find(|known| known.name == shape);
    let recipe = Recipe {
        shape: shape.expect("a shape of this name"),
        kind,
        loops: false,
        seed,
    };
    recipe.make(folder, &vocabulary).expect("it is written")
}

pub(crate) fn engine(model: &Path, plugin_config: &str) -> LlmEngine {
    LlmEngine::load(LlmEngineSpec {
        max_num_batched_tokens: 256,
        max_num_seqs: PROMPTS.len() as u32,
        max_context: Some(1024),
        plugin_config: PluginConfig::from_json(plugin_config).expect("good knobs"),
        ..LlmEngineSpec::new(model)
    })
    .expect("the model loads")
}

pub(crate) fn start(engine: &LlmEngine, length: i32) -> (Receiver<StepOutput>, SequenceHandle) {
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
pub(crate) fn logprobs(outputs: &Receiver<StepOutput>) -> Vec<f32> {
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

/// Of one prompt after the other.
pub(crate) fn alone(engine: &LlmEngine) -> Vec<Vec<f32>> {
    let ask = |length: &i32| logprobs(&start(engine, *length).0);
    PROMPTS.iter().map(ask).collect()
}
