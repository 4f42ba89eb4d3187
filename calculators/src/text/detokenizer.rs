//! `DetokenizerCalculator`: tokens to text, whole characters at a time.

use std::sync::Arc;

use graphmill_engine::{
    Calculator, Contract, Cx, Flow, In, NoOptions, OpenCx, Out, Res, Result, register,
};

use crate::llm::LanguageModel;
use crate::payload::{TextChunk, TokenChunk};

/// Makes text of tokens.
///
/// A token's bytes need not be whole characters: what could still become one is held back, what cannot becomes U+FFFD, so
/// that any division of the tokens into chunks gives the same text. Special tokens are left out. A chunk of tokens that
/// completes no character gives no packet, unless it is the last of its choice.
///
/// ```pbtxt
/// input_stream: "TOKENS:tokens"
/// output_stream: "TEXT:text"
/// node {
///   calculator: "DetokenizerCalculator"
///   input_side_packet: "LLM_NODE_RESOURCES:llm"
///   input_stream: "TOKENS:tokens"
///   output_stream: "TEXT:text"
/// }
/// ```
pub struct Detokenizer {
    model: Arc<LanguageModel>,
    /// By choice.
    decoders: Vec<Utf8Decoder>,
    bytes: Vec<u8>,
}

/// The ports of [`Detokenizer`].
#[derive(Copy, Clone, Debug)]
pub struct DetokenizerPorts {
    tokens: In<TokenChunk>,
    text: Out<TextChunk>,
    model: Res<LanguageModel>,
}

impl Calculator for Detokenizer {
    const NAME: &'static str = "DetokenizerCalculator";
    const DOC: &'static str = "Makes text of tokens, whole characters at a time.";
    type Options = NoOptions;
    type Ports = DetokenizerPorts;

    fn contract(c: &mut Contract, _: &NoOptions) -> DetokenizerPorts {
        DetokenizerPorts {
            tokens: c.input("TOKENS"),
            text: c.output("TEXT"),
            model: c.resource("LLM_NODE_RESOURCES", None),
        }
    }

    fn open(_: &NoOptions, io: DetokenizerPorts, cx: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self {
            model: cx.resource(io.model),
            decoders: Vec::new(),
            bytes: Vec::new(),
        })
    }

    fn process(&mut self, io: DetokenizerPorts, cx: &mut Cx<'_>) -> Result<Flow> {
        let Some(chunk) = cx.take(io.tokens) else {
            return Ok(Flow::Continue);
        };
        let choice = chunk.index as usize;
        if self.decoders.len() <= choice {
            self.decoders.resize_with(choice + 1, Utf8Decoder::default);
        }
        self.bytes.clear();
        for token in &chunk.tokens {
            self.model.vocab().piece(*token, false, &mut self.bytes);
        }
        let decoder = &mut self.decoders[choice];
        let mut text = decoder.push(&self.bytes);
        if chunk.finish.is_some() {
            text.push_str(decoder.finish());
        }
        if !text.is_empty() || chunk.finish.is_some() {
            let TokenChunk {
                index,
                finish,
                usage,
                stop,
                ..
            } = chunk;
            cx.emit(
                io.text,
                TextChunk {
                    index,
                    text,
                    finish,
                    usage,
                    stop,
                    ..TextChunk::default()
                },
            );
        }
        Ok(Flow::Continue)
    }
}
register!(Detokenizer);

/// Decodes UTF-8 that comes in pieces. The pieces' text, joined, is what lossy decoding makes of the joined bytes.
#[derive(Debug, Default)]
pub struct Utf8Decoder {
    /// The beginning of a character: at most three bytes.
    pending: Vec<u8>,
}

impl Utf8Decoder {
    /// The characters that are complete now.
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

    /// What is left at the end: nothing, or U+FFFD for a character that was never completed.
    pub fn finish(&mut self) -> &'static str {
        let left = !self.pending.is_empty();
        self.pending.clear();
        if left { "\u{FFFD}" } else { "" }
    }
}

/// Whether more bytes could make a character of these.
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
