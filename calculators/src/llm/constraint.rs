//! `ConstraintCalculator`: compiles constraints.

use std::sync::Arc;

use graphmill_engine::{
    Calculator, Contract, Cx, Error, Flow, In, NoOptions, OpenCx, Out, Res, Result, Run, register,
    shortened,
};

use super::{LanguageModel, out_of_memory};
use crate::payload::GenerationParams;
use graphmill_llm::CompileError;

/// How much of the reason is shown why something cannot be enforced.
const MAX_SHOWN_BYTES: usize = 180;

/// Compiles the JSON schema, regular expression, choice or grammar that a request asks its text to
/// match, for the model's vocabulary.
///
/// Passes on the parameters it gets, with what it compiled. A request whose constraint cannot be
/// compiled ends with an error that names the field; without this node, every request that has a
/// constraint does. The model remembers the last constraints, so that a client that sends the same
/// again and again waits once. Runs on the executor `cpu`, because a large schema takes a while.
///
/// ```pbtxt
/// input_stream: "PARAMS:params"
/// output_stream: "PARAMS:compiled_params"
/// node {
///   calculator: "ConstraintCalculator"
///   input_side_packet: "LLM_NODE_RESOURCES:llm"
///   input_stream: "PARAMS:params"
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
            let compiled = self.model.engine().compile(&constraint.constraint);
            constraint.compiled = Some(compiled.map_err(|error| {
                if let CompileError::OutOfMemory(error) = error {
                    return out_of_memory(error);
                }
                let field = constraint.field.clone();
                // It can quote all of what was to be enforced.
                let why = error.to_string();
                let why = shortened(&why, MAX_SHOWN_BYTES);
                let message = format!("`{field}` cannot be enforced: {why}");
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
