//! `ToolParserCalculator`: separates tool calls from a text.

use std::sync::Arc;

use graphmill_engine::{
    Calculator, Contract, Cx, Error, Flow, In, OpenCx, Out, Res, Result, register,
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::by_prompt::{ChoiceStates, by_prompt};
use crate::llm::LanguageModel;
use crate::payload::{Finish, GenerationParams, RequestInput, TextChunk, TextRequest, ToolChoice};
use crate::text::tool_calls::parser::CallParser;
use crate::text::tool_calls::{CallFormat, FORMATS, Tools};

/// Options of a `ToolParserCalculator` node.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ToolParserOptions {
    /// Format of tool calls: the name of a family of models, such as `hermes`, or `none` to leave
    /// calls in the text. If empty, the default, it is taken from the LLM node, or else from its
    /// chat template.
    pub tool_parser: String,
}

/// Separates tool calls from the text of a chat whose request offers tools.
///
/// A call is passed on when it is complete. If `PARAMS` says that a constraint makes calls valid,
/// their arguments are passed on as they come. Text that only looks like a call stays text. A
/// choice with calls that ends by itself has the finish reason `tool_calls`. If the request wants
/// one call at a time, the choice ends after it. The node generates the ids of calls, in the form
/// that the model's template accepts. `REQUEST` and `PARAMS` have a packet for each prompt, at its
/// timestamp.
///
/// ```pbtxt
/// input_stream: "TEXT:text"
/// input_stream: "REQUEST:request"
/// input_stream: "PARAMS:params"
/// output_stream: "TEXT:parsed"
/// node {
///   calculator: "ToolParserCalculator"
///   input_side_packet: "LLM_NODE_RESOURCES:llm"
///   input_stream: "TEXT:text"
///   input_stream: "REQUEST:request"
///   input_stream: "PARAMS:params"
///   output_stream: "TEXT:parsed"
///   node_options: { [type.googleapis.com/graphmill.ToolParserCalculatorOptions] { tool_parser: "hermes" } }
/// }
/// ```
pub struct ToolParser {
    format: Option<Arc<CallFormat>>,
    /// `None` if the request offers no tools.
    tools: Option<ToolOffer>,
    parsers: ChoiceStates<CallParser>,
}

/// The tools of a request.
struct ToolOffer {
    tools: Arc<Tools>,
    eager: bool,
    /// True if the answer consists only of tool calls.
    is_demanded: bool,
    limit: usize,
}

/// The port handles of [`ToolParser`].
#[derive(Copy, Clone, Debug)]
pub struct ToolParserPorts {
    text: In<TextChunk>,
    request: In<TextRequest>,
    params: In<GenerationParams>,
    out: Out<TextChunk>,
    model: Res<LanguageModel>,
}

impl Calculator for ToolParser {
    const NAME: &'static str = "ToolParserCalculator";
    const DOC: &'static str = "Separates tool calls from the text of a chat.";
    type Options = ToolParserOptions;
    type Ports = ToolParserPorts;

    fn contract(c: &mut Contract, options: &ToolParserOptions) -> ToolParserPorts {
        if let Err(message) = FORMATS.named(&options.tool_parser) {
            c.option_error("tool_parser", message);
        }
        c.policy(by_prompt());
        ToolParserPorts {
            text: c.input("TEXT"),
            request: c.input("REQUEST"),
            params: c.optional("PARAMS"),
            out: c.output("TEXT"),
            model: c.resource("LLM_NODE_RESOURCES", None),
        }
    }

    fn open(options: &ToolParserOptions, io: ToolParserPorts, cx: &mut OpenCx<'_>) -> Result<Self> {
        let chosen = FORMATS
            .named(&options.tool_parser)
            .map_err(Error::invalid)?;
        let own = cx.resource(io.model).formats().tool_calls().cloned();
        let own = own.filter(|_| options.tool_parser.is_empty());
        Ok(Self {
            format: chosen
                .map(|family| CallFormat::from_family(family, ""))
                .or(own),
            tools: None,
            parsers: ChoiceStates::default(),
        })
    }

    fn process(&mut self, io: ToolParserPorts, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(request) = cx.get(io.request) {
            let params = cx.get(io.params);
            let eager = params.is_some_and(|params| params.constrains_calls);
            self.tools = match &request.input {
                RequestInput::Chat(chat) => chat.tools.as_ref().map(|tools| ToolOffer {
                    tools: Arc::new(Tools::new(tools)),
                    eager,
                    is_demanded: eager && chat.tool_choice != ToolChoice::Auto,
                    limit: if chat.one_tool_call { 1 } else { usize::MAX },
                }),
                RequestInput::Prompts(_) => None,
            };
        }
        let (Some(format), Some(offered)) = (&self.format, &self.tools) else {
            cx.forward(io.text, io.out);
            return Ok(Flow::Continue);
        };
        let Some(mut chunk) = cx.take(io.text) else {
            return Ok(Flow::Continue);
        };
        let parser = self.parsers.state(chunk.prompt, chunk.index, || {
            let tools = Arc::clone(&offered.tools);
            CallParser::new(Arc::clone(format), tools, offered.eager, offered.limit)
        });
        if parser.is_done() {
            // The chunk was on its way when the choice ended.
            return Ok(Flow::Continue);
        }
        let parsed = parser.push(&chunk.text, chunk.finish.is_some());
        // Text that was cut off before it became a call is not part of an answer.
        let is_cut = offered.is_demanded && chunk.finish == Some(Finish::Length);
        chunk.text = if is_cut { String::new() } else { parsed.text };
        chunk.tool_calls.extend(parsed.calls);
        // If a call was cut, the finish reason stays the one of the text, because a client must not
        // act on half a call.
        if parser.is_done() {
            chunk.stop.stop();
            chunk.finish = Some(Finish::ToolCalls);
        } else if parser.has_called() && chunk.finish == Some(Finish::Stop) {
            chunk.finish = Some(Finish::ToolCalls);
        }
        cx.emit(io.out, chunk);
        Ok(Flow::Continue)
    }
}
register!(ToolParser);
