//! Tokenization with each of llama.cpp's splits into words: the tokens are llama.cpp's own, and no
//! text ends the process.
//!
//! `GRAPHMILL_PRE_TOKENIZERS=all` takes every name and texts of a megabyte; usually it is a name of
//! each split, and shorter texts.

use std::env;
use std::fs;
use std::mem::ManuallyDrop;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use graphmill_llm::backend::load_vocab;
use graphmill_llm::{Token, TokenizeError, Vocab};
use graphmill_testkit::gguf::{F32, Gguf, I32, LIST, list};
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::model::params::LlamaModelParams;

/// The names in `llama-vocab.cpp`, a line for each split.
#[rustfmt::skip]
const NAMES: &[&[&str]] = &[
    &["default"],
    &["llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano", "dbrx", "smaug-bpe", "chatglm-bpe", "glm4", "glm5"],
    &["jais-2"],
    &["deepseek-llm"],
    &["deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"],
    &["spark2_5"],
    &["youtu"],
    &["deepseek-coder"],
    &["falcon"],
    &["starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"],
    &["gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "jina-v2-es", "jina-v2-de", "a.x-4.0", "mellum", "modern-bert", "mpt", "olmo", "jais", "trillion", "granite-docling", "jina-v1-en", "jina-v2-code", "roberta-bpe", "exaone4"],
    &["qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "stablelm2", "hunyuan", "solar-open", "megrez", "grok-2"],
    &["qwen35"],
    &["laguna"],
    &["ufakzeka"],
    &["poro-chat", "bloom", "gpt3-finnish"],
    &["viking"],
    &["tekken"],
    &["chameleon"],
    &["gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"],
    &["granite-embed-multi-97m"],
    &["tiny_aya", "cohere2moe"],
    &["kimi-k2"],
    &["superbpe"],
    &["bailingmoe", "bailingmoe2", "llada-moe"],
    &["seed-coder"],
    &["afmoe"],
    &["exaone-moe"],
    &["gemma4", "granite-embed-multi-311m"],
    &["sarvam-moe"],
    &["mmbert"],
    &["minicpm5"],
    &["whitespace"],
];

/// Tokens of a context, so that its length refuses none of the texts.
pub(super) const CONTEXT: u32 = 1 << 20;

fn is_whole() -> bool {
    env::var("GRAPHMILL_PRE_TOKENIZERS").is_ok_and(|which| which == "all")
}

fn names() -> Vec<&'static str> {
    let most = if is_whole() { usize::MAX } else { 1 };
    let names = NAMES.iter().flat_map(|names| names.iter().take(most));
    names.copied().collect()
}

/// Does something with the model of this repository under each name.
fn with_each_name(work: impl Fn(&str, &Path, &Arc<dyn Vocab>)) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../demos/tiny_chat/model.gguf");
    let mut model =
        Gguf::parse(&fs::read(path).expect("the model of this repository")).expect("a model");
    model.set_u32("llama.context_length", CONTEXT);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    for name in names() {
        model.set_text("tokenizer.ggml.pre", name);
        fs::write(&path, model.bytes()).expect("writable");
        match load_vocab(&path) {
            Ok(vocab) => work(name, &path, &vocab),
            Err(error) => panic!("{name}: {error}"),
        }
    }
}

/// Names of splits that leave white space as it is. The model of this repository has no tokens for
/// more than one space or line end, which llama.cpp takes for a damaged file.
const PLAIN: [&str; 5] = [
    "gemma4",
    "granite-embed-multi-311m",
    "sarvam-moe",
    "mmbert",
    "whitespace",
];

/// A text with one space or line end between words.
fn single_spaced(text: &str) -> String {
    let line = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines = text.lines().map(line).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("\n")
}

/// Paragraphs in several languages and of several kinds, more of them than are tokenized at once.
pub(super) fn corpus() -> String {
    const PARAGRAPHS: [&str; 8] = [
        "A graph's nodes don't share state: each run has its own. It's 12,345.67 per second, isn't it?\n",
        "Größere Übungen für die Straße; außerdem naïve façades, cafés and coöperation. Ça va?\n\n",
        "Все счастливые семьи похожи друг на друга. Each one is unhappy in its own way! 一二三。你好，世界！\n",
        "नमस्ते दुनिया। यह एक परीक्षण है: ठीक. สวัสดีชาวโลก การทดสอบ \u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467} ok.\n",
        "fn main() {\n    let text = \"a\\tb\"; // it's 0x1F, 1_000\n\t\treturn text.len()>=3&&!done;\n}\n",
        "\"key\": [1, 2.5e-3, null], \"other_key\": {\"a\": true}; See https://example.org/a?b=c&d=e#f. End.\r\nNext line   here.  Two spaces. \u{a0}Then more\n",
        "한국어 문장입니다. カタカナとひらがな。 e\u{301}te\u{301} a\u{30a}ngstrom, I'LL WE'VE camelCaseWORDS ABCdef.\n",
        "   indented: yes\n\n\n  - item one; it goes on! And on?\n  - item (two) <|im_end|> [3]: 20240102\n",
    ];
    let mut text = String::new();
    for round in 0..if is_whole() { 1_024 } else { 128 } {
        for shift in 0..PARAGRAPHS.len() {
            text.push_str(PARAGRAPHS[(round * 3 + shift * shift) % PARAGRAPHS.len()]);
        }
    }
    text
}

#[test]
fn tokens_are_those_of_llama_cpp_wherever_a_text_is_cut() {
    let corpus = corpus();
    let single_spaced = single_spaced(&corpus);
    with_each_name(|name, path, vocab| {
        let corpus = if PLAIN.contains(&name) {
            &single_spaced
        } else {
            &corpus
        };
        let backend = ManuallyDrop::new(LlamaBackend {});
        let params = LlamaModelParams::default().with_vocab_only(true);
        let model = LlamaModel::load_from_file(&backend, path, &params).expect("a vocabulary");
        for (add_special, parse_special) in [(false, false), (true, true)] {
            // The reference has the stack for all of the text.
            let tokens = thread::scope(|scope| {
                let work = || {
                    let vocab = model.vocab();
                    vocab.tokenize(corpus.as_bytes(), add_special, parse_special)
                };
                let thread = thread::Builder::new().stack_size(2 << 30);
                let ended = thread.spawn_scoped(scope, work).expect("a thread").join();
                ended.expect("tokens")
            });
            let expected: Vec<Token> = tokens.into_iter().map(|token| token.0).collect();
            let tokens = vocab.tokenize(corpus, add_special, parse_special);
            match tokens {
                Ok(tokens) => assert!(tokens == expected, "{name}: the tokens differ"),
                // Its words end at numbers alone.
                Err(TokenizeError::Uncut { .. }) if name == "superbpe" => {}
                Err(error) => panic!("{name}: {error}"),
            }
        }
    });
}

/// Does something with a WordPiece model of this repository, and with SentencePiece models of the
/// tokens of another: one puts a space before texts, one does not.
fn with_other_kinds(work: impl Fn(&str, &Path, &Arc<dyn Vocab>)) {
    let demos = Path::new(env!("CARGO_MANIFEST_DIR")).join("../demos");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    let load = || load_vocab(&path).expect("a vocabulary");
    let read = |name: &str| fs::read(demos.join(name)).expect("a model of this repository");
    let mut model = Gguf::parse(&read("tiny_embed/embed.gguf")).expect("a model");
    model.set_u32("bert.context_length", CONTEXT);
    fs::write(&path, model.bytes()).expect("writable");
    work("WordPiece", &path, &load());
    let mut model = Gguf::parse(&read("tiny_chat/model.gguf")).expect("a model");
    model.set_u32("llama.context_length", CONTEXT);
    model.set_text("tokenizer.ggml.model", "llama");
    model.remove("tokenizer.ggml.merges");
    let mut tokens = model.texts("tokenizer.ggml.tokens");
    let mut scores = Vec::new();
    for (index, token) in tokens.iter_mut().enumerate() {
        // What a byte-pair vocabulary writes for a space and a line end.
        *token = token
            .replace('\u{120}', "\u{2581}")
            .replace('\u{10a}', "\n");
        scores.push((-(index as f32 * 7.0 % 97.0)).to_le_bytes());
    }
    // A byte for what is in no token, and tokens with a space inside.
    let bytes: Vec<String> = (0..=255).map(|byte| format!("<0x{byte:02X}>")).collect();
    let (from, until) = (tokens.len() - 256 - 3, tokens.len() - 3);
    tokens[from..until].clone_from_slice(&bytes);
    tokens[from - 3..from]
        .clone_from_slice(&["s\u{2581}t", "e\u{2581}n", ".\u{2581}It"].map(str::to_owned));
    model.set_texts("tokenizer.ggml.tokens", &tokens);
    model.set("tokenizer.ggml.scores", LIST, list(F32, &scores));
    let kinds: Vec<[u8; 4]> = (0..tokens.len())
        .map(|token| {
            if (from..until).contains(&token) {
                6_u32
            } else {
                1
            }
            .to_le_bytes()
        })
        .collect();
    model.set("tokenizer.ggml.token_type", LIST, list(I32, &kinds));
    for adds_space in [true, false] {
        model.set("tokenizer.ggml.add_space_prefix", 7, [u8::from(adds_space)]);
        fs::write(&path, model.bytes()).expect("writable");
        work("SentencePiece", &path, &load());
    }
}

#[test]
fn texts_of_other_kinds_are_cut_where_tokens_stay_the_same() {
    let corpus = corpus();
    with_other_kinds(|kind, path, vocab| {
        let backend = ManuallyDrop::new(LlamaBackend {});
        let params = LlamaModelParams::default().with_vocab_only(true);
        let model = LlamaModel::load_from_file(&backend, path, &params).expect("a vocabulary");
        for (add_special, parse_special) in [(false, false), (true, true)] {
            let expected = model
                .vocab()
                .tokenize(corpus.as_bytes(), add_special, parse_special);
            let expected: Vec<Token> = expected.into_iter().map(|token| token.0).collect();
            let tokens = vocab.tokenize(&corpus, add_special, parse_special);
            assert!(
                tokens.as_ref() == Ok(&expected),
                "{kind}: the tokens differ"
            );
            // Between two pieces it is asked for.
            let asked = AtomicUsize::new(0);
            let goes_on = || asked.fetch_add(1, Ordering::Relaxed) < 1;
            let ended = vocab.tokenize_while(&corpus, add_special, parse_special, &goes_on);
            assert_eq!(ended, Err(TokenizeError::Cancelled), "{kind}");
        }
    });
}

/// Texts in which words end late or never.
fn endless() -> Vec<(&'static str, String)> {
    let bytes = if is_whole() { 1 << 20 } else { 40_000 };
    let unit = |unit: &str| unit.repeat(bytes / unit.len());
    vec![
        ("letters with marks", unit("a\u{301}")),
        ("marks", unit("\u{94d}")),
        ("letters", unit("aB")),
        ("words", unit("a b ")),
        ("punctuation", unit("-")),
        ("mixed punctuation", unit("a-a_(")),
        ("digits", unit("7")),
        ("digits and a letter", unit("7") + "x"),
        ("emoji", unit("\u{1f468}\u{200d}")),
        ("ideographs", unit("你")),
        ("full-width", unit("！")),
        ("spaces", unit(" ") + "x"),
        ("spaces and a digit", unit(" ") + "1"),
        ("tabs and spaces", unit("\t ") + "x"),
        ("line ends", unit("\r\n") + "x"),
        ("wide spaces", unit("\u{3000}") + "x"),
        ("private use", unit("\u{e000}")),
        ("control characters", unit("\u{1}\u{301}")),
        ("special tokens", unit("<|im_end|>")),
    ]
}

#[test]
fn no_text_takes_more_stack_than_there_is() {
    let texts = Arc::new(endless());
    with_each_name(|name, _, vocab| {
        let is_plain = PLAIN.contains(&name);
        let (texts, vocab) = (Arc::clone(&texts), Arc::clone(vocab));
        // As that of the threads that tokenize for requests.
        let thread = thread::Builder::new().stack_size(2 << 20);
        let work = move || {
            texts.iter().for_each(|(of, text)| {
                let read = vocab.tokenize(text, false, true);
                let refused = matches!(
                    read,
                    Err(TokenizeError::Uncut { .. } | TokenizeError::Run { .. })
                );
                let is_run = ["digits", "spaces", "line ends"];
                let known = is_whole() || is_run.iter().any(|run| of.contains(run));
                let unknown = is_plain && matches!(read, Err(TokenizeError::NoTokens { .. }));
                assert!(
                    read.is_ok() || (refused && known) || unknown,
                    "{of}: {read:?}"
                );
            });
        };
        let ended = thread.spawn(work).expect("a thread").join();
        assert!(ended.is_ok(), "{name}");
    });
}

#[test]
fn tokenization_ends_where_nobody_waits_for_it() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../demos/tiny_chat/model.gguf");
    let vocab = load_vocab(&path).expect("a vocabulary");
    let text = "a<|im_end|>".repeat(1_000);
    let asked = AtomicUsize::new(0);
    let goes_on = || asked.fetch_add(1, Ordering::Relaxed) < 10;
    let ended = vocab.tokenize_while(&text, false, true, &goes_on);
    assert_eq!(ended, Err(TokenizeError::Cancelled));
    assert_eq!(asked.load(Ordering::Relaxed), 11);
}
