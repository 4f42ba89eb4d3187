//! `TokenizerCalculator`: prompts to tokens.

use std::sync::Arc;

use graphmill_engine::{
    Calculator, CancelToken, Contract, Cx, Error, Flow, In, NoOptions, OpenCx, Out, Res, Result,
    Run, register,
};
use graphmill_llm::Medium;

use super::media;
use crate::llm::{LanguageModel, claim_room, not_tokenized, place_vectors};
use crate::media::PromptEmbeddings;
use crate::payload::{Prompt, Prompts, TokenPrompt, TokenPrompts};

/// Makes tokens of prompts, with the model's own vocabulary.
///
/// In text that a chat template made, the spelling of special tokens means these tokens and nothing
/// is added; in text that a user wrote, it is text, and the model's begin token is added. A text
/// with a gap becomes the prompt after which a model that was trained to fill gaps fills it; for
/// other models it is refused. Where a conversation goes on from a reply of the same model to the
/// same conversation, with the same `cache_salt` and adapter, the text of that reply gets the
/// tokens that the model chose, so that they need not be computed again; special tokens are always
/// those of the text. Images and sounds become what the model reads in their place; they are not
/// encoded here.
/// Where `EMBEDDINGS` is connected, the images of a prompt are those that come there, at the
/// timestamp of the prompts: an [`ImageEncoderCalculator`](crate::media::ImageEncoder) makes them, or
/// a node of the graph's author.
/// Prompts that are tokens already pass as they are, and vectors of a request take the place of tokens
/// where the graph and the model take them. Runs on the executor `cpu`, because a prompt can have
/// megabytes.
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

/// What a tokenizer takes for a byte of text, while it is at it.
const BYTES_OF_EACH: usize = 24;

/// The ports of [`Tokenizer`].
#[derive(Copy, Clone, Debug)]
pub struct TokenizerPorts {
    prompts: In<Prompts>,
    embeddings: In<PromptEmbeddings>,
    tokens: Out<TokenPrompts>,
    model: Res<LanguageModel>,
}

impl Calculator for Tokenizer {
    const NAME: &'static str = "TokenizerCalculator";
    const DOC: &'static str = "Makes tokens of prompts with the model's own vocabulary.";
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
            // They are not copied.
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
                let marks = vocab.gap_marks().ok_or_else(|| fills_no_gaps(field))?;
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

fn fills_no_gaps(field: &'static str) -> Error {
    let message = format!("`{field}` is not supported: the model was not trained to fill gaps");
    Error::invalid(message)
        .with_field(field)
        .with_code("unsupported_parameter")
}
