//! `ConstraintCalculator`: compiles what a text has to match.

use std::sync::Arc;

use graphmill_engine::{
    Calculator, Contract, Cx, Error, Flow, In, NoOptions, OpenCx, Out, Res, Result, Run, register,
};

use super::LanguageModel;
use crate::payload::{Constraint, GenerationParams, Prompt, Prompts};

/// Compiles the JSON schema, regular expression, choice or grammar that a request asks its text to match, for the model's
/// vocabulary.
///
/// Passes on the parameters it gets, with what it compiled. Where the model thinks before it answers and the prompt of the chat is
/// connected, the constraint is for what follows the reasoning. A request whose constraint cannot be compiled ends with an error that
/// names the field; without this node, every request that has a constraint does. The model remembers the last constraints, so that
/// a client that sends the same again and again waits once. Runs on the executor `cpu`, because a large schema takes a while.
///
/// ```pbtxt
/// input_stream: "PARAMS:params"
/// input_stream: "PROMPT:prompt"
/// output_stream: "PARAMS:compiled_params"
/// node {
///   calculator: "ConstraintCalculator"
///   input_side_packet: "LLM_NODE_RESOURCES:llm"
///   input_stream: "PARAMS:params"
///   input_stream: "PROMPT:prompt"
///   output_stream: "PARAMS:compiled_params"
/// }
/// ```
pub struct ConstraintCompiler {
    model: Arc<LanguageModel>,
}

/// The ports of [`ConstraintCompiler`].
#[derive(Copy, Clone, Debug)]
pub struct ConstraintPorts {
    params: In<GenerationParams>,
    prompts: In<Prompts>,
    compiled: Out<GenerationParams>,
    model: Res<LanguageModel>,
}

impl Calculator for ConstraintCompiler {
    const NAME: &'static str = "ConstraintCalculator";
    const DOC: &'static str =
        "Compiles the schema, expression or grammar that a request asks its text to match.";
    type Options = NoOptions;
    type Ports = ConstraintPorts;

    fn contract(c: &mut Contract, _: &NoOptions) -> ConstraintPorts {
        c.run(Run::Offload("cpu"));
        ConstraintPorts {
            params: c.input("PARAMS"),
            prompts: c.optional("PROMPT"),
            compiled: c.output("PARAMS"),
            model: c.resource("LLM_NODE_RESOURCES", None),
        }
    }

    fn open(_: &NoOptions, io: ConstraintPorts, cx: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self {
            model: cx.resource(io.model),
        })
    }

    fn process(&mut self, io: ConstraintPorts, cx: &mut Cx<'_>) -> Result<Flow> {
        let Some(mut params) = cx.take(io.params) else {
            return Ok(Flow::Continue);
        };
        if let Some(constraint) = &mut params.constraint {
            let wanted = self.behind_reasoning(&constraint.constraint, cx.get(io.prompts));
            let compiled = self.model.engine().compile(&wanted);
            constraint.compiled = Some(compiled.map_err(|error| {
                let field = constraint.field.clone();
                let message = format!("`{field}` cannot be enforced: {error}");
                Error::invalid(message)
                    .with_field(field)
                    .with_code("invalid_constraint")
                    .with_source(error)
            })?);
        }
        cx.emit(io.compiled, params);
        Ok(Flow::Continue)
    }
}
register!(ConstraintCompiler);

impl ConstraintCompiler {
    /// The constraint on the whole text of an answer to this prompt.
    fn behind_reasoning(&self, constraint: &Constraint, prompts: Option<&Prompts>) -> Constraint {
        match (
            self.model.formats().reasoning(),
            prompts.map(|prompts| &*prompts.0),
        ) {
            (Some(format), Some([Prompt::Templated(prompt)])) => Constraint::AfterReasoning {
                marks: format.marks(prompt),
                then: Box::new(constraint.clone()),
            },
            _ => constraint.clone(),
        }
    }
}
