//! `ReasoningParserCalculator`: separates reasoning from a text.

use std::sync::Arc;

use graphmill_engine::{
    Calculator, Contract, Cx, Error, Flow, In, OpenCx, Out, Res, Result, register,
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::by_prompt::{ChoiceStates, by_prompt};
use crate::llm::LanguageModel;
use crate::payload::{Prompt, Prompts, TextChunk};
use crate::text::reasoning::{FORMATS, Parser, ReasoningFormat};

/// Options of a `ReasoningParserCalculator` node.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReasoningParserOptions {
    /// Format of reasoning: the name of a family of models, such as `think`, or `none` to leave it
    /// in the text. If empty, the default, it is taken from the LLM node, or else from its chat
    /// template.
    pub reasoning_parser: String,
}

/// Separates the reasoning of a model from the text of a chat, and passes it on beside the text.
///
/// If the chat template opens the reasoning at the end of the prompt, the text begins inside the
/// reasoning. `PROMPT` has a packet for each prompt, at its timestamp. Reasoning that has not ended
/// when the text ends stays reasoning. Texts of plain completions pass unchanged.
///
/// ```pbtxt
/// input_stream: "TEXT:text"
/// input_stream: "PROMPT:prompt"
/// output_stream: "TEXT:parsed"
/// node {
///   calculator: "ReasoningParserCalculator"
///   input_side_packet: "LLM_NODE_RESOURCES:llm"
///   input_stream: "TEXT:text"
///   input_stream: "PROMPT:prompt"
///   output_stream: "TEXT:parsed"
///   node_options: { [type.googleapis.com/graphmill.ReasoningParserCalculatorOptions] { reasoning_parser: "think" } }
/// }
/// ```
pub struct ReasoningParser {
    format: Option<&'static dyn ReasoningFormat>,
    /// Prompts from a chat template; `None` for others.
    prompt: Option<Arc<[Prompt]>>,
    parsers: ChoiceStates<Box<dyn Parser>>,
}

/// The port handles of [`ReasoningParser`].
#[derive(Copy, Clone, Debug)]
pub struct ReasoningParserPorts {
    text: In<TextChunk>,
    prompt: In<Prompts>,
    out: Out<TextChunk>,
    model: Res<LanguageModel>,
}

impl Calculator for ReasoningParser {
    const NAME: &'static str = "ReasoningParserCalculator";
    const DOC: &'static str = "Separates reasoning from the text of a chat.";
    type Options = ReasoningParserOptions;
    type Ports = ReasoningParserPorts;

    fn contract(c: &mut Contract, options: &ReasoningParserOptions) -> ReasoningParserPorts {
        if let Err(message) = FORMATS.named(&options.reasoning_parser) {
            c.option_error("reasoning_parser", message);
        }
        c.policy(by_prompt());
        ReasoningParserPorts {
            text: c.input("TEXT"),
            prompt: c.input("PROMPT"),
            out: c.output("TEXT"),
            model: c.resource("LLM_NODE_RESOURCES", None),
        }
    }

    fn open(
        options: &ReasoningParserOptions,
        io: ReasoningParserPorts,
        cx: &mut OpenCx<'_>,
    ) -> Result<Self> {
        let chosen = FORMATS
            .named(&options.reasoning_parser)
            .map_err(Error::invalid)?;
        let own = cx.resource(io.model).formats().reasoning();
        let own = own.filter(|_| options.reasoning_parser.is_empty());
        Ok(Self {
            format: chosen.or(own),
            prompt: None,
            parsers: ChoiceStates::default(),
        })
    }

    fn process(&mut self, io: ReasoningParserPorts, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(prompts) = cx.get(io.prompt) {
            self.prompt = Some(Arc::clone(&prompts.0));
        }
        let (Some(format), Some([Prompt::Templated(prompt)])) =
            (self.format, self.prompt.as_deref())
        else {
            cx.forward(io.text, io.out);
            return Ok(Flow::Continue);
        };
        let Some(mut chunk) = cx.take(io.text) else {
            return Ok(Flow::Continue);
        };
        let new = || format.parser(&prompt.text);
        let parser = self.parsers.state(chunk.prompt, chunk.index, new);
        let parsed = parser.push(&chunk.text, chunk.finish.is_some());
        chunk.reasoning.push_str(&parsed.reasoning);
        chunk.text = parsed.text;
        cx.emit(io.out, chunk);
        Ok(Flow::Continue)
    }
}
register!(ReasoningParser);
