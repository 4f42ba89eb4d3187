//! `PromptReportCalculator`: answers questions about prompts.

use std::sync::Arc;

use graphmill_engine::{
    Calculator, Contract, Cx, Error, Events, Flow, In, NoOptions, Offset, OpenCx, Out, Res, Result,
    Run, Timestamp, register,
};
use graphmill_llm::{GenerationError, PromptPreview};
use serde_json::{Value, json};

use super::{
    explain::{self, Explanation},
    tokens,
};
use crate::llm::{self, LanguageModel, truncation};
use crate::payload::{Prompt, PromptQuestion, PromptReport, Prompts, QuestionKind, TokenPrompts};

/// Answers questions about the prompts of a request, instead of generating: `tokenize`,
/// `detokenize`, `apply-template`, `render`, and `?explain=1`.
///
/// `PROMPT` and `TOKENS` are those that the LLM node would get, so the report shows exactly what
/// the model would see. The report goes to the response node, which sends it. Nothing is generated,
/// and the request takes no place in the batches. For `?explain=1`, the engine reports between two
/// of its steps which tokens it has cached. The node runs on the executor `cpu`, because a prompt
/// can have millions of tokens.
///
/// ```pbtxt
/// input_stream: "QUESTION:question"
/// input_stream: "PROMPT:prompt"
/// input_stream: "TOKENS:tokens"
/// output_stream: "REPORT:report"
/// node {
///   calculator: "PromptReportCalculator"
///   input_side_packet: "LLM_NODE_RESOURCES:llm"
///   input_stream: "QUESTION:question"
///   input_stream: "PROMPT:prompt"
///   input_stream: "TOKENS:tokens"
///   output_stream: "REPORT:report"
/// }
/// ```
pub struct PromptReporter {
    model: Arc<LanguageModel>,
    /// An incomplete explanation, and the timestamp of its question. Other questions wait in the
    /// queue meanwhile.
    explanation: Option<(Timestamp, Explanation)>,
}

/// The port handles of [`PromptReporter`].
#[derive(Copy, Clone, Debug)]
pub struct PromptReporterPorts {
    question: In<PromptQuestion>,
    prompts: In<Prompts>,
    tokens: In<TokenPrompts>,
    report: Out<PromptReport>,
    /// Previews of the engine, by the index of the prompt.
    previews: Events<(usize, std::result::Result<PromptPreview, GenerationError>)>,
    model: Res<LanguageModel>,
}

impl Calculator for PromptReporter {
    const NAME: &'static str = "PromptReportCalculator";
    const DOC: &'static str =
        "Answers questions about prompts: their tokens, text, and the request's effective values.";
    type Options = NoOptions;
    type Ports = PromptReporterPorts;

    fn contract(c: &mut Contract, _: &NoOptions) -> PromptReporterPorts {
        c.offset(Offset::Unset);
        c.process_timestamp_bounds();
        c.run(Run::Offload("cpu"));
        PromptReporterPorts {
            question: c.input("QUESTION"),
            prompts: c.input("PROMPT"),
            tokens: c.input("TOKENS"),
            report: c.output("REPORT"),
            previews: c.events(),
            model: c.resource("LLM_NODE_RESOURCES", None),
        }
    }

    fn open(_: &NoOptions, io: PromptReporterPorts, cx: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self {
            model: cx.resource(io.model),
            explanation: None,
        })
    }

    fn process(&mut self, io: PromptReporterPorts, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some((index, preview)) = cx.event(io.previews) {
            let (engine, preview) = (self.model.engine(), preview.map_err(llm::failed)?);
            let complete = self
                .explanation
                .take_if(|(_, explanation)| explanation.add(index, preview, &engine));
            if let Some((time, explanation)) = complete {
                cx.emit_at(io.report, time, PromptReport(explanation.report(&engine)));
                cx.out().resume(io.question);
            }
        } else if let Some(report) = self.answer(io, cx)? {
            cx.emit(io.report, PromptReport(report));
        }
        let known = cx.settled(io.question);
        if self.explanation.is_none() && known < Timestamp::MAX {
            cx.out().bound_at_least(io.report, known.next());
        }
        Ok(Flow::Continue)
    }

    fn waits_for(&self) -> Option<String> {
        Some(llm::waits::preview(&self.model.engine()))
    }
}
register!(PromptReporter);

impl PromptReporter {
    /// Returns the answer to a question, unless it must wait for the engine.
    fn answer(&mut self, io: PromptReporterPorts, cx: &mut Cx<'_>) -> Result<Option<Value>> {
        let Some(question) = cx.take(io.question) else {
            return Ok(None); // the request is to be answered by the model
        };
        let (Some(prompts), Some(mut tokens)) = (cx.take(io.prompts), cx.take(io.tokens)) else {
            return Err(Error::internal("a question came without its prompt"));
        };
        let context = self.model.engine().context_length();
        let vocab = &**self.model.vocab();
        truncation::cut(&mut tokens.0, question.truncation, context, vocab.bos())?;
        match &question.kind {
            QuestionKind::Tokenize { form, nested } => {
                Ok(Some(tokens::tokenized(vocab, form, *nested, &tokens)))
            }
            QuestionKind::Encode { nested } => Ok(Some(tokens::encoded(*nested, &tokens))),
            QuestionKind::Detokenize => tokens::detokenized(vocab, &tokens).map(Some),
            QuestionKind::CountTokens { object } => {
                let count: usize = tokens.0.iter().map(|prompt| prompt.tokens.len()).sum();
                let mut report = json!({ "input_tokens": count });
                if let Some(object) = object {
                    report["object"] = json!(object);
                }
                Ok(Some(report))
            }
            QuestionKind::Render => {
                let rendered = tokens::rendered(&self.model, &prompts, &tokens)?;
                Ok(Some(self.render(&question.model, &prompts, rendered)))
            }
            QuestionKind::Explain(effective) => {
                let engine = self.model.engine();
                explain::check(&engine, &effective.params)?;
                let rendered = tokens::rendered(&self.model, &prompts, &tokens)?;
                let (salt, adapters) = (&effective.params.cache_salt, &effective.params.adapters);
                for (index, prompt) in tokens.0.into_iter().enumerate() {
                    let sender = cx.sender(io.previews);
                    let answer = move |preview| {
                        // Fails if the session has ended: it waits for nothing.
                        sender.send((index, preview)).ok();
                    };
                    engine
                        .preview(prompt.tokens, &prompt.tiles, salt, adapters, answer)
                        .map_err(llm::refused)?;
                }
                let explanation = Explanation {
                    model: Arc::clone(&question.model),
                    effective: Arc::clone(effective),
                    awaited: rendered.len(),
                    prompts: rendered,
                    cells: 0,
                };
                self.explanation = Some((cx.time(), explanation));
                cx.out().pause(io.question);
                Ok(None)
            }
        }
    }

    /// Returns the answer of `render`: the only prompt of a conversation, or the list of a
    /// completion's prompts.
    fn render(&self, model: &str, prompts: &Prompts, mut rendered: Vec<Value>) -> Value {
        let mut answer = match &*prompts.0 {
            [Prompt::Templated(_)] => rendered.pop().unwrap_or_default(),
            _ => json!({ "prompts": rendered }),
        };
        answer["model"] = json!(model);
        answer["max_model_len"] = json!(self.model.vocab().context_length());
        answer
    }
}
