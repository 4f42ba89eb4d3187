//! The vocabulary inside a GGUF file. It reads immutable data, so every session tokenizes on its
//! own thread.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::token::LlamaToken;
use llama_cpp_2::token_type::LlamaTokenAttr;
use llama_cpp_sys_2 as sys;

use super::ffi;
use crate::model::vocab::{GapMarks, TokenizeError, Vocab};
use crate::protocol::Token;

/// The longest run of characters of one class that is given to a byte-pair tokenizer at once. Some
/// of llama.cpp's pre-tokenizers are recursive regular expressions, which a longer run would take
/// beyond the thread's stack.
const MAX_RUN: usize = 1024;

pub(super) struct LlamaVocabulary {
    model: Arc<LlamaModel>,
    name: String,
    chat_template: Option<String>,
    tool_template: Option<String>,
    n_vocab: usize,
    context_length: usize,
    text_limit: usize,
    /// Whether long runs are cut, see [`MAX_RUN`].
    cuts_runs: bool,
}

impl LlamaVocabulary {
    pub(super) fn new(model: Arc<LlamaModel>, path: &Path, context_length: usize) -> Self {
        let vocab = model.vocab();
        let n_vocab = usize::try_from(vocab.n_tokens()).unwrap_or(0);
        let named = model
            .meta_val_str("general.name")
            .ok()
            .filter(|name| !name.is_empty());
        let chat_template = model.chat_template(None).ok();
        let mut piece = Vec::new();
        let mut longest = 1;
        for token in vocab.tokens() {
            piece.clear();
            vocab.token_to_piece_into(token, &mut piece, true, None);
            longest = longest.max(piece.len());
        }
        Self {
            name: named.unwrap_or_else(|| {
                path.file_stem()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned()
            }),
            chat_template: chat_template.and_then(|template| template.to_string().ok()),
            // Not by `chat_template`: with a name, the binding has llama.cpp read it after it is
            // freed.
            tool_template: model.meta_val_str(TOOL_TEMPLATE).ok(),
            n_vocab,
            context_length,
            text_limit: context_length
                .saturating_mul(longest)
                .min(i32::MAX as usize),
            cuts_runs: ffi::vocabulary_kind(&model) == sys::LLAMA_VOCAB_TYPE_BPE,
            model,
        }
    }

    fn tokenize_part(
        &self,
        text: &str,
        add_special: bool,
        parse_special: bool,
        tokens: &mut Vec<Token>,
    ) -> Result<(), TokenizeError> {
        let done = ffi::tokenize(&self.model, text, add_special, parse_special, tokens);
        done.ok_or(TokenizeError {
            bytes: text.len(),
            limit: self.text_limit,
        })
    }
}

/// Where a model has its chat template for requests with tools, if that is a separate one.
const TOOL_TEMPLATE: &str = "tokenizer.chat_template.tool_use";

impl Vocab for LlamaVocabulary {
    fn tokenize(
        &self,
        text: &str,
        add_special: bool,
        parse_special: bool,
    ) -> Result<Vec<Token>, TokenizeError> {
        if text.len() > self.text_limit {
            return Err(TokenizeError {
                bytes: text.len(),
                limit: self.text_limit,
            });
        }
        let mut tokens = Vec::new();
        let cut = if self.cuts_runs {
            next_cut(text)
        } else {
            text.len()
        };
        if cut == text.len() {
            self.tokenize_part(text, add_special, parse_special, &mut tokens)?;
            return Ok(tokens);
        }
        let vocab = self.model.vocab();
        if add_special && vocab.should_add_bos() {
            tokens.extend(self.bos());
        }
        let mut rest = text;
        while !rest.is_empty() {
            let (part, tail) = rest.split_at(next_cut(rest));
            self.tokenize_part(part, false, parse_special, &mut tokens)?;
            rest = tail;
        }
        if add_special && vocab.should_add_eos() {
            tokens.extend(self.eos());
        }
        Ok(tokens)
    }

    fn piece(&self, token: Token, special: bool, out: &mut Vec<u8>) {
        if self.contains(token) {
            self.model
                .vocab()
                .token_to_piece_into(LlamaToken(token), out, special, None);
        }
    }

    fn is_eog(&self, token: Token) -> bool {
        self.contains(token) && self.model.vocab().is_eog(LlamaToken(token))
    }

    fn is_control(&self, token: Token) -> bool {
        self.contains(token) && self.model.vocab().is_control(LlamaToken(token))
    }

    fn is_special(&self, token: Token) -> bool {
        let special =
            LlamaTokenAttr::Control | LlamaTokenAttr::UserDefined | LlamaTokenAttr::Unknown;
        self.contains(token)
            && self
                .model
                .vocab()
                .attr(LlamaToken(token))
                .intersects(special)
    }

    fn bos(&self) -> Option<Token> {
        Some(self.model.vocab().bos().0).filter(|token| self.contains(*token))
    }

    fn eos(&self) -> Option<Token> {
        Some(self.model.vocab().eos().0).filter(|token| self.contains(*token))
    }

    fn gap_marks(&self) -> Option<GapMarks> {
        let marks = ffi::gap_tokens(&self.model);
        let [before, after, gap] = marks;
        marks
            .iter()
            .all(|token| self.contains(*token))
            .then_some(GapMarks { before, after, gap })
    }

    fn pad(&self) -> Option<Token> {
        let pad = Some(self.model.vocab().pad().0).filter(|token| self.contains(*token));
        pad.or_else(|| self.eos())
    }

    fn chat_template(&self, name: Option<&str>) -> Option<&str> {
        match name {
            None => self.chat_template.as_deref(),
            Some(TOOL_TEMPLATE) => self.tool_template.as_deref(),
            Some(_) => None,
        }
    }

    fn n_vocab(&self) -> usize {
        self.n_vocab
    }

    fn context_length(&self) -> usize {
        self.context_length
    }

    fn model_name(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for LlamaVocabulary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LlamaVocabulary")
            .field("name", &self.name)
            .field("n_vocab", &self.n_vocab)
            .finish_non_exhaustive()
    }
}

/// Where the first overlong run is cut: the byte index after its first [`MAX_RUN`] characters, or
/// the text's end.
fn next_cut(text: &str) -> usize {
    let class = |character: char| (character.is_alphanumeric(), character.is_whitespace());
    let mut run = 0;
    let mut of = None;
    for (index, character) in text.char_indices() {
        if of == Some(class(character)) {
            run += 1;
            if run == MAX_RUN {
                return index;
            }
        } else {
            of = Some(class(character));
            run = 0;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_overlong_runs_are_cut() {
        let words = "word ".repeat(5_000);
        assert_eq!(next_cut(&words), words.len());
        let monster = format!("a {}", "é".repeat(3 * MAX_RUN));
        assert_eq!(next_cut(&monster), 2 + 2 * MAX_RUN);
    }
}
