//! `DetokenizerCalculator`: converts tokens to text, in whole characters.

use std::sync::Arc;

use graphmill_engine::{
    Calculator, Contract, Cx, Flow, In, NoOptions, OpenCx, Out, Res, Result, register,
};
use graphmill_llm::{Token, TokenLogprob, Vocab};

use super::by_prompt::{ChoiceStates, by_prompt};
use crate::llm::LanguageModel;
use crate::payload::{
    EchoedText, EchoedTokens, GenerationParams, LikelyToken, SpecialTokens, TextChunk, TextLogprob,
    TokenChunk,
};

/// Converts tokens to text.
///
/// A token's bytes need not be whole characters. Bytes that may still become a character are held
/// back, and invalid ones become U+FFFD, so any division of the tokens into chunks gives the same
/// text. Special tokens are left out, unless `PARAMS` asks for them: a request can ask for all of
/// them, and in chats the marks that later parsers need are kept. A chunk of tokens that completes
/// no character gives no packet, unless it is the last of its choice or the request asks for the
/// ids of tokens. `PARAMS` has a packet for each prompt, at its timestamp.
///
/// Log probabilities are passed on with the text of their tokens. Each gets its token's text, and
/// the place where it begins.
///
/// ```pbtxt
/// input_stream: "TOKENS:tokens"
/// input_stream: "PARAMS:params"
/// output_stream: "TEXT:text"
/// node {
///   calculator: "DetokenizerCalculator"
///   input_side_packet: "LLM_NODE_RESOURCES:llm"
///   input_stream: "TOKENS:tokens"
///   input_stream: "PARAMS:params"
///   output_stream: "TEXT:text"
/// }
/// ```
pub struct Detokenizer {
    model: Arc<LanguageModel>,
    choices: ChoiceStates<DecodedChoice>,
    special: SpecialTokens,
}

/// The state of a choice.
#[derive(Default)]
struct DecodedChoice {
    decoder: Utf8Decoder,
    /// Number of characters that were decoded.
    characters: usize,
    /// Log probabilities that wait for their text.
    logprobs: Vec<TextLogprob>,
}

/// The port handles of [`Detokenizer`].
#[derive(Copy, Clone, Debug)]
pub struct DetokenizerPorts {
    tokens: In<TokenChunk>,
    params: In<GenerationParams>,
    text: Out<TextChunk>,
    model: Res<LanguageModel>,
}

impl Calculator for Detokenizer {
    const NAME: &'static str = "DetokenizerCalculator";
    const DOC: &'static str = "Converts tokens to text, in whole characters.";
    type Options = NoOptions;
    type Ports = DetokenizerPorts;

    fn contract(c: &mut Contract, _: &NoOptions) -> DetokenizerPorts {
        c.policy(by_prompt());
        DetokenizerPorts {
            tokens: c.input("TOKENS"),
            params: c.optional("PARAMS"),
            text: c.output("TEXT"),
            model: c.resource("LLM_NODE_RESOURCES", None),
        }
    }

    fn open(_: &NoOptions, io: DetokenizerPorts, cx: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self {
            model: cx.resource(io.model),
            choices: ChoiceStates::default(),
            special: SpecialTokens::Skip,
        })
    }

    fn process(&mut self, io: DetokenizerPorts, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(params) = cx.get(io.params) {
            self.special = params.special_tokens;
        }
        let Some(chunk) = cx.take(io.tokens) else {
            return Ok(Flow::Continue);
        };
        let choices = &mut self.choices;
        let choice = choices.state(chunk.prompt, chunk.index, DecodedChoice::default);
        let vocab = &**self.model.vocab();
        let formats = self.model.formats();
        let spelled = |token| match self.special {
            SpecialTokens::Skip => false,
            SpecialTokens::Markers => formats.is_marker(token),
            SpecialTokens::Keep => true,
        };
        let text = choice.decode(vocab, &chunk, spelled);
        let echo = chunk.echo.map(|echo| Box::new(echoed(vocab, *echo)));
        let has_text = !text.is_empty() || chunk.finish.is_some();
        if has_text || echo.is_some() || !chunk.ids.is_empty() {
            let logprobs = if has_text {
                std::mem::take(&mut choice.logprobs)
            } else {
                Vec::new()
            };
            cx.emit(
                io.text,
                TextChunk {
                    prompt: chunk.prompt,
                    index: chunk.index,
                    echo,
                    text,
                    ids: chunk.ids,
                    logprobs,
                    finish: chunk.finish,
                    usage: chunk.usage,
                    stop: chunk.stop,
                    ..TextChunk::default()
                },
            );
        }
        Ok(Flow::Continue)
    }
}
register!(Detokenizer);

impl DecodedChoice {
    /// Returns the text that a chunk's tokens complete. `spelled` says which special tokens are
    /// part of it.
    fn decode(
        &mut self,
        vocab: &dyn Vocab,
        chunk: &TokenChunk,
        spelled: impl Fn(Token) -> bool,
    ) -> String {
        let mut text = String::new();
        let mut logprobs = chunk.logprobs.iter();
        for token in &chunk.tokens {
            if let Some(logprob) = logprobs.next() {
                self.note(vocab, *token, Some(logprob));
            }
            self.push(vocab, *token, spelled(*token), &mut text);
        }
        if chunk.finish.is_some() {
            self.finish(&mut text);
        }
        for logprob in logprobs {
            self.note(vocab, logprob.token, Some(logprob));
            if let Some(end) = self.logprobs.last_mut() {
                end.ends = true;
            }
        }
        text
    }

    /// Appends the text that one more token completes. A special token has text only if it is
    /// `spelled`.
    fn push(&mut self, vocab: &dyn Vocab, token: Token, spelled: bool, text: &mut String) {
        let mut bytes = Vec::new();
        vocab.piece(token, spelled, &mut bytes);
        let piece = self.decoder.push(&bytes);
        self.characters += piece.chars().count();
        text.push_str(&piece);
    }

    fn finish(&mut self, text: &mut String) {
        let rest = self.decoder.finish();
        self.characters += rest.chars().count();
        text.push_str(rest);
    }

    /// Keeps the log probability of the token that comes next.
    fn note(&mut self, vocab: &dyn Vocab, token: Token, logprob: Option<&TokenLogprob>) {
        let top = logprob.map_or(&[][..], |logprob| &logprob.top);
        self.logprobs.push(TextLogprob {
            token,
            special: vocab.is_special(token),
            offset: self.characters,
            bytes: spelling(vocab, token),
            logprob: logprob.map(|logprob| logprob.logprob),
            rank: logprob.and_then(|logprob| logprob.rank),
            top: top
                .iter()
                .map(|(token, logprob)| LikelyToken {
                    token: *token,
                    special: vocab.is_special(*token),
                    bytes: spelling(vocab, *token),
                    logprob: *logprob,
                })
                .collect(),
            ends: false,
        });
    }
}

/// Returns the text of a prompt. With log probabilities, its first token has an entry without one.
fn echoed(vocab: &dyn Vocab, echo: EchoedTokens) -> EchoedText {
    let mut prompt = DecodedChoice::default();
    let mut text = String::new();
    for (position, token) in echo.tokens.iter().enumerate() {
        if let Some(logprobs) = &echo.logprobs {
            let logprob = position.checked_sub(1).and_then(|at| logprobs.get(at));
            prompt.note(vocab, *token, logprob);
        }
        prompt.push(vocab, *token, false, &mut text);
    }
    prompt.finish(&mut text);
    EchoedText {
        text,
        tokens: echo.tokens,
        logprobs: prompt.logprobs,
    }
}

/// Returns the text of a token. Special tokens have one, too.
fn spelling(vocab: &dyn Vocab, token: Token) -> Vec<u8> {
    let mut bytes = Vec::new();
    vocab.piece(token, true, &mut bytes);
    bytes
}

/// A decoder of UTF-8 that comes in pieces. The joined texts of the pieces are equal to the lossy
/// decoding of the joined bytes.
#[derive(Debug, Default)]
pub struct Utf8Decoder {
    /// Beginning of a character: at most three bytes.
    pending: Vec<u8>,
}

impl Utf8Decoder {
    /// Adds bytes and returns the characters that are complete now.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        if self.pending.is_empty()
            && let Ok(text) = std::str::from_utf8(bytes)
        {
            return text.to_owned();
        }
        self.pending.extend_from_slice(bytes);
        let mut text = String::with_capacity(self.pending.len());
        let mut decoded = 0;
        for chunk in self.pending.utf8_chunks() {
            text.push_str(chunk.valid());
            decoded += chunk.valid().len();
            let invalid = chunk.invalid();
            let at_end = decoded + invalid.len() == self.pending.len();
            if at_end && is_incomplete(invalid) {
                break;
            }
            if !invalid.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
            decoded += invalid.len();
        }
        self.pending.drain(..decoded);
        text
    }

    /// Ends the text. Returns U+FFFD if a character was never completed, else nothing.
    pub fn finish(&mut self) -> &'static str {
        let left = !self.pending.is_empty();
        self.pending.clear();
        if left { "\u{FFFD}" } else { "" }
    }
}

/// Returns true if more bytes could complete a character.
fn is_incomplete(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Utf8Decoder;

    fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> String {
        let mut decoder = Utf8Decoder::default();
        let mut text: String = pieces
            .into_iter()
            .map(|piece| decoder.push(piece))
            .collect();
        text.push_str(decoder.finish());
        text
    }

    #[test]
    fn characters_are_never_split() {
        let mut decoder = Utf8Decoder::default();
        assert_eq!(decoder.push(b"a\xf0\x9f"), "a");
        assert_eq!(decoder.push(b"\x99"), "");
        assert_eq!(decoder.push(b"\x82b"), "🙂b");
        assert_eq!(decoder.push(b"\xff\xc3"), "\u{FFFD}");
        assert_eq!(decoder.finish(), "\u{FFFD}");
        assert_eq!(decoder.finish(), "");
    }

    proptest! {
        #[test]
        fn any_division_gives_the_same_text(
            bytes in prop_oneof![
                any::<String>().prop_map(String::into_bytes),
                prop::collection::vec(prop_oneof![any::<u8>(), 0x80u8..=0xf4], 0..40),
            ],
            cuts in prop::collection::vec(1usize..5, 1..40),
        ) {
            let mut rest = bytes.as_slice();
            let mut pieces = Vec::new();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, remainder) = rest.split_at((*cut).min(rest.len()));
                pieces.push(piece);
                rest = remainder;
            }
            prop_assert_eq!(decode(pieces), String::from_utf8_lossy(&bytes).into_owned());
        }
    }
}
