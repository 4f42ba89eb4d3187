//! `ConstraintCalculator`: compiles constraints.

use std::sync::Arc;

use graphmill_engine::{
    AsyncCalculator, Contract, Emits, Error, Flow, In, InputSet, NoOptions, OpenCx, Out, Res,
    Result, register_async, shortened,
};
use graphmill_llm::{CompileError, CompiledConstraint, Constraint, Tenant};
use tokio::sync::oneshot;

use super::{LanguageModel, out_of_memory};
use crate::payload::{GenerationParams, TextConstraint};

/// Maximum number of bytes of the reason that are shown when something cannot be enforced.
const MAX_SHOWN_BYTES: usize = 180;

/// Compiles the constraint of a request (a JSON schema, a regular expression, a choice or a
/// grammar) for the model's vocabulary.
///
/// It passes on the parameters, with the compiled constraint. A request whose constraint cannot be
/// compiled ends with an error that names the field. Without this node, all requests with a
/// constraint end with an error. The model caches recent constraints, so a client that repeats one
/// waits only once. Constraints are compiled on threads of their own, one at a time for each key or
/// tenant. A compilation that takes more than ten seconds ends its request.
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

impl AsyncCalculator for ConstraintCompiler {
    const NAME: &'static str = "ConstraintCalculator";
    const DOC: &'static str =
        "Compiles the schema, expression or grammar that the text of a request has to match.";
    type Options = NoOptions;
    type Ports = (
        In<GenerationParams>,
        Out<GenerationParams>,
        Res<LanguageModel>,
    );

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        c.parallel();
        let params = c.input("PARAMS");
        let compiled = c.output("PARAMS");
        (params, compiled, c.resource("LLM_NODE_RESOURCES", None))
    }

    fn open(_: &NoOptions, (.., model): Self::Ports, cx: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self {
            model: cx.resource(model),
        })
    }

    async fn process(
        &mut self,
        (params, compiled, _): Self::Ports,
        mut set: InputSet,
        out: &mut Emits,
    ) -> Result<Flow> {
        let Some(mut params) = set.take(params) else {
            return Ok(Flow::Continue);
        };
        let tenant = params.tenant;
        if let Some(asked) = &mut params.constraint {
            let outcome = self.compile(&asked.constraint, tenant, out).await;
            asked.compiled = Some(outcome.map_err(|error| refused(asked, error))?);
        }
        out.emit(compiled, params);
        Ok(Flow::Continue)
    }
}
register_async!(ConstraintCompiler);

impl ConstraintCompiler {
    async fn compile(
        &self,
        constraint: &Constraint,
        tenant: Option<Tenant>,
        out: &mut Emits,
    ) -> Result<CompiledConstraint, CompileError> {
        let (told, answer) = oneshot::channel();
        // The receiver is gone if its session has ended.
        let tell = |outcome| drop(told.send(outcome));
        // The session owns this handle. When it is dropped, a constraint that waits is not
        // compiled.
        let compiling = self
            .model
            .engine()
            .start_compile(constraint, tenant, tell)?;
        if let Some(compiling) = &compiling {
            out.waits_for(compiling.watch());
        }
        let gone = |_| Err(CompileError::Busy("its thread has ended".to_owned()));
        answer.await.unwrap_or_else(gone)
    }
}

/// Returns the error for a constraint that was not compiled.
fn refused(asked: &TextConstraint, error: CompileError) -> Error {
    let field = asked.field.clone();
    // The message can quote the whole constraint.
    let why = error.to_string();
    let why = shortened(&why, MAX_SHOWN_BYTES);
    let message = format!("`{field}` cannot be enforced: {why}");
    let refusal = match error {
        CompileError::OutOfMemory(error) => return out_of_memory(error),
        CompileError::NoThread(_) => Error::unavailable(message).with_code("insufficient_memory"),
        CompileError::Busy(_) => Error::unavailable(message).with_code("constraints_busy"),
        CompileError::Constraint(_) | CompileError::TooLong(_) => Error::invalid(message)
            .with_field(field)
            .with_code("invalid_constraint"),
    };
    refusal.with_source(error)
}
