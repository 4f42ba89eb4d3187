//! The vocabulary as sessions see it: shared between threads, independent of the engine thread.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::protocol::{LoadError, OutOfMemory, Token};

/// Metadata key of the separate chat template for requests with tools.
pub(crate) const TOOL_TEMPLATE: &str = "tokenizer.chat_template.tool_use";

/// A model's vocabulary and the texts stored with it.
pub trait Vocab: Send + Sync + fmt::Debug {
    /// Turns text into tokens. `add_special` adds what the model wants around a text (a begin
    /// token, mostly); `parse_special` reads the spelling of special tokens in `text` as these
    /// tokens, so it is for prompts that a template made, not for what a user typed.
    ///
    /// # Errors
    /// [`TokenizeError`] if the text is more than the tokenizer can take.
    fn tokenize(
        &self,
        text: &str,
        add_special: bool,
        parse_special: bool,
    ) -> Result<Vec<Token>, TokenizeError>;

    /// As [`Self::tokenize`], and gives up when `goes_on` is false, which it asks from time to
    /// time.
    ///
    /// # Errors
    /// Those of [`Self::tokenize`], and [`TokenizeError::Cancelled`].
    fn tokenize_while(
        &self,
        text: &str,
        add_special: bool,
        parse_special: bool,
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<Token>, TokenizeError> {
        if !goes_on() {
            return Err(TokenizeError::Cancelled);
        }
        self.tokenize(text, add_special, parse_special)
    }

    /// Appends the bytes of a token, which need not be whole characters. Special tokens have bytes
    /// only with `special`.
    fn piece(&self, token: Token, special: bool, out: &mut Vec<u8>);

    /// Whether the token ends a generation.
    fn is_eog(&self, token: Token) -> bool;

    /// Whether the token steers the model and is not text.
    fn is_control(&self, token: Token) -> bool;

    /// Whether the token's spelling is read as this token alone where special tokens are read, so
    /// that no other token goes across its ends: control tokens, and words that were added to the
    /// vocabulary.
    fn is_special(&self, token: Token) -> bool {
        self.is_control(token)
    }

    /// The token that begins a text, if the model has one.
    fn bos(&self) -> Option<Token>;

    /// The token that ends a text, if the model has one.
    fn eos(&self) -> Option<Token>;

    /// The token that fills lists of tokens up to a length: the model's own, or else the one that
    /// ends a text.
    fn pad(&self) -> Option<Token> {
        self.eos()
    }

    /// The tokens that mark a text with a gap, if the model was trained to fill gaps.
    fn gap_marks(&self) -> Option<GapMarks> {
        None
    }

    /// The chat template stored with the model: the default one, or the one called `name`.
    fn chat_template(&self, name: Option<&str>) -> Option<&str>;

    /// Number of tokens in the vocabulary.
    fn n_vocab(&self) -> usize;

    /// Tokens a sequence can have, prompt and generated together.
    fn context_length(&self) -> usize;

    /// The model's name, as stored in the file or else the file's name.
    fn model_name(&self) -> &str;

    /// Whether the token exists.
    fn contains(&self, token: Token) -> bool {
        usize::try_from(token).is_ok_and(|token| token < self.n_vocab())
    }

    /// How the begin token is written in templates; empty if there is none.
    fn bos_text(&self) -> String {
        special_text(self, self.bos())
    }

    /// How the end token is written in templates; empty if there is none.
    fn eos_text(&self) -> String {
        special_text(self, self.eos())
    }
}

/// Tokens that mark the parts of a text with a gap. A model that fills it generates after `gap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GapMarks {
    /// Before what comes before the gap.
    pub before: Token,
    /// Before what comes after it.
    pub after: Token,
    /// Before what fills it.
    pub gap: Token,
    /// Before the name of a repository, if the model was trained with whole ones.
    pub repository: Option<Token>,
    /// Before the name of each of its files, likewise.
    pub file: Option<Token>,
}

/// Text that is not part of the one with the gap, such as another file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedText {
    /// Its name.
    pub name: String,
    /// The text.
    pub text: String,
}

/// The name of every repository, as llama-server has it.
const REPOSITORY: &str = "myproject\n";
/// The name of the file with the gap, likewise.
const FILE: &str = "filename\n";
/// Before each text of the context where the model has no mark for files, likewise.
const SNIPPET: &str = "\n\n--- snippet ---\n\n";

impl GapMarks {
    /// The prompt after which a model fills the gap between two texts, behind those of its context.
    ///
    /// # Errors
    /// [`TokenizeError`] if a text is more than the tokenizer can take, or `goes_on` is false.
    pub fn prompt<V: Vocab + ?Sized>(
        self,
        vocab: &V,
        context: &[NamedText],
        (before, after): (&str, &str),
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<Token>, TokenizeError> {
        let mut prompt = vocab.tokenize("", true, false)?;
        // What the model wants around a text: its beginning at most, as the text goes on here.
        prompt.retain(|token| Some(*token) == vocab.bos());
        let mut add = |mark: Option<Token>, text: &str| -> Result<(), TokenizeError> {
            prompt.extend(mark);
            prompt.extend(vocab.tokenize_while(text, false, false, goes_on)?);
            Ok(())
        };
        if !context.is_empty() && self.repository.is_some() {
            add(self.repository, REPOSITORY)?;
        }
        for NamedText { name, text } in context {
            match self.file {
                Some(_) => add(self.file, &format!("{name}\n"))?,
                None => add(None, SNIPPET)?,
            }
            add(None, text)?;
        }
        if !context.is_empty() && self.file.is_some() {
            add(self.file, FILE)?;
        }
        add(Some(self.before), before)?;
        add(Some(self.after), after)?;
        prompt.push(self.gap);
        Ok(prompt)
    }
}

fn special_text<V: Vocab + ?Sized>(vocab: &V, token: Option<Token>) -> String {
    let mut bytes = Vec::new();
    if let Some(token) = token {
        vocab.piece(token, true, &mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Refuses a draft model that has other tokens than the main model.
pub(crate) fn check_vocabulary(main: &dyn Vocab, draft: &dyn Vocab) -> Result<(), LoadError> {
    match difference(main, draft) {
        None => Ok(()),
        Some(difference) => Err(LoadError::Spec {
            field: "draft_models_path",
            message: format!("names a model with another vocabulary: {difference}"),
        }),
    }
}

/// Refuses a model that was loaded again, and differs in this from what sessions know.
pub(crate) fn check_loaded_again(
    model: &Path,
    difference: Option<String>,
) -> Result<(), LoadError> {
    match difference {
        None => Ok(()),
        Some(difference) => Err(LoadError::Model {
            path: model.to_owned(),
            message: format!("the file is another one than at the start: {difference}"),
        }),
    }
}

/// Tokens that one of two vocabularies may have more: some models of a family have a few unused
/// ones at the end.
const MAX_UNUSED: usize = 128;

/// The first difference between the vocabulary of a model and that of another one that drafts for
/// it; `None` if a token of the one means the same for the other. One of them may have a few tokens
/// more.
pub(crate) fn difference(main: &dyn Vocab, draft: &dyn Vocab) -> Option<String> {
    let (tokens, draft_tokens) = (main.n_vocab(), draft.n_vocab());
    if tokens.abs_diff(draft_tokens) > MAX_UNUSED {
        return Some(format!(
            "it has {draft_tokens} tokens, and the model has {tokens}"
        ));
    }
    for (name, token, draft_token) in [
        ("begins", main.bos(), draft.bos()),
        ("ends", main.eos(), draft.eos()),
    ] {
        if token != draft_token {
            let words = |token: Option<Token>| {
                token.map_or("no token".to_owned(), |token| format!("token {token}"))
            };
            let (ours, theirs) = (words(token), words(draft_token));
            return Some(format!(
                "a text {name} with {theirs}, and with {ours} for the model"
            ));
        }
    }
    let (mut piece, mut draft_piece) = (Vec::new(), Vec::new());
    for token in 0..tokens.min(draft_tokens) as Token {
        piece.clear();
        draft_piece.clear();
        main.piece(token, true, &mut piece);
        draft.piece(token, true, &mut draft_piece);
        if piece != draft_piece {
            return Some(format!(
                "token {token} is `{}`, and `{}` for the model",
                draft_piece.escape_ascii(),
                piece.escape_ascii()
            ));
        }
        if main.is_eog(token) != draft.is_eog(token) {
            return Some(format!(
                "token {token} (`{}`) ends a text for one of them only",
                piece.escape_ascii()
            ));
        }
    }
    None
}

/// Error of a text that is not tokenized.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenizeError {
    /// More text than the context can have.
    #[error("a text of {bytes} bytes is too large to tokenize; the limit is {limit} bytes")]
    TooLarge {
        /// Size of the text.
        bytes: usize,
        /// The largest size that is accepted.
        limit: usize,
    },
    /// A part of the text that has to be tokenized at once is too large for that.
    #[error(
        "{bytes} bytes of the text are one piece for this model's tokenizer, which takes {limit} at most: shorten the text, or end lines, sentences or words in it sooner"
    )]
    Uncut {
        /// Size of the part.
        bytes: usize,
        /// The largest size that is accepted.
        limit: usize,
    },
    /// A run of characters of one kind is too long.
    #[error(
        "the text has more than {limit} {kind} in a row, which this model's tokenizer does not take"
    )]
    Run {
        /// Their kind, in the plural.
        kind: &'static str,
        /// Maximum number of them in a row.
        limit: usize,
    },
    /// A damaged vocabulary has no tokens for something in the text.
    #[error(
        "a text of {bytes} bytes cannot be tokenized: the model's vocabulary has no tokens for it"
    )]
    NoTokens {
        /// Size of the text.
        bytes: usize,
    },
    /// Nobody waits for the tokens any more.
    #[error("the request was cancelled")]
    Cancelled,
    /// Memory is short; trying again later can help.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// There is no thread to tokenize on.
    #[error("the text cannot be tokenized: {0}")]
    NoThread(String),
}
