//! Prefix sharing of models that keep a second cache beside the first: what is kept of a finished
//! prompt, and what is copied from a running one, has the cells of both.

use graphmill_llm::{
    LlmEngine, LlmEngineSpec, PluginConfig, SamplingParams, Token, TokenLogprob, Usage,
};

use crate::families::Family;
use crate::support::{Generation, same};

/// How much log probabilities may differ: batches decide in which order floats are added.
const TOLERANCE: f32 = 0.1;
const BEGINNING: u32 = 90;

fn engine(kv_unified: bool, prefix_caching: bool) -> LlmEngine {
    let folder = tempfile::tempdir().expect("a folder");
    let spec = LlmEngineSpec {
        max_num_batched_tokens: 64,
        max_num_seqs: 3,
        max_context: Some(512),
        prefix_caching,
        plugin_config: PluginConfig {
            kv_unified: Some(kv_unified),
            kv_type_k: Family::Indexed.kv_type(),
            kv_type_v: Family::Indexed.kv_type(),
            ..PluginConfig::default()
        },
        ..LlmEngineSpec::new(Family::Indexed.make(folder.path()))
    };
    LlmEngine::load(spec).expect("the model loads")
}

/// A beginning that all have, with an end of its own for each number.
fn prompt(end: u32) -> Vec<Token> {
    let shared = (0..BEGINNING).map(|index| 20 + (index * 7 % 150) as Token);
    let own = (0..20).map(|index| 20 + ((index * 3 + end * 13) % 150) as Token);
    shared.chain([200 + end as Token]).chain(own).collect()
}

fn start(engine: &LlmEngine, prompt: Vec<Token>) -> Generation {
    Generation::start(engine, prompt, |request| {
        request.sampling = SamplingParams {
            logprobs: Some(2),
            ..SamplingParams::greedy()
        };
        request.max_tokens = Some(24);
        request.ignore_eos = true;
    })
}

fn finish(generation: Generation) -> (Vec<TokenLogprob>, Usage) {
    let answer = generation.finish();
    (answer.logprobs, answer.usage)
}

#[test]
fn finished_prompts_are_gone_on_from() {
    for unified in [true, false] {
        let (plain, sharing) = (engine(unified, false), engine(unified, true));
        for end in 0..3 {
            let (expected, _) = finish(start(&plain, prompt(end)));
            let (answer, usage) = finish(start(&sharing, prompt(end)));
            let what = format!("unified: {unified}, end {end}");
            same(&expected, &answer, TOLERANCE, true, &what);
            let known = if end == 0 { 0 } else { BEGINNING };
            assert_eq!(usage.cached_tokens, known, "{what}");
        }
        // The same again: all but the last token is there.
        let (_, usage) = finish(start(&sharing, prompt(1)));
        assert_eq!(usage.cached_tokens as usize, prompt(1).len() - 1);
        assert_eq!(sharing.status().kv_cells_used, 0);
    }
}

#[test]
fn running_prompts_are_gone_on_from() {
    for unified in [true, false] {
        let (plain, sharing) = (engine(unified, false), engine(unified, true));
        let running: Vec<_> = (0..6).map(|end| start(&sharing, prompt(end))).collect();
        let mut cached = 0;
        for (generation, end) in running.into_iter().zip(0..) {
            let (answer, usage) = finish(generation);
            let (expected, _) = finish(start(&plain, prompt(end)));
            let what = format!("unified: {unified}, end {end}");
            same(&expected, &answer, TOLERANCE, true, &what);
            cached += usage.cached_tokens;
        }
        assert_eq!(cached, 5 * BEGINNING, "unified: {unified}");
    }
}
