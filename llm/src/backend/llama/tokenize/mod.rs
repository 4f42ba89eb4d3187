//! Tokenization by llama.cpp.
//!
//! Some of llama.cpp's regular expressions recurse for each character of a word. A long word then
//! needs more stack than a thread has, and the work cannot be interrupted. So texts are tokenized
//! in pieces whose tokens are those of the whole, and long pieces on a stack of their own.

mod charsmap;
mod pieces;
mod specials;

use std::path::Path;
use std::sync::Arc;
use std::thread;

use llama_cpp_sys_2 as sys;

use self::charsmap::Charsmap;
use self::pieces::TextCuts;
use self::specials::{Specials, TextPart};
use super::ffi::Model;
use super::gguf;
use crate::memory_budget;
use crate::model::vocab::TokenizeError;
use crate::protocol::Token;

/// Maximum size of a piece that is tokenized on the caller's stack, in bytes.
const MOST_ON_CALLERS_STACK: usize = 1_024;
/// Stack that an expression takes per character, in bytes, measured with GCC on x86-64.
const TAKEN_OF_EACH: usize = 321;
/// Stack for each byte of a piece, in bytes. Doubled for other compilers.
const STACK_OF_EACH: usize = 2 * TAKEN_OF_EACH;
/// Size of the stack without any text, in bytes.
const STACK: usize = 512 << 10;

pub(super) struct LlamaTokenizer {
    model: Arc<Model>,
    specials: Specials,
    cuts: TextCuts,
    /// Set if words are found by regular expressions.
    has_expressions: bool,
    /// Maximum size of a text, in bytes.
    limit: usize,
}

impl LlamaTokenizer {
    /// Makes a tokenizer for the model of a file. Texts have at most `limit` bytes.
    pub(super) fn new(model: Arc<Model>, path: &Path, limit: usize) -> Self {
        let kind = model.vocab().kind();
        let has_expressions = kind == sys::LLAMA_VOCAB_TYPE_BPE;
        let entry = |key| model.metadata(key).unwrap_or_default();
        let adds_space = entry("tokenizer.ggml.add_space_prefix");
        let scored_tokens = || -> Vec<(String, f32)> {
            let vocab = model.vocab();
            let scored = |token| {
                let text = vocab.text(token)?.to_string_lossy().into_owned();
                Some((text, vocab.score(token)?))
            };
            vocab.tokens().filter_map(scored).collect()
        };
        let cuts = match kind {
            sys::LLAMA_VOCAB_TYPE_BPE => {
                TextCuts::byte_pair(&entry("tokenizer.ggml.model"), &entry("tokenizer.ggml.pre"))
            }
            sys::LLAMA_VOCAB_TYPE_WPM => TextCuts::word_piece(),
            sys::LLAMA_VOCAB_TYPE_SPM => {
                let tokens = scored_tokens();
                let texts = tokens.iter().map(|(text, _)| text.as_str());
                TextCuts::sentence_piece(texts, adds_space != "false")
            }
            sys::LLAMA_VOCAB_TYPE_UGM => {
                let tokens = scored_tokens();
                let tokens = tokens.iter().map(|(text, score)| (text.as_str(), *score));
                let charsmap = gguf::charsmap(path).ok().map(|map| Charsmap::new(&map));
                TextCuts::unigram(tokens, adds_space == "true", charsmap)
            }
            _ => TextCuts::NONE,
        };
        Self {
            specials: Specials::new(&model),
            cuts,
            has_expressions,
            limit,
            model,
        }
    }

    /// Tokenizes a text as llama.cpp does, and stops early once `goes_on` returns false.
    pub(super) fn tokenize(
        &self,
        text: &str,
        add_special: bool,
        parse_special: bool,
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<Token>, TokenizeError> {
        if text.len() > self.limit {
            return Err(TokenizeError::TooLarge {
                bytes: text.len(),
                limit: self.limit,
            });
        }
        let mut parts = Vec::new();
        for part in self.specials.split(text, parse_special) {
            match part {
                TextPart::Text(text) => {
                    parts.extend(self.cuts.cut(text)?.into_iter().map(TextPart::Text));
                }
                special @ TextPart::Special(_) => parts.push(special),
            }
        }
        let longest = parts.iter().map(TextPart::len).max().unwrap_or(0);
        let work = || self.join(&parts, add_special, parse_special, goes_on);
        if !self.has_expressions || longest <= MOST_ON_CALLERS_STACK {
            return work();
        }
        let _claim = memory_budget::claim((longest * TAKEN_OF_EACH) as u64)?;
        thread::scope(|scope| {
            let thread = thread::Builder::new().name("tokenizer".to_owned());
            let thread = thread.stack_size(STACK + longest * STACK_OF_EACH);
            let thread = thread
                .spawn_scoped(scope, work)
                .map_err(|error| TokenizeError::NoThread(error.to_string()))?;
            let ended = thread.join();
            ended.unwrap_or_else(|_| Err(TokenizeError::NoThread("panic".to_owned())))
        })
    }

    /// Tokenizes all parts, and adds the special tokens that the model wants around a text.
    fn join(
        &self,
        parts: &[TextPart<'_>],
        add_special: bool,
        parse_special: bool,
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<Token>, TokenizeError> {
        let mut tokens = Vec::new();
        if let [TextPart::Text(text)] = parts {
            self.append(text, add_special, parse_special, &mut tokens)?;
            return Ok(tokens);
        }
        let mut behind = Vec::new();
        if add_special {
            self.append("", true, false, &mut tokens)?;
            behind = tokens.split_off(self.tokens_before().min(tokens.len()));
        }
        for part in parts {
            if !goes_on() {
                return Err(TokenizeError::Cancelled);
            }
            match part {
                TextPart::Special(token) => tokens.push(*token),
                TextPart::Text(text) => self.append(text, false, parse_special, &mut tokens)?,
            }
        }
        tokens.append(&mut behind);
        Ok(tokens)
    }

    /// Returns the number of special tokens before a text.
    fn tokens_before(&self) -> usize {
        let vocab = self.model.vocab();
        let always = vocab.kind() == sys::LLAMA_VOCAB_TYPE_WPM;
        usize::from(always || vocab.adds_bos())
    }

    fn append(
        &self,
        text: &str,
        add_special: bool,
        parse_special: bool,
        tokens: &mut Vec<Token>,
    ) -> Result<(), TokenizeError> {
        let vocab = self.model.vocab();
        vocab
            .tokenize(text, add_special, parse_special, tokens)
            .ok_or(TokenizeError::NoTokens { bytes: text.len() })
    }
}
