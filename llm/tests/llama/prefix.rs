//! Prefix sharing on llama.cpp with the repository's small model: answers are those of an engine
//! without it, in both layouts of the KV cache, and the numbers of shared tokens are exact.

use graphmill_llm::{LlmEngine, LlmEngineSpec, PluginConfig, Token, Usage};

use crate::llama::support::{Generation, model, tokenize};

const SYSTEM: &str = "You are a helpful assistant. You answer in short sentences, you never make \
    anything up, and you say so when you do not know something.";
const MESSAGES: [&str; 4] = [
    "Hello!",
    "What is your name?",
    "Tell me a story.",
    "How are you?",
];

fn engine(kv_unified: bool, prefix_caching: bool) -> LlmEngine {
    let spec = LlmEngineSpec {
        max_num_batched_tokens: 64,
        max_num_seqs: 8,
        cache_size: 1,
        prefix_caching,
        plugin_config: PluginConfig {
            kv_unified: Some(kv_unified),
            ..PluginConfig::default()
        },
        ..LlmEngineSpec::new(model())
    };
    LlmEngine::load(spec).expect("the model loads")
}

fn turn(role: &str, text: &str) -> String {
    format!("<|im_start|>{role}\n{text}<|im_end|>\n")
}

fn question(message: &str) -> String {
    turn("system", SYSTEM) + &turn("user", message) + "<|im_start|>assistant\n"
}

fn start(engine: &LlmEngine, prompt: Vec<Token>) -> Generation {
    Generation::start(engine, prompt, |request| request.max_tokens = Some(32))
}

fn ask(engine: &LlmEngine, prompt: Vec<Token>) -> (Vec<Token>, Usage) {
    let answer = start(engine, prompt).finish();
    (answer.tokens, answer.usage)
}

fn common(one: &[Token], other: &[Token]) -> u32 {
    one.iter()
        .zip(other)
        .take_while(|(one, other)| one == other)
        .count() as u32
}

#[test]
fn answers_from_kept_cells_are_those_computed_from_the_beginning() {
    for unified in [true, false] {
        let (plain, sharing) = (engine(unified, false), engine(unified, true));
        let mut before: Option<Vec<Token>> = None;
        for message in MESSAGES {
            let prompt = tokenize(&plain, &question(message));
            let (expected, usage) = ask(&plain, prompt.clone());
            assert_eq!(usage.cached_tokens, 0);
            let (answer, usage) = ask(&sharing, prompt.clone());
            assert_eq!(answer, expected, "unified: {unified}, {message}");
            let alike = before.map_or(0, |before| common(&before, &prompt));
            assert_eq!(usage.cached_tokens, alike, "unified: {unified}, {message}");
            before = Some(prompt);
        }
        // The same again: all but the last token is there.
        let prompt = tokenize(&plain, &question(MESSAGES[0]));
        let (answer, usage) = ask(&sharing, prompt.clone());
        assert_eq!(answer, ask(&plain, prompt.clone()).0);
        assert_eq!(usage.cached_tokens, prompt.len() as u32 - 1);
        assert_eq!(sharing.status().kv_cells_used, 0);
    }
}

#[test]
fn a_beginning_that_many_share_is_computed_once() {
    for unified in [true, false] {
        let (plain, sharing) = (engine(unified, false), engine(unified, true));
        let prompts: Vec<Vec<Token>> = (0..8)
            .map(|index| {
                tokenize(
                    &plain,
                    &question(&format!("{index} {}", MESSAGES[index % 4])),
                )
            })
            .collect();
        let running: Vec<_> = prompts
            .iter()
            .map(|prompt| start(&sharing, prompt.clone()))
            .collect();
        let mut cached = 0;
        for (generation, prompt) in running.into_iter().zip(&prompts) {
            let answer = generation.finish();
            assert_eq!(
                answer.tokens,
                ask(&plain, prompt.clone()).0,
                "unified: {unified}"
            );
            cached += answer.usage.cached_tokens;
        }
        let beginning = common(&prompts[0], &prompts[1]);
        assert_eq!(cached, 7 * beginning, "unified: {unified}");
        let all: usize = prompts.iter().map(Vec::len).sum();
        assert_eq!(
            sharing.status().prompt_tokens,
            all as u64 - u64::from(cached)
        );
    }
}

#[test]
fn a_growing_chat_computes_new_tokens_only() {
    for unified in [true, false] {
        let sharing = engine(unified, true);
        let mut history = tokenize(&sharing, &turn("system", SYSTEM));
        for (index, message) in MESSAGES.iter().enumerate() {
            let known = if index == 0 { 0 } else { history.len() as u32 };
            let next = turn("user", message) + "<|im_start|>assistant\n";
            history.extend(tokenize(&sharing, &next));
            let (answer, usage) = ask(&sharing, history.clone());
            // The last token of an answer was chosen and never computed.
            assert!(
                usage.cached_tokens + 1 >= known && usage.cached_tokens <= known,
                "unified: {unified}, {usage:?}, {known} known"
            );
            history.extend(answer);
        }
    }
}

#[test]
fn a_sequence_goes_on_in_another_slot() {
    let (plain, engine) = (engine(false, false), engine(false, false));
    let long = |engine: &LlmEngine, message: &str| {
        Generation::start(engine, tokenize(engine, &question(message)), |request| {
            request.max_tokens = Some(96);
            request.ignore_eos = true;
        })
    };
    let mut running: Vec<_> = MESSAGES
        .iter()
        .map(|message| long(&engine, message))
        .collect();
    let begins = |generation: &Generation| generation.next().tokens.to_vec();
    let beginnings: Vec<Vec<Token>> = running.iter().map(begins).collect();
    drop(running.remove(0));
    for (index, generation) in (1..).zip(running) {
        let answer = [beginnings[index].clone(), generation.finish().tokens].concat();
        let alone = long(&plain, MESSAGES[index]).finish();
        assert_eq!(answer, alone.tokens, "{}", MESSAGES[index]);
    }
    assert!(engine.status().moves > 0);
}
