//! Prompts of vectors. The embeddings of tokens are answered as the tokens are.

use std::sync::Arc;

use graphmill_llm::{
    GenerationRequest, LlmEngine, LlmEngineSpec, Medium, PlacedTile, PluginConfig,
    SpeculationParams, StepOutput, SubmitError, Token,
};
use graphmill_testkit::embeddings::{WIDTH, rows};

use crate::llama::support::{Generation, MESSAGES, chat, model};

/// Maximum number of positions of a step: fewer than a long prompt has.
const BATCH: u32 = 40;

fn engine(kv_unified: bool) -> LlmEngine {
    let spec = LlmEngineSpec {
        max_num_batched_tokens: BATCH,
        max_num_seqs: 8,
        cache_size: 1,
        max_context: Some(512),
        plugin_config: PluginConfig {
            kv_unified: Some(kv_unified),
            ..PluginConfig::default()
        },
        ..LlmEngineSpec::new(model())
    };
    LlmEngine::load(spec).expect("the model loads")
}

/// The prompt that stands for embeddings.
fn prompt(numbers: Vec<f32>) -> (Vec<Token>, Arc<[PlacedTile]>) {
    let medium = Medium::from_embeddings(WIDTH, numbers).expect("whole and finite");
    let (mut prompt, mut tiles) = (Vec::new(), Vec::new());
    medium.append_to(&mut prompt, &mut tiles);
    (prompt, tiles.into())
}

/// A long prompt and seven short ones.
fn prompts(engine: &LlmEngine) -> Vec<Vec<Token>> {
    let long = MESSAGES.join(" ");
    let messages = MESSAGES[1..].iter().copied();
    let prompts = [&*long].into_iter().chain(messages);
    prompts.map(|message| chat(engine, message)).collect()
}

fn with_limits(request: &mut GenerationRequest) {
    request.max_tokens = Some(24);
    request.ignore_eos = true;
}

fn start_text(engine: &LlmEngine, tokens: &[Token]) -> Generation {
    Generation::start(engine, tokens.to_vec(), with_limits)
}

fn start(engine: &LlmEngine, tokens: &[Token]) -> Generation {
    let (prompt, tiles) = prompt(rows(&model(), tokens));
    Generation::start(engine, prompt, |request| {
        request.tiles = tiles;
        request.speculation = Some(SpeculationParams::default());
        with_limits(request);
    })
}

#[test]
fn embeddings_of_tokens_are_answered_as_the_tokens() {
    for unified in [true, false] {
        let engine = engine(unified);
        for tokens in prompts(&engine) {
            let expected = start_text(&engine, &tokens).finish();
            for _ in 0..2 {
                let found = start(&engine, &tokens).finish();
                assert_eq!(found.tokens, expected.tokens, "unified: {unified}");
                assert_eq!(found.usage.prompt_tokens as usize, tokens.len());
                assert_eq!(found.usage.cached_tokens, 0);
                assert_eq!(found.usage.generated_tokens, 24);
            }
        }
        // The same vectors never come again.
        let engine = self::engine(unified);
        start(&engine, &prompts(&engine)[0]).finish();
        assert_eq!(engine.status().prefix_cache.tokens, 0);
    }
}

#[test]
fn vectors_in_a_crowd_change_nobody_else() {
    for unified in [true, false] {
        let engine = engine(unified);
        let prompts = prompts(&engine);
        assert!(prompts[0].len() > BATCH as usize);
        let alone = prompts
            .iter()
            .map(|tokens| start_text(&engine, tokens).finish());
        let alone: Vec<_> = alone.collect();
        let crowd: Vec<_> = prompts
            .iter()
            .flat_map(|tokens| [start(&engine, tokens), start_text(&engine, tokens)])
            .collect();
        let expected = alone.iter().flat_map(|answer| [answer, answer]);
        for (number, (found, expected)) in crowd.into_iter().zip(expected).enumerate() {
            assert_eq!(found.finish().tokens, expected.tokens, "{unified} {number}");
        }
        assert_eq!(engine.status().kv_cells_used, 0);
    }
}

#[test]
fn a_request_with_vectors_can_be_cancelled() {
    let engine = engine(true);
    let tokens = chat(&engine, MESSAGES[0]);
    let expected = start_text(&engine, &tokens).finish().tokens;
    for _ in 0..3 {
        let running = start(&engine, &tokens);
        running.next();
        let waiting = start(&engine, &tokens);
        drop(waiting);
        drop(running);
        assert_eq!(start_text(&engine, &tokens).finish().tokens, expected);
    }
    // The last request was answered after the end of the others.
    assert_eq!(engine.status().kv_cells_used, 0);
}

#[test]
fn a_prompt_of_vectors_alone_generates_nothing_where_nothing_is_asked_for() {
    let engine = engine(true);
    let (prompt, tiles) = prompt(rows(&model(), &[50, 40]));
    let answer = Generation::start(&engine, prompt, |request| {
        request.tiles = tiles;
        request.max_tokens = Some(0);
    });
    let usage = answer.finish().usage;
    assert_eq!((usage.prompt_tokens, usage.generated_tokens), (2, 0));
}

#[test]
fn vectors_that_have_no_sense_are_refused() {
    let engine = engine(true);
    assert_eq!(engine.vector_width(), Some(WIDTH));
    let (short, tiles) = prompt(vec![0.5; WIDTH]);
    let mut request = GenerationRequest::new(short, |_: StepOutput| {});
    request.tiles = tiles;
    request.prompt_logprobs = Some(0);
    let refused = engine.submit(request).expect_err("refused");
    let field = "prompt_logprobs";
    assert!(
        matches!(&refused, SubmitError::InvalidParameter { field: found, .. } if *found == field),
        "{refused}"
    );
    let (long, tiles) = prompt(vec![0.5; 512 * WIDTH]);
    let refused = engine.check_prompt(&long, &tiles, None);
    let n_prompt_tokens = 512;
    let n_ctx = 512;
    let too_long = SubmitError::PromptTooLong {
        n_prompt_tokens,
        n_ctx,
    };
    assert_eq!(refused, Err(too_long));
    for (width, numbers) in [(0, 1), (2, 0), (2, 3)] {
        assert!(Medium::from_embeddings(width, vec![0.5; numbers]).is_none());
    }
    assert!(Medium::from_embeddings(1, vec![f32::NAN]).is_none());
}
