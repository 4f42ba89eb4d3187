//! `OutputFormatCalculator`: expresses the required form of an answer in the format of the model.

use std::borrow::Cow;
use std::sync::Arc;

use graphmill_engine::{
    Calculator, Contract, Cx, Error, Flow, In, NoOptions, OpenCx, Out, Res, Result, register,
};
use graphmill_llm::{Constraint, ReasoningLimit};
use serde_json::Value;

use super::{LanguageModel, wrong};
use crate::payload::{
    ChatInput, GenerationParams, Prompt, Prompts, RequestInput, TextConstraint, TextRequest,
    ToolChoice,
};
use crate::text::tool_calls::grammar;

/// Adds the required form of a chat's answer, in the format of the model: tool calls that the
/// request demands, and reasoning before them or before structured output. It also sets the limit
/// of reasoning.
///
/// If a tool is `strict`, or the LLM node has `enable_tool_guided_generation`, calls that the model
/// decides on are constrained as well, if its format marks them. If the request demands a form of
/// the answer and offers tools, an answer may also be tool calls. The node passes on the parameters
/// with the constraint; those of plain completions pass unchanged. Without this node, requests that
/// demand a call or limit the reasoning are refused.
///
/// ```pbtxt
/// input_stream: "REQUEST:request"
/// input_stream: "PROMPT:prompt"
/// input_stream: "PARAMS:params"
/// output_stream: "PARAMS:formatted_params"
/// node {
///   calculator: "OutputFormatCalculator"
///   input_side_packet: "LLM_NODE_RESOURCES:llm"
///   input_stream: "REQUEST:request"
///   input_stream: "PROMPT:prompt"
///   input_stream: "PARAMS:params"
///   output_stream: "PARAMS:formatted_params"
/// }
/// ```
pub struct OutputFormat {
    model: Arc<LanguageModel>,
}

/// The port handles of [`OutputFormat`].
#[derive(Copy, Clone, Debug)]
pub struct OutputFormatPorts {
    request: In<TextRequest>,
    prompt: In<Prompts>,
    params: In<GenerationParams>,
    formatted: Out<GenerationParams>,
    model: Res<LanguageModel>,
}

impl Calculator for OutputFormat {
    const NAME: &'static str = "OutputFormatCalculator";
    const DOC: &'static str =
        "Adds the required form of a chat's answer in the format of the model.";
    type Options = NoOptions;
    type Ports = OutputFormatPorts;

    fn contract(c: &mut Contract, _: &NoOptions) -> OutputFormatPorts {
        OutputFormatPorts {
            request: c.input("REQUEST"),
            prompt: c.input("PROMPT"),
            params: c.input("PARAMS"),
            formatted: c.output("PARAMS"),
            model: c.resource("LLM_NODE_RESOURCES", None),
        }
    }

    fn open(_: &NoOptions, io: OutputFormatPorts, cx: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self {
            model: cx.resource(io.model),
        })
    }

    fn process(&mut self, io: OutputFormatPorts, cx: &mut Cx<'_>) -> Result<Flow> {
        let Some(mut params) = cx.take(io.params) else {
            return Ok(Flow::Continue);
        };
        if let Some(RequestInput::Chat(chat)) = cx.get(io.request).map(|request| &request.input)
            && let Some(Prompts(prompts)) = cx.get(io.prompt)
            && let [Prompt::Templated(prompt)] = &**prompts
        {
            self.limit_reasoning(&prompt.text, &mut params)?;
            self.constrain(chat, &prompt.text, &mut params)?;
        }
        cx.emit(io.formatted, params);
        Ok(Flow::Continue)
    }
}
register!(OutputFormat);

impl OutputFormat {
    /// Sets the limit of reasoning. A model without reasoning needs none.
    fn limit_reasoning(&self, prompt: &str, params: &mut GenerationParams) -> Result<()> {
        let budget = params.reasoning_budget.take();
        if let (Some(tokens), Some(format)) = (budget, self.model.formats().reasoning()) {
            let vocab = Arc::clone(self.model.vocab());
            let limit = ReasoningLimit::new(vocab, format.marks(prompt), &format.closing(), tokens);
            params.reasoning_limit =
                Some(limit.map_err(|error| Error::internal(error.to_string()).with_source(error))?);
        }
        Ok(())
    }

    fn constrain(
        &self,
        chat: &ChatInput,
        prompt: &str,
        params: &mut GenerationParams,
    ) -> Result<()> {
        let demanded = std::mem::take(&mut params.demands_call);
        let (field, answer) = match params.constraint.take() {
            Some(TextConstraint {
                field, constraint, ..
            }) if !demanded => (field, Some(constraint)),
            _ => (Cow::Borrowed("tools"), None),
        };
        let offered = chat.tools.as_ref().zip(self.model.formats().tool_calls());
        let calls = match offered {
            Some((tools, format)) if demanded || answer.is_some() => {
                let (choice, one_call) = (&chat.tool_choice, chat.one_tool_call);
                debug_assert!(!matches!(choice, ToolChoice::Named(_)) || one_call);
                Some(grammar::calls(format, tools, choice, one_call))
            }
            // Formats that do not mark calls have no such grammar.
            Some((tools, format)) if self.guides(tools) => grammar::text_with_calls(format, tools),
            _ => None,
        };
        if demanded && calls.is_none() {
            let message =
                "cannot demand a call: the model's tool calls stay in its text (tool_parser)";
            return Err(wrong("tool_choice", message, "unsupported_parameter"));
        }
        params.constrains_calls = calls.is_some();
        if answer.is_none() && calls.is_none() {
            return Ok(());
        }
        let constraint = match self.model.formats().reasoning() {
            Some(format) => format.constrain(prompt, answer, calls),
            None => Constraint::any_of(answer.into_iter().chain(calls)),
        };
        params.constraint = Some(TextConstraint {
            field,
            constraint,
            compiled: None,
        });
        Ok(())
    }

    /// Returns true if calls that the request does not demand are constrained, too.
    fn guides(&self, tools: &[Value]) -> bool {
        let is_strict = |tool: &Value| tool["function"]["strict"] == true;
        self.model.formats().guided || tools.iter().any(is_strict)
    }
}
