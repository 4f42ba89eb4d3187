//! Texts of a unigram model, whose tokenizer weighs a piece as a whole: the tokens are llama.cpp's
//! own wherever a text is cut, and no piece is so long that nobody asks for long.

use std::fs;
use std::mem::ManuallyDrop;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use graphmill_llm::backend::load_vocab;
use graphmill_llm::{Token, TokenizeError, Vocab};
use graphmill_testkit::gguf::{F32, Gguf, I32, LIST, list};
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::model::params::LlamaModelParams;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::pre_tokenizers::{CONTEXT, corpus};

/// Bytes of a text that are tokenized at once, at most.
const PIECE: usize = 64 << 10;
/// Replacements as a normal form of Unicode has them.
const REPLACEMENTS: &[(&str, &str)] = &[
    ("\t", " "),
    ("\u{3000}", " "),
    ("\u{200b}", ""),
    ("e\u{301}", "é"),
    (" \u{308}", "\u{308}"),
    ("！", "!"),
    ("\u{fdfa}", "صلى الله عليه وسلم"),
];

/// Replacements as in a model's file: the bytes of a double array, and what they replace by.
fn charsmap(replacements: &[(&str, &str)]) -> Vec<u8> {
    /// Where children of one node and the next can be: a free range each.
    const RANGE: usize = 256;
    let mut keys: Vec<(&[u8], u32)> = Vec::new();
    let mut texts = Vec::new();
    for (key, text) in replacements {
        keys.push((key.as_bytes(), texts.len() as u32));
        texts.extend(text.bytes().chain([0]));
    }
    texts.push(0);
    let mut units = vec![0_u32; RANGE];
    let mut nodes = vec![(0_usize, Vec::new())];
    while let Some((node, prefix)) = nodes.pop() {
        let base = units.len();
        units.resize(base + RANGE, 0);
        // The base of a node, as the distance to it.
        units[node] |= ((node ^ base) as u32) << 10;
        for (key, value) in keys.iter().filter(|(key, _)| key.starts_with(&prefix)) {
            match key.get(prefix.len()) {
                None => {
                    units[node] |= 1 << 8;
                    units[base] = value | 1 << 31;
                }
                Some(byte) if units[base | usize::from(*byte)] == 0 => {
                    units[base | usize::from(*byte)] = u32::from(*byte);
                    nodes.push((base | usize::from(*byte), [&prefix, &[*byte][..]].concat()));
                }
                Some(_) => {}
            }
        }
    }
    let mut bytes = (units.len() as u32 * 4).to_le_bytes().to_vec();
    bytes.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
    bytes.extend(texts);
    bytes
}

/// How a model differs from others of its kind.
#[derive(Clone, Copy, Debug)]
struct Kind {
    adds_space: bool,
    merges_spaces: bool,
    /// Makes each score a fraction that sums round.
    rounds: bool,
    replacements: &'static [(&'static str, &'static str)],
}

const USUAL: Kind = Kind {
    adds_space: true,
    merges_spaces: true,
    rounds: false,
    replacements: REPLACEMENTS,
};

/// Writes a unigram model of the tokens of another one.
fn write(kind: Kind, path: &Path) {
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../demos/tiny_chat/model.gguf");
    let mut model =
        Gguf::parse(&fs::read(demo).expect("the model of this repository")).expect("a model");
    model.set_u32("llama.context_length", CONTEXT);
    model.set_text("tokenizer.ggml.model", "t5");
    model.remove("tokenizer.ggml.merges");
    let mut tokens = model.texts("tokenizer.ggml.tokens");
    let mut scores = Vec::new();
    for (index, token) in tokens.iter_mut().enumerate() {
        *token = token.replace('\u{120}', "\u{2581}");
        let score = -2.0 - (index as f32 * 7.0 % 97.0) / 8.0;
        scores.push((if kind.rounds { score / 1e6 } else { score }).to_le_bytes());
    }
    // The last tokens are special, and the first stands for what is in no token.
    let last = tokens.len() - 3;
    let kinds: Vec<[u8; 4]> = (0..tokens.len())
        .map(|token| match token {
            0 => 2_u32,
            token if token >= last => 3,
            _ => 1,
        })
        .map(u32::to_le_bytes)
        .collect();
    model.set_u32("tokenizer.ggml.unknown_token_id", 0);
    model.set_texts("tokenizer.ggml.tokens", &tokens);
    model.set("tokenizer.ggml.scores", LIST, list(F32, &scores));
    model.set("tokenizer.ggml.token_type", LIST, list(I32, &kinds));
    for (key, value) in [
        ("tokenizer.ggml.add_space_prefix", kind.adds_space),
        (
            "tokenizer.ggml.remove_extra_whitespaces",
            kind.merges_spaces,
        ),
    ] {
        model.set(key, 7, [u8::from(value)]);
    }
    let charsmap = charsmap(kind.replacements);
    let mut value = 0_u32.to_le_bytes().to_vec();
    value.extend((charsmap.len() as u64).to_le_bytes());
    value.extend(charsmap);
    model.set("tokenizer.ggml.precompiled_charsmap", LIST, value);
    fs::write(path, model.bytes()).expect("writable");
}

/// Does something with a model of a kind, as this project reads it and as llama.cpp does.
fn with(kind: Kind, work: impl FnOnce(&Arc<dyn Vocab>, &dyn Fn(&str, bool) -> Vec<Token>)) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    write(kind, &path);
    let vocab = load_vocab(&path).expect("a vocabulary");
    let backend = ManuallyDrop::new(LlamaBackend {});
    let params = LlamaModelParams::default().with_vocab_only(true);
    let model = LlamaModel::load_from_file(&backend, &path, &params).expect("a vocabulary");
    work(&vocab, &|text, special| {
        let tokens = model.vocab().tokenize(text.as_bytes(), special, special);
        tokens.into_iter().map(|token| token.0).collect()
    });
}

/// The number of times that it is asked for while a text is tokenized.
fn asked(vocab: &dyn Vocab, text: &str) -> usize {
    let asked = AtomicUsize::new(0);
    let goes_on = || asked.fetch_add(1, Ordering::Relaxed) < usize::MAX;
    vocab
        .tokenize_while(text, false, true, &goes_on)
        .expect("tokens");
    asked.into_inner()
}

#[test]
fn cut_texts_have_the_tokens_of_the_whole() {
    // Not cut at special tokens.
    let corpus = corpus().replace("<|im_end|>", "");
    for (adds_space, merges_spaces) in [(true, true), (true, false), (false, true), (false, false)]
    {
        let kind = Kind {
            adds_space,
            merges_spaces,
            ..USUAL
        };
        with(kind, |vocab, reference| {
            // The replacements are those that llama.cpp reads.
            let replaced = reference("the\u{3000}node", false);
            assert_eq!(replaced, reference("the node", false));
            for special in [false, true] {
                let expected = reference(&corpus, special);
                let tokens = vocab.tokenize(&corpus, special, special);
                assert!(tokens == Ok(expected), "{kind:?}: the tokens differ");
            }
            assert!(asked(&**vocab, &corpus) >= corpus.len() / PIECE, "{kind:?}");
            let asked = AtomicUsize::new(0);
            let goes_on = || asked.fetch_add(1, Ordering::Relaxed) < 1;
            let ended = vocab.tokenize_while(&corpus, true, true, &goes_on);
            assert_eq!(ended, Err(TokenizeError::Cancelled), "{kind:?}");
        });
    }
}

#[test]
fn random_texts_have_the_tokens_of_the_whole() {
    const WORDS: &[&str] = &[
        "the",
        "node",
        " ",
        "  ",
        " a",
        "s B",
        "e\u{301} x",
        "\t",
        " \u{308}y",
        "！",
        "你好",
        "é",
        "\u{200b} ",
        "z \u{200b}",
        "\u{fdfa}",
        "\u{2581}",
        "\n",
        "q w e r t",
        "1 ",
    ];
    with(USUAL, |vocab, reference| {
        let mut runner = TestRunner::new(Config {
            failure_persistence: None,
            ..Config::with_cases(12)
        });
        let words = prop::collection::vec(prop::sample::select(WORDS), 30_000..50_000);
        let same = runner.run(&words, |words| {
            let text = words.concat();
            prop_assert!(vocab.tokenize(&text, true, true) == Ok(reference(&text, true)));
            Ok(())
        });
        same.expect("the tokens of the whole");
    });
}

/// Asserts that a text longer than a piece is refused, with the size of a piece, and that a shorter
/// one has the tokens of the whole.
fn assert_uncut(kind: Kind, text: &str) {
    with(kind, |vocab, reference| {
        let refused = vocab.tokenize(text, false, true);
        assert!(
            matches!(refused, Err(TokenizeError::Uncut { limit, .. }) if limit <= PIECE),
            "{kind:?}"
        );
        let short = &text[..text.floor_char_boundary(PIECE)];
        assert!(vocab.tokenize(short, false, true) == Ok(reference(short, true)));
    });
}

#[test]
fn texts_without_a_place_for_a_cut_are_refused_beyond_a_piece() {
    for unit in ["aB", "你好", "- - "] {
        assert_uncut(USUAL, &unit.repeat(PIECE));
    }
}

#[test]
fn pieces_are_measured_after_replacements() {
    with(USUAL, |vocab, reference| {
        // Three bytes, for which there are 33.
        let text = |bytes: usize| "\u{fdfa}".repeat(bytes / 3);
        let refused = vocab.tokenize(&text(PIECE / 8), false, true);
        assert!(
            matches!(refused, Err(TokenizeError::Uncut { limit, .. }) if limit <= PIECE / 11),
            "{refused:?}"
        );
        let short = text(PIECE / 16);
        assert!(vocab.tokenize(&short, false, true) == Ok(reference(&short, true)));
    });
}

#[test]
fn nothing_is_cut_where_the_model_would_read_it_otherwise() {
    let text = "the node ".repeat(PIECE);
    // A replacement across a space, of a letter alone, of a space alone; scores that sums round.
    for replacements in [
        &[("he\u{301} \u{301}", "x")][..],
        &[("e ", "x")],
        &[(" n", "n")],
        &[("e", "")],
        &[(" ", "x")],
    ] {
        let kind = Kind {
            replacements,
            ..USUAL
        };
        assert_uncut(kind, &text);
    }
    let kind = Kind {
        rounds: true,
        ..USUAL
    };
    assert_uncut(kind, &text);
}
