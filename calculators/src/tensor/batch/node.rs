//! `DynamicBatch`: a node that batches the calls of all sessions.

use std::marker::PhantomData;
use std::sync::Arc;

use graphmill_engine::{
    AsyncCalculator, Contract, Emits, Error, Flow, InputSet, Ins, OpenCx, Outs, Res, Result, RunCx,
};

use super::batcher::{Batcher, RequestScheduling};
use super::options::DynamicBatchOptions;
use super::source::{BatchedModel, BatcherSpec, ModelSource};
use crate::payload::{Tally, batch_priority_of};
use crate::tensor::Tensor;

/// Computes tensors with a model, batched with those of all other sessions of the same model.
///
/// The inputs of a call are the tensors of a request, in the order of the model's inputs. The
/// outputs come at the same timestamp. The node's `max_in_flight` is the number of requests that a
/// session can have in batches at once.
///
/// A program makes a node from its own model with it: it implements [`BatchedModel`] and registers
/// `DynamicBatch` for it, as `docs/guide/dynamic-batching.md` shows. In graphs,
/// [`DynamicBatchContainer`](super::DynamicBatchContainer) batches any node.
pub struct DynamicBatch<M> {
    batcher: Arc<Batcher>,
    run: Arc<RunCx>,
    name: Arc<str>,
    asked: RequestScheduling,
    model: PhantomData<fn() -> M>,
}

impl<M: BatchedModel> AsyncCalculator for DynamicBatch<M> {
    const NAME: &'static str = M::NAME;
    const DOC: &'static str = M::DOC;
    const OPTION_NAMES: &'static [&'static str] = M::OPTION_NAMES;
    type Options = DynamicBatchOptions<M::Options>;
    type Ports = (Ins<Tensor>, Outs<Tensor>, Res<Batcher>);

    fn contract(c: &mut Contract, options: &Self::Options) -> Self::Ports {
        c.parallel();
        let (inputs, outputs) = (c.inputs(""), c.outputs(""));
        let spec = BatcherSpec {
            source: ModelSource::new::<M>(M::spec(&options.model, c)),
            batching: options.batching(c),
            inputs: options.input.clone(),
            ports: (inputs.len(), outputs.len()),
        };
        (inputs, outputs, c.resource("BATCHER", Some(spec)))
    }

    fn open(_: &Self::Options, (.., batcher): Self::Ports, cx: &mut OpenCx<'_>) -> Result<Self> {
        let batcher = cx.resource(batcher);
        let run = Arc::clone(cx.run());
        let has_priorities = batcher.info().batching.has_priorities();
        let asked = RequestScheduling {
            // Another node of the graph may have levels where this one has none.
            priority: if has_priorities {
                batch_priority_of(&run)
            } else {
                0
            },
            deadline: run.deadline,
        };
        Ok(Self {
            batcher,
            run,
            name: Arc::clone(cx.node_name()),
            asked,
            model: PhantomData,
        })
    }

    async fn process(
        &mut self,
        (inputs, outputs, _): Self::Ports,
        mut set: InputSet,
        out: &mut Emits,
    ) -> Result<Flow> {
        let found = inputs.iter().map(|input| set.take(input));
        let Some(tensors) = found.collect::<Option<Vec<Tensor>>>() else {
            let time = set.time();
            let message = format!("an input has no packet at {time}, where another one has");
            return Err(Error::invalid(message));
        };
        let pending = self.batcher.submit(tensors, self.asked)?;
        out.waits_for(pending.watch());
        let answer = pending.await?;
        if let Some(tally) = Tally::find(&self.run) {
            tally.count(&self.name, |counts| {
                counts.queued.get_or_insert(answer.queued);
            });
        }
        let (found, connected) = (answer.outputs.len(), outputs.len());
        if found != connected {
            return Err(Error::internal(format!(
                "the model gave {found} tensors, but the node connects {connected}"
            )));
        }
        for (output, tensor) in outputs.iter().zip(answer.outputs) {
            out.emit(output, tensor);
        }
        Ok(Flow::Continue)
    }
}
