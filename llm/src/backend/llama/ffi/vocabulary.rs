//! The vocabulary of a loaded model.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::ops::Range;

use llama_cpp_sys_2 as sys;

use super::{Model, guard};
use crate::protocol::Token;

/// The tokens of a model, which it borrows. Its functions check that a token is in
/// [`tokens`](Self::tokens); for others llama.cpp would throw an exception.
#[derive(Clone, Copy)]
pub(crate) struct Vocabulary<'a> {
    raw: *const sys::llama_vocab,
    n_tokens: Token,
    model: PhantomData<&'a Model>,
}

impl Model {
    /// Returns the vocabulary of the model.
    pub(crate) fn vocab(&self) -> Vocabulary<'_> {
        // SAFETY: the model is alive, its vocabulary lives as long, and is never null.
        let (raw, n_tokens) = unsafe {
            let raw = sys::llama_model_get_vocab(self.as_ptr());
            (raw, sys::llama_vocab_n_tokens(raw))
        };
        Vocabulary {
            raw,
            n_tokens,
            model: PhantomData,
        }
    }

    /// Number of tokens, and of logits in a row.
    pub(crate) fn n_vocab(&self) -> u32 {
        u32::try_from(self.vocab().n_tokens).unwrap_or(0)
    }
}

impl<'a> Vocabulary<'a> {
    /// The range of all tokens, from 0.
    pub(crate) fn tokens(self) -> Range<Token> {
        0..self.n_tokens
    }

    /// The kind of tokenizer, one of llama.cpp's constants.
    pub(crate) fn kind(self) -> sys::llama_vocab_type {
        // SAFETY: the vocabulary is alive.
        unsafe { sys::llama_vocab_type(self.raw) }
    }

    fn known(self, token: Token) -> Option<Token> {
        self.tokens().contains(&token).then_some(token)
    }

    /// Returns the spelling of a token in the file.
    pub(crate) fn text(self, token: Token) -> Option<&'a CStr> {
        let token = self.known(token)?;
        // SAFETY: the vocabulary is alive for 'a and has the token, whose text ends with a NUL and
        // lives as long.
        Some(unsafe { CStr::from_ptr(sys::llama_vocab_get_text(self.raw, token)) })
    }

    /// Returns the score of a token in the tokenizer.
    pub(crate) fn score(self, token: Token) -> Option<f32> {
        let token = self.known(token)?;
        // SAFETY: the vocabulary is alive and has the token.
        Some(unsafe { sys::llama_vocab_get_score(self.raw, token) })
    }

    /// Returns true if a token has any of these attributes.
    pub(crate) fn has(self, token: Token, attributes: sys::llama_token_attr) -> bool {
        // SAFETY: the vocabulary is alive and has the token.
        let has = |token| unsafe { sys::llama_vocab_get_attr(self.raw, token) } & attributes != 0;
        self.known(token).is_some_and(has)
    }

    /// Returns true if a token ends a generation.
    pub(crate) fn is_eog(self, token: Token) -> bool {
        // SAFETY: the vocabulary is alive and has the token.
        let is_eog = |token| unsafe { sys::llama_vocab_is_eog(self.raw, token) };
        self.known(token).is_some_and(is_eog)
    }

    /// Appends the bytes of a token; those of special tokens only if `special`.
    pub(crate) fn append_piece(self, token: Token, special: bool, out: &mut Vec<u8>) {
        let Some(token) = self.known(token) else {
            return;
        };
        let mut room = 0;
        loop {
            out.reserve(room);
            let free = out.spare_capacity_mut();
            let capacity = i32::try_from(free.len()).unwrap_or(i32::MAX);
            // SAFETY: the vocabulary is alive and has the token; llama.cpp writes no more than
            // `capacity` bytes.
            let written = unsafe {
                let bytes = free.as_mut_ptr().cast();
                sys::llama_token_to_piece(self.raw, token, bytes, capacity, 0, special)
            };
            match usize::try_from(written) {
                Ok(written) => {
                    // SAFETY: llama.cpp has written so many bytes behind those there were.
                    unsafe { out.set_len(out.len() + written) };
                    return;
                }
                // The number of bytes that are needed.
                Err(_) => room = written.unsigned_abs() as usize,
            }
        }
    }

    /// Appends the tokens of a text; `None` if the vocabulary has no tokens for it although it
    /// should.
    pub(crate) fn tokenize(
        self,
        text: &str,
        add_special: bool,
        parse_special: bool,
        tokens: &mut Vec<Token>,
    ) -> Option<()> {
        let mut room = text.len() / 2 + 8;
        loop {
            tokens.reserve(room);
            let free = tokens.spare_capacity_mut();
            // SAFETY: the vocabulary is alive.
            let written =
                unsafe { guard::tokenize(self.raw, text, free, add_special, parse_special)? };
            match usize::try_from(written) {
                Ok(written) => {
                    // SAFETY: llama.cpp has written so many tokens behind those there were.
                    unsafe { tokens.set_len(tokens.len() + written) };
                    return Some(());
                }
                // The number of tokens that are needed.
                Err(_) => room = written.unsigned_abs() as usize,
            }
        }
    }
}

/// Functions that return a special token; `None` if the vocabulary lacks it.
macro_rules! special_tokens {
    ($($(#[$doc:meta])* $name:ident: $call:ident;)*) => {
        impl Vocabulary<'_> {
            $(
                $(#[$doc])*
                pub(crate) fn $name(self) -> Option<Token> {
                    // SAFETY: the vocabulary is alive.
                    self.known(unsafe { sys::$call(self.raw) })
                }
            )*
        }
    };
}

special_tokens! {
    /// The token that begins a text.
    bos: llama_vocab_bos;
    /// The token that ends a text.
    eos: llama_vocab_eos;
    /// The token between two texts.
    sep: llama_vocab_sep;
    /// The token that fills up a batch.
    pad: llama_vocab_pad;
    /// The token that marks the text before a gap.
    before_gap: llama_vocab_fim_pre;
    /// The token that marks the text behind a gap.
    after_gap: llama_vocab_fim_suf;
    /// The token that marks the text in a gap.
    gap: llama_vocab_fim_mid;
    /// The token that marks the name of a repository.
    repository: llama_vocab_fim_rep;
    /// The token that marks the name of a file in a repository.
    file: llama_vocab_fim_sep;
}

impl Vocabulary<'_> {
    /// Returns true if a text begins with [`bos`](Self::bos).
    pub(crate) fn adds_bos(self) -> bool {
        // SAFETY: the vocabulary is alive.
        unsafe { sys::llama_vocab_get_add_bos(self.raw) }
    }

    /// Returns true if a text ends with [`eos`](Self::eos).
    pub(crate) fn adds_eos(self) -> bool {
        // SAFETY: the vocabulary is alive.
        unsafe { sys::llama_vocab_get_add_eos(self.raw) }
    }

    /// Returns true if [`sep`](Self::sep) is between two texts.
    pub(crate) fn adds_sep(self) -> bool {
        // SAFETY: the vocabulary is alive.
        unsafe { sys::llama_vocab_get_add_sep(self.raw) }
    }
}

/// Tokens have the same size here and in llama.cpp.
const _: () = assert!(size_of::<Token>() == size_of::<sys::llama_token>());
