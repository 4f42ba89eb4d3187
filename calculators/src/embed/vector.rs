//! `EmbedCalculator`: converts texts to vectors.

use std::sync::Arc;

use graphmill_dialects::error::invalid;
use graphmill_engine::{
    Calculator, Contract, Cx, Error, Events, Flow, In, Offset, OpenCx, Out, Policy, Res, Result,
    Run, Timestamp, register,
};
use graphmill_llm::embed::{EmbeddingHandle, EmbeddingOutcome};

use super::engine;
use super::{EmbedOptions, EmbeddingModel, VectorOptions};
use crate::llm::{self, claim_room};
use crate::payload::{Embeddings, EmbeddingsRequest};

/// Computes a vector for each text of a request. Texts are batched with those of all other sessions
/// of the same model.
///
/// Requests are served one after the other, and their vectors come out at their timestamps. Waiting
/// requests stay in the queue. Special tokens that are spelled in a text are plain text, and the
/// tokens that the model expects around a text are added. Texts that are already tokens are used
/// unchanged. The node runs on the executor `cpu`, because tokenizing many texts takes time.
///
/// ```pbtxt
/// input_stream: "REQUEST:request"
/// output_stream: "EMBEDDINGS:embeddings"
/// node {
///   calculator: "EmbedCalculator"
///   input_side_packet: "EMBEDDINGS_NODE_RESOURCES:embeddings_servable"
///   input_stream: "REQUEST:request"
///   output_stream: "EMBEDDINGS:embeddings"
///   node_options { [type.googleapis.com/mediapipe.EmbeddingsCalculatorOVOptions] { models_path: "./" } }
/// }
/// ```
pub struct Embed {
    model: Arc<EmbeddingModel>,
    options: VectorOptions,
    /// The computation in progress. Dropping it cancels it.
    running: Option<EmbedRun>,
}

struct EmbedRun {
    /// Timestamp of the request, at which its vectors come out.
    time: Timestamp,
    handle: EmbeddingHandle,
    /// Number of tokens of all texts.
    tokens: u32,
    dimensions: Option<u32>,
    normalizes: bool,
}

/// The port handles of [`Embed`].
#[derive(Copy, Clone, Debug)]
pub struct EmbedPorts {
    request: In<EmbeddingsRequest>,
    embeddings: Out<Embeddings>,
    events: Events<EmbeddingOutcome>,
    model: Res<EmbeddingModel>,
}

impl Calculator for Embed {
    const NAME: &'static str = "EmbedCalculator";
    const DOC: &'static str =
        "Computes vectors of texts, batched with those of all sessions of the same model.";
    const OPTION_NAMES: &'static [&'static str] = &[
        "mediapipe.EmbeddingsCalculatorOVOptions",
        "mediapipe.EmbeddingsCalculatorOptions",
    ];
    type Options = EmbedOptions;
    type Ports = EmbedPorts;

    fn contract(c: &mut Contract, options: &EmbedOptions) -> EmbedPorts {
        c.policy(Policy::Immediate);
        c.offset(Offset::Unset);
        c.process_timestamp_bounds();
        c.run(Run::Offload("cpu"));
        let spec = options.spec(c);
        EmbedPorts {
            request: c.input("REQUEST"),
            embeddings: c.output("EMBEDDINGS"),
            events: c.events(),
            model: c.resource("EMBEDDINGS_NODE_RESOURCES", Some(spec)),
        }
    }

    fn open(options: &EmbedOptions, io: EmbedPorts, cx: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self {
            model: cx.resource(io.model),
            options: options.node.clone(),
            running: None,
        })
    }

    fn process(&mut self, io: EmbedPorts, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(outcome) = cx.event(io.events) {
            let Some(running) = self.running.take() else {
                return Ok(Flow::Continue);
            };
            let mut vectors = outcome.map_err(llm::failed)?;
            for vector in &mut vectors {
                finish(vector, running.dimensions, running.normalizes)?;
            }
            let tokens = running.tokens;
            cx.emit_at(io.embeddings, running.time, Embeddings { vectors, tokens });
            cx.out().resume(io.request);
        }
        let known = cx.settled(io.request);
        if let Some(request) = cx.take(io.request) {
            cx.out().pause(io.request);
            engine::check_room(&self.model)?;
            let (_, dimensions) = request.form.field_names();
            self.check_dimensions(request.dimensions, dimensions)?;
            drop(claim_room(0)?);
            let (form, count) = (request.form.clone(), request.input.len());
            let field = |index: usize| form.field(index, count);
            let limit = engine::limit(&self.model, request.most_tokens)?;
            let cut = request
                .truncate
                .unwrap_or(self.options.truncate)
                .then_some((limit, request.cuts_beginning));
            let texts = request.input.iter().enumerate().map(|(index, text)| {
                let cancel = &cx.run().cancel;
                engine::tokenize(&self.model, text, cut, cancel, || field(index))
            });
            let texts = texts.collect::<Result<Vec<_>>>()?;
            let (handle, tokens) = engine::submit(&self.model, texts, io.events, cx, field)?;
            self.running = Some(EmbedRun {
                time: known,
                handle,
                tokens,
                dimensions: request.dimensions,
                normalizes: (request.normalize).unwrap_or(self.options.normalize_embeddings),
            });
        }
        match self.running {
            None if known >= Timestamp::MAX => return Ok(Flow::Stop),
            None => cx.out().bound_at_least(io.embeddings, known.next()),
            Some(_) => {}
        }
        Ok(Flow::Continue)
    }

    fn waits_for(&self) -> Option<String> {
        let running = self.running.as_ref()?;
        Some(engine::waits_for(&self.model, &running.handle))
    }
}
register!(Embed);

impl Embed {
    fn check_dimensions(&self, wanted: Option<u32>, field: &str) -> Result<()> {
        let width = self.model.engine().width();
        let message = match wanted {
            Some(wanted) if wanted as usize > width => {
                format!("is {wanted}, but the model's vectors have {width}")
            }
            Some(wanted) if (wanted as usize) < width && !self.options.allow_dimensions => {
                format!(
                    "is {wanted}, but the graph only allows whole vectors of {width} (allow_dimensions)"
                )
            }
            _ => return Ok(()),
        };
        Err(invalid(field, message))
    }
}

/// Shortens a vector to its first dimensions, and scales it to length 1 if it is to be normalized.
fn finish(vector: &mut Vec<f32>, dimensions: Option<u32>, normalizes: bool) -> Result<()> {
    if let Some(dimensions) = dimensions {
        vector.truncate(dimensions as usize);
    }
    if !vector.iter().all(|number| number.is_finite()) {
        return Err(Error::internal(
            "the model computed a vector with numbers that are not finite",
        ));
    }
    let squares = vector.iter().map(|number| number * number);
    let length = squares.sum::<f32>().sqrt();
    if normalizes && length > 0.0 {
        for number in vector {
            *number /= length;
        }
    }
    Ok(())
}
