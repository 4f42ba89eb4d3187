//! Tokenization of GGUF vocabularies against the token ids recorded beside them.

use std::fs;
use std::path::{Path, PathBuf};

use graphmill_llm::backend::load_vocab;
use graphmill_llm::{Token, TokenizeError, Vocab};

const SEPARATOR: &str = "\n__ggml_vocab_test__\n";

/// The vocabularies to test: GGUF files with `.inp` and `.out` beside them.
fn vocabularies() -> Vec<PathBuf> {
    let shared = std::env::var_os("GRAPHMILL_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared"),
        PathBuf::from,
    );
    let folder = shared.join("vocab");
    let Ok(entries) = fs::read_dir(&folder) else {
        eprintln!("skipped: there is no folder `{}`", folder.display());
        return Vec::new();
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut models: Vec<_> = paths
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "gguf")
        })
        .collect();
    models.sort();
    models
}

/// The bytes of all tokens.
fn spell(vocab: &dyn Vocab, tokens: &[Token], special: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    for token in tokens {
        vocab.piece(*token, special, &mut bytes);
    }
    bytes
}

fn beside(model: &Path, suffix: &str) -> String {
    let path = PathBuf::from(format!("{}{suffix}", model.display()));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn tokens_are_the_recorded_ones_and_spell_the_text() {
    for model in vocabularies() {
        let vocab = load_vocab(&model).expect("a vocabulary");
        let (inputs, outputs) = (beside(&model, ".inp"), beside(&model, ".out"));
        let mut compared = 0;
        for (input, output) in inputs.split(SEPARATOR).zip(outputs.lines()) {
            let expected: Vec<i32> = output
                .split_whitespace()
                .map(|id| id.parse().expect("a token id"))
                .collect();
            let tokens = vocab.tokenize(input, false, false).expect("short");
            assert_eq!(tokens, expected, "{}: {input:?}", model.display());
            let spelled = spell(&*vocab, &tokens, true);
            let spelled = String::from_utf8_lossy(&spelled).into_owned();
            // SentencePiece vocabularies put a space before a text.
            assert!(
                spelled == input || spelled.strip_prefix(' ') == Some(input),
                "{input:?} is spelled {spelled:?}"
            );
            compared += 1;
        }
        assert!(compared > 10, "{} has {compared} cases", model.display());
        eprintln!("{}: {compared} texts", model.display());
    }
}

#[test]
fn overlong_words_are_tokenized_on_a_small_stack() {
    for model in vocabularies() {
        let vocab = load_vocab(&model).expect("a vocabulary");
        let text = "a".repeat(100_000);
        let tokenize = move || {
            let tokens = vocab
                .tokenize(&text, false, false)
                .expect("within the limit");
            let spelled = spell(&*vocab, &tokens, false);
            String::from_utf8_lossy(&spelled).trim_start().len()
        };
        let thread = std::thread::Builder::new()
            .stack_size(1 << 20)
            .spawn(tokenize)
            .expect("a thread");
        assert_eq!(thread.join().expect("no overflow"), 100_000);
    }
}

#[test]
fn a_text_that_cannot_fit_the_context_is_refused_with_its_size() {
    for model in vocabularies() {
        let vocab = load_vocab(&model).expect("a vocabulary");
        let text = " ".repeat(64 << 20);
        let error = vocab.tokenize(&text, false, false).expect_err("too large");
        let TokenizeError::TooLarge { bytes, limit } = error else {
            panic!("{error}");
        };
        assert_eq!(bytes, 64 << 20);
        assert!(limit >= vocab.context_length());
    }
}

#[test]
fn tokens_outside_of_the_vocabulary_are_no_tokens() {
    for model in vocabularies() {
        let vocab = load_vocab(&model).expect("a vocabulary");
        for token in [-1, i32::MIN, i32::MAX, vocab.n_vocab() as i32] {
            let mut bytes = Vec::new();
            vocab.piece(token, true, &mut bytes);
            assert!(
                bytes.is_empty()
                    && !vocab.is_eog(token)
                    && !vocab.is_control(token)
                    && !vocab.contains(token)
            );
        }
    }
}
