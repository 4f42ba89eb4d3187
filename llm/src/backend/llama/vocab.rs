//! The vocabulary of a GGUF file. It reads immutable data, so sessions can tokenize concurrently.

use std::path::Path;
use std::sync::Arc;

use llama_cpp_sys_2 as sys;

use super::ffi::Model;
use super::tokenize::LlamaTokenizer;
use crate::debug::show_fields;
use crate::model::vocab::{GapMarks, TOOL_TEMPLATE, TokenizeError, Vocab};
use crate::protocol::Token;

pub(super) struct LlamaVocabulary {
    model: Arc<Model>,
    name: String,
    chat_template: Option<String>,
    tool_template: Option<String>,
    n_vocab: usize,
    context_length: usize,
    tokenizer: LlamaTokenizer,
}

impl LlamaVocabulary {
    pub(super) fn new(model: Arc<Model>, path: &Path, context_length: usize) -> Self {
        let vocab = model.vocab();
        let n_vocab = model.n_vocab() as usize;
        let named = model.metadata("general.name").filter(|it| !it.is_empty());
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let mut piece = Vec::new();
        let mut longest = 1;
        for token in vocab.tokens() {
            piece.clear();
            vocab.append_piece(token, true, &mut piece);
            longest = longest.max(piece.len());
        }
        let text_limit = context_length
            .saturating_mul(longest)
            .min(i32::MAX as usize);
        Self {
            name: named.unwrap_or_else(|| stem.into_owned()),
            chat_template: model.chat_template().map(str::to_owned),
            tool_template: model.metadata(TOOL_TEMPLATE),
            n_vocab,
            context_length,
            tokenizer: LlamaTokenizer::new(Arc::clone(&model), path, text_limit),
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
        self.tokenize_while(text, add_special, parse_special, &|| true)
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
        self.model.vocab().append_piece(token, special, out);
    }

    fn is_eog(&self, token: Token) -> bool {
        self.model.vocab().is_eog(token)
    }

    fn is_control(&self, token: Token) -> bool {
        self.model.vocab().has(token, sys::LLAMA_TOKEN_ATTR_CONTROL)
    }

    fn is_special(&self, token: Token) -> bool {
        let special = sys::LLAMA_TOKEN_ATTR_CONTROL
            | sys::LLAMA_TOKEN_ATTR_USER_DEFINED
            | sys::LLAMA_TOKEN_ATTR_UNKNOWN;
        self.model.vocab().has(token, special)
    }

    fn bos(&self) -> Option<Token> {
        self.model.vocab().bos()
    }

    fn eos(&self) -> Option<Token> {
        self.model.vocab().eos()
    }

    fn gap_marks(&self) -> Option<GapMarks> {
        let vocab = self.model.vocab();
        Some(GapMarks {
            before: vocab.before_gap()?,
            after: vocab.after_gap()?,
            gap: vocab.gap()?,
            repository: vocab.repository(),
            file: vocab.file(),
        })
    }

    fn pad(&self) -> Option<Token> {
        self.model.vocab().pad().or_else(|| self.eos())
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

show_fields!(LlamaVocabulary { name, n_vocab });
