//! Speculation on llama.cpp with the repository's small model: texts are those without it.

use graphmill_llm::{LlmEngine, LlmEngineSpec, PluginConfig, SamplingParams, SpeculationParams};

use crate::llama::support::{Generation, MESSAGES, chat, model, same};

/// How much log probabilities may differ: alone, and beside others in a unified KV cache.
const ALONE: f32 = 0.05;
const TOGETHER: f32 = 0.2;

fn engine(kv_unified: bool) -> LlmEngine {
    let plugin_config = PluginConfig {
        kv_unified: Some(kv_unified),
        ..PluginConfig::default()
    };
    let spec = LlmEngineSpec {
        max_num_seqs: 8,
        plugin_config,
        ..LlmEngineSpec::new(model())
    };
    LlmEngine::load(spec).expect("the model loads")
}

fn start(
    engine: &LlmEngine,
    message: &str,
    sampling: SamplingParams,
    speculates: bool,
) -> Generation {
    Generation::start(engine, chat(engine, message), |request| {
        request.sampling = SamplingParams {
            logprobs: Some(2),
            ..sampling
        };
        request.max_tokens = Some(96);
        // Over the model's end token it goes on, and begins to repeat itself.
        request.ignore_eos = true;
        request.speculation = speculates.then(SpeculationParams::default);
    })
}

#[test]
fn greedy_texts_are_the_same_alone_and_in_a_batch() {
    for kv_unified in [true, false] {
        let engine = engine(kv_unified);
        let greedy = SamplingParams::greedy;
        let mut accepted = 0;
        let mut plain = Vec::new();
        for message in MESSAGES {
            let without = start(&engine, message, greedy(), false).finish();
            assert_eq!(without.usage.drafts, None);
            let with = start(&engine, message, greedy(), true).finish();
            same(&without.logprobs, &with.logprobs, ALONE, true, message);
            accepted += with.usage.drafts.expect("it speculates").accepted;
            plain.push(without.logprobs);
        }
        // How many depends on the time that steps take.
        assert!(accepted > 0, "no draft was right");
        let together: Vec<_> = MESSAGES
            .iter()
            .enumerate()
            .map(|(index, message)| start(&engine, message, greedy(), index % 4 != 3))
            .collect();
        for ((generation, plain), message) in together.into_iter().zip(&plain).zip(MESSAGES) {
            same(
                plain,
                &generation.finish().logprobs,
                TOGETHER,
                true,
                message,
            );
        }
        assert_eq!(engine.status().failed_steps, 0);
    }
}

#[test]
fn a_seed_gives_the_text_it_gives_without_drafts() {
    let engine = engine(true);
    let mut parted = 0;
    let mut accepted = 0;
    for (seed, message) in (0..).zip(MESSAGES) {
        let sampling = SamplingParams {
            temperature: 0.7,
            frequency_penalty: 0.1,
            seed: Some(seed),
            ..SamplingParams::default()
        };
        let without = start(&engine, message, sampling.clone(), false).finish();
        let with = start(&engine, message, sampling, true).finish();
        let same = same(&without.logprobs, &with.logprobs, ALONE, false, message);
        parted += u32::from(!same);
        accepted += with.usage.drafts.expect("it speculates").accepted;
    }
    assert!(accepted > 0, "no draft was right");
    // A draw can fall between two tokens whose probabilities differ in their last bits.
    assert!(parted <= 1, "{parted} of 8 texts parted");
}
