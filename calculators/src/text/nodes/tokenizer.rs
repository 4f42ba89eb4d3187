//! `TokenizerCalculator`: converts prompts to tokens.

use std::sync::Arc;

use graphmill_engine::{
    Calculator, CancelToken, Contract, Cx, Error, Flow, In, NoOptions, OpenCx, Out, Res, Result,
    Run, register,
};
use graphmill_llm::Medium;

use super::media;
use crate::llm::{LanguageModel, claim_room, not_tokenized, place_vectors, wrong};
use crate::media::PromptEmbeddings;
use crate::payload::{Prompt, Prompts, TokenPrompt, TokenPrompts};

/// Converts prompts to tokens with the model's own vocabulary.
///
/// In text from a chat template, the spelling of a special token is read as the token, and no token
/// is added. In text from a user, it is plain text, and the model's begin token is added. A text
/// with a gap becomes a prompt for models that were trained to fill gaps; other models refuse it.
/// Prompts that are already tokens pass unchanged. Vectors in a request replace tokens, if the
/// graph and the model allow it.
///
/// A conversation may continue a reply of the same model to the same conversation, with the same
/// `cache_salt` and adapter. The text of that reply then gets the tokens that the model chose, so
/// that they need not be computed again. Special tokens always come from the text.
///
/// Images and sounds become placeholders; they are not encoded here. If `EMBEDDINGS` is connected,
/// it brings the encoded images of the prompts, at their timestamp, from an
/// `ImageEncoderCalculator` or a custom node. The node runs on the executor `cpu`, because a prompt
/// can be megabytes long.
///
/// ```pbtxt
/// input_stream: "PROMPT:prompt"
/// output_stream: "TOKENS:tokens"
/// node {
///   calculator: "TokenizerCalculator"
///   input_side_packet: "LLM_NODE_RESOURCES:llm"
///   input_stream: "PROMPT:prompt"
///   output_stream: "TOKENS:tokens"
/// }
/// ```
pub struct Tokenizer {
    model: Arc<LanguageModel>,
}

/// Bytes that tokenization takes for each byte of text.
const BYTES_OF_EACH: usize = 24;

/// The port handles of [`Tokenizer`].
#[derive(Copy, Clone, Debug)]
pub struct TokenizerPorts {
    prompts: In<Prompts>,
    embeddings: In<PromptEmbeddings>,
    tokens: Out<TokenPrompts>,
    model: Res<LanguageModel>,
}

impl Calculator for Tokenizer {
    const NAME: &'static str = "TokenizerCalculator";
    const DOC: &'static str = "Converts prompts to tokens with the model's own vocabulary.";
    type Options = NoOptions;
    type Ports = TokenizerPorts;

    fn contract(c: &mut Contract, _: &NoOptions) -> TokenizerPorts {
        c.run(Run::Offload("cpu"));
        TokenizerPorts {
            prompts: c.input("PROMPT"),
            embeddings: c.optional("EMBEDDINGS"),
            tokens: c.output("TOKENS"),
            model: c.resource("LLM_NODE_RESOURCES", None),
        }
    }

    fn open(_: &NoOptions, io: TokenizerPorts, cx: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self {
            model: cx.resource(io.model),
        })
    }

    fn process(&mut self, io: TokenizerPorts, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(prompts) = cx.get(io.prompts) {
            let embeddings = cx.get(io.embeddings);
            if io.embeddings.is_connected()
                && embeddings.is_none_or(|it| it.0.len() != prompts.0.len())
            {
                let message = "the stream of the tag EMBEDDINGS has no packet with an entry for each of the prompts";
                return Err(Error::invalid(message));
            }
            let mut tokens = Vec::with_capacity(prompts.0.len());
            for (index, prompt) in prompts.0.iter().enumerate() {
                let encoded = embeddings.map(|embeddings| &*embeddings.0[index]);
                tokens.push(self.tokenize(prompt, encoded, &cx.run().cancel)?);
            }
            cx.emit(io.tokens, TokenPrompts(tokens));
        }
        Ok(Flow::Continue)
    }
}
register!(Tokenizer);

impl Tokenizer {
    fn tokenize(
        &self,
        prompt: &Prompt,
        encoded: Option<&[Arc<Medium>]>,
        cancel: &CancelToken,
    ) -> Result<TokenPrompt> {
        let goes_on = || !cancel.is_cancelled();
        let text = match prompt {
            Prompt::Text(text) | Prompt::Spelled { text, .. } => text.len(),
            Prompt::Templated(prompt) => prompt.text.len(),
            Prompt::Gap {
                before,
                after,
                context,
                ..
            } => {
                let context = context.iter().map(|it| it.name.len() + it.text.len());
                before.len() + after.len() + context.sum::<usize>()
            }
            Prompt::Tokens(tokens) => tokens.len(),
            // Vectors are not copied.
            Prompt::Vectors(_) => 0,
        };
        let _claim = claim_room(text.saturating_mul(BYTES_OF_EACH))?;
        let vocab = self.model.vocab();
        let tokens = match prompt {
            Prompt::Text(text) => vocab.tokenize_while(text, true, false, &goes_on),
            Prompt::Templated(prompt) if !prompt.media.is_empty() => {
                if let Some(told) = media::told(&self.model, prompt, encoded) {
                    return self.tokenize(&Prompt::Templated(told), encoded, cancel);
                }
                return media::tokenize(&self.model, prompt, encoded, &goes_on);
            }
            Prompt::Templated(prompt) => {
                let tokens = vocab.tokenize_while(&prompt.text, false, true, &goes_on);
                let tokens = tokens.map_err(|error| not_tokenized(error, None))?;
                return Ok(self.model.history().recall(&**vocab, prompt, tokens));
            }
            Prompt::Gap {
                before,
                after,
                field,
                context,
            } => {
                let marks = vocab.gap_marks().ok_or_else(|| {
                    let message = "is not supported: the model was not trained to fill gaps";
                    wrong(field, message, "unsupported_parameter")
                })?;
                marks.prompt(&**vocab, context, (before, after), &goes_on)
            }
            Prompt::Spelled {
                text,
                add_special,
                parse_special,
            } => vocab.tokenize_while(text, *add_special, *parse_special, &goes_on),
            Prompt::Tokens(tokens) => Ok(tokens.clone()),
            Prompt::Vectors(vectors) => return place_vectors(&self.model, vectors),
        };
        tokens
            .map(TokenPrompt::from)
            .map_err(|error| not_tokenized(error, None))
    }
}
