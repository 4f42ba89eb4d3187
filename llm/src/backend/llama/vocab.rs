//! The vocabulary inside a GGUF file. It reads immutable data, so sessions tokenize at the same
//! time.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::token::LlamaToken;
use llama_cpp_2::token_type::LlamaTokenAttr;

use super::ffi;
use super::tokenize::Tokenizer;
use crate::model::vocab::{GapMarks, TOOL_TEMPLATE, TokenizeError, Vocab};
use crate::protocol::Token;

pub(super) struct LlamaVocabulary {
    model: Arc<LlamaModel>,
    name: String,
    chat_template: Option<String>,
    tool_template: Option<String>,
    n_vocab: usize,
    context_length: usize,
    tokenizer: Tokenizer,
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
        let text_limit = context_length
            .saturating_mul(longest)
            .min(i32::MAX as usize);
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
            tokenizer: Tokenizer::new(Arc::clone(&model), path, text_limit),
            model,
        }
    }
}

impl Vocab for LlamaVocabulary {
    fn tokenize(
        &self,
        text: &str,
        add_special: bool,
        parse_special: bool,
    ) -> Result<Vec<Token>, TokenizeError> {
        self.tokenizer
            .tokenize(text, add_special, parse_special, &|| true)
    }

    fn tokenize_while(
        &self,
        text: &str,
        add_special: bool,
        parse_special: bool,
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<Token>, TokenizeError> {
        self.tokenizer
            .tokenize(text, add_special, parse_special, goes_on)
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
