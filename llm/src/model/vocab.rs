//! The vocabulary for sessions: shared between threads, independent of the engine thread.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::protocol::{LoadError, OutOfMemory, Token};

/// Metadata key of the separate chat template for requests with tools.
pub(crate) const TOOL_TEMPLATE: &str = "tokenizer.chat_template.tool_use";

/// A model's vocabulary and the texts stored with it.
pub trait Vocab: Send + Sync + fmt::Debug {
    /// Converts text to tokens. `add_special` adds the tokens that the model expects around a text,
    /// usually a begin token. `parse_special` recognizes the spelling of special tokens in `text`,
    /// so it is for prompts from a template, not for text of a user.
    ///
    /// # Errors
    /// [`TokenizeError`] if the text is more than the tokenizer can take.
    fn tokenize(
        &self,
        text: &str,
        add_special: bool,
        parse_special: bool,
    ) -> Result<Vec<Token>, TokenizeError>;

    /// Converts text as [`Self::tokenize`] does, and stops once `goes_on` returns false. It is
    /// called from time to time.
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

    /// Appends the bytes of a token, which may be an incomplete character. Special tokens have
    /// bytes only with `special`.
    fn piece(&self, token: Token, special: bool, out: &mut Vec<u8>);

    /// Returns true if the token ends a generation.
    fn is_eog(&self, token: Token) -> bool;

    /// Returns true if the token steers the model and is not text.
    fn is_control(&self, token: Token) -> bool;

    /// Returns true if the token's spelling is always this token alone where special tokens are
    /// read, so that no other token crosses its ends. Such are control tokens, and words that were
    /// added to the vocabulary.
    fn is_special(&self, token: Token) -> bool {
        self.is_control(token)
    }

    /// The token that begins a text, if the model has one.
    fn bos(&self) -> Option<Token>;

    /// The token that ends a text, if the model has one.
    fn eos(&self) -> Option<Token>;

    /// The token that pads lists of tokens to a length: the model's own, or else the one that ends
    /// a text.
    fn pad(&self) -> Option<Token> {
        self.eos()
    }

    /// The tokens that mark a text with a gap; `None` if the model was not trained to fill gaps.
    fn gap_marks(&self) -> Option<GapMarks> {
        None
    }

    /// The chat template stored with the model: the default one, or the one with this `name`.
    fn chat_template(&self, name: Option<&str>) -> Option<&str>;

    /// Number of tokens in the vocabulary.
    fn n_vocab(&self) -> usize;

    /// Maximum number of tokens of a sequence, prompt and generated together.
    fn context_length(&self) -> usize;

    /// The model's name in its file, or else the file's name.
    fn model_name(&self) -> &str;

    /// Returns true if the vocabulary has the token.
    fn contains(&self, token: Token) -> bool {
        usize::try_from(token).is_ok_and(|token| token < self.n_vocab())
    }

    /// Spelling of the begin token in templates; empty if there is none.
    fn bos_text(&self) -> String {
        special_text(self, self.bos())
    }

    /// Spelling of the end token in templates; empty if there is none.
    fn eos_text(&self) -> String {
        special_text(self, self.eos())
    }
}

/// Tokens that mark the parts of a text with a gap. A model generates the missing text after `gap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GapMarks {
    /// Mark before the text that precedes the gap.
    pub before: Token,
    /// Mark before the text that follows the gap.
    pub after: Token,
    /// Mark before the text that fills the gap.
    pub gap: Token,
    /// Mark before the name of a repository; `None` if the model was not trained with repositories.
    pub repository: Option<Token>,
    /// Mark before the name of each file of a repository; `None` as for `repository`.
    pub file: Option<Token>,
}

/// Text outside the one with the gap, such as another file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedText {
    /// Name of the file or other source.
    pub name: String,
    /// Content of the file or other source.
    pub text: String,
}

/// The name of every repository, as in llama-server.
const REPOSITORY: &str = "myproject\n";
/// The name of the file with the gap, as in llama-server.
const FILE: &str = "filename\n";
/// Text before each part of the context if the model has no mark for files, as in llama-server.
const SNIPPET: &str = "\n\n--- snippet ---\n\n";

impl GapMarks {
    /// Builds the prompt after which a model fills the gap between two texts. The texts of the
    /// context come first.
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
        // Of the tokens around a text, only the begin token is wanted, because the text continues
        // here.
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

/// Refuses a draft model whose tokens differ from the main model's.
pub(crate) fn check_vocabulary(main: &dyn Vocab, draft: &dyn Vocab) -> Result<(), LoadError> {
    if let Some(difference) = difference(main, draft) {
        let message = format!("names a model with another vocabulary: {difference}");
        return Err(LoadError::spec("draft_models_path", message));
    }
    Ok(())
}

/// Refuses a reloaded model with this difference, because sessions rely on the old vocabulary.
pub(crate) fn check_loaded_again(
    model: &Path,
    difference: Option<String>,
) -> Result<(), LoadError> {
    if let Some(difference) = difference {
        let message = format!("the file differs from the one loaded at the start: {difference}");
        return Err(LoadError::model(model, message));
    }
    Ok(())
}

/// Maximum difference in the number of tokens. Some models of a family have a few unused tokens at
/// the end.
const MAX_UNUSED: usize = 128;

/// Finds the first difference between the vocabularies of a model and its draft model; `None` if
/// each token means the same in both. One of them may have a few more tokens.
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

/// Cause of a text that was not tokenized.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenizeError {
    /// The text is larger than any context.
    #[error("a text of {bytes} bytes is too large to tokenize; the limit is {limit} bytes")]
    TooLarge {
        /// Size of the text, in bytes.
        bytes: usize,
        /// Maximum size of a text, in bytes.
        limit: usize,
    },
    /// A part of the text that must be tokenized at once is too large.
    #[error(
        "{bytes} bytes of the text are one piece for this model's tokenizer, the limit is {limit} bytes: shorten the text, or use shorter lines, sentences or words"
    )]
    Uncut {
        /// Size of the part, in bytes.
        bytes: usize,
        /// Maximum size of such a part, in bytes.
        limit: usize,
    },
    /// The text has too many characters of one kind in a row.
    #[error("the text has more than {limit} {kind} in a row, the limit of this model's tokenizer")]
    Run {
        /// Kind of the characters, in the plural.
        kind: &'static str,
        /// Maximum number of such characters in a row.
        limit: usize,
    },
    /// The vocabulary is damaged: it has no tokens for a part of the text.
    #[error(
        "a text of {bytes} bytes cannot be tokenized: the model's vocabulary has no tokens for it"
    )]
    NoTokens {
        /// Size of the text, in bytes.
        bytes: usize,
    },
    /// The caller no longer waits for the tokens.
    #[error("the request was cancelled")]
    Cancelled,
    /// There is too little free memory; a later attempt may succeed.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// No thread could be started to tokenize on.
    #[error("the text cannot be tokenized: {0}")]
    NoThread(String),
}
