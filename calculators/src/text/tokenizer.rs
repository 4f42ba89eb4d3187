//! `TokenizerCalculator`: prompts to tokens.

use std::sync::Arc;

use graphmill_engine::{
    Calculator, Contract, Cx, Error, Flow, In, NoOptions, OpenCx, Out, Res, Result, Run, register,
};
use graphmill_llm::{Token, TokenizeError};

use crate::llm::LanguageModel;
use crate::payload::{Prompt, Prompts, TokenPrompts};

/// Makes tokens of prompts, with the model's own vocabulary.
///
/// In text that a chat template made, the spelling of special tokens means these tokens and nothing is added; in text that a
/// user wrote, it is text, and the model's begin token is added. A text with a gap becomes the prompt after which a model that was
/// trained to fill gaps fills it; for other models it is refused. Where a templated text goes on from a generation of the same model,
/// it gets the tokens that the model chose, so that they need not be computed again. Prompts that are tokens already pass as they are. Runs on the
/// executor `cpu`, because a prompt can have megabytes.
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

/// The ports of [`Tokenizer`].
#[derive(Copy, Clone, Debug)]
pub struct TokenizerPorts {
    prompts: In<Prompts>,
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
            let tokens = prompts
                .0
                .iter()
                .map(|prompt| self.tokenize(prompt))
                .collect::<Result<_>>()?;
            cx.emit(io.tokens, TokenPrompts(tokens));
        }
        Ok(Flow::Continue)
    }
}
register!(Tokenizer);

impl Tokenizer {
    fn tokenize(&self, prompt: &Prompt) -> Result<Vec<Token>> {
        let vocab = self.model.vocab();
        let tokens = match prompt {
            Prompt::Text(text) => vocab.tokenize(text, true, false),
            Prompt::Templated(text) => {
                let read = |text: &str| vocab.tokenize(text, false, true);
                self.model.history().tokenize(&**vocab, text, read)
            }
            Prompt::Gap { before, after } => {
                let marks = vocab.gap_marks().ok_or_else(fills_no_gaps)?;
                marks.prompt(&**vocab, before, after)
            }
            Prompt::Spelled {
                text,
                add_special,
                parse_special,
            } => vocab.tokenize(text, *add_special, *parse_special),
            Prompt::Tokens(tokens) => Ok(tokens.clone()),
        };
        tokens.map_err(too_large)
    }
}

fn fills_no_gaps() -> Error {
    Error::invalid("`suffix` is not supported: the model was not trained to fill gaps")
        .with_field("suffix")
        .with_code("unsupported_parameter")
}

fn too_large(error: TokenizeError) -> Error {
    Error::invalid(error.to_string())
        .with_code("context_length_exceeded")
        .with_source(error)
}
