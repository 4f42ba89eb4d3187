//! `LLMCalculator`: generates tokens.

use std::sync::Arc;

use graphmill_engine::{
    Calculator, Contract, Cx, Error, Events, Flow, In, Kind, Offset, OpenCx, Out, Policy, Res,
    Result, Timestamp, register,
};
use graphmill_llm::{ErrorKind, GenerationError};

use super::generations::{EventKind, GenerationEvent, Generations};
use super::limits::{Limits, compiled, need, refuse_what_is_not_formatted};
use super::recorded::{RecordedTokens, Replay};
use super::truncation;
use super::work::PromptWork;
use super::{LanguageModel, LlmOptions};
use crate::payload::{GenerationParams, Tally, Terms, TokenChunk, TokenPrompts};

/// A turn of the loop: permission for the output of one more step of this choice.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Credit {
    /// Timestamp of the prompts that the choice answers.
    pub prompt: Timestamp,
    /// Number of the choice among those of all these prompts, counted from 0.
    pub index: u32,
}

/// Generates tokens for prompts, all choices at once, batched with those of all other sessions of
/// the same model.
///
/// A packet on `TOKENS` has prompts, and the packet on `PARAMS` at the same timestamp has their
/// parameters. Without parameters, nothing is generated for the prompts. Packets are served one
/// after the other, in order, and later ones wait in the queues. A session can have any number of
/// them, for example in a loop.
///
/// Each step of a choice gives one packet on `TOKENS` and one on `LOOPBACK`, at the same timestamp.
/// The first packets have the timestamp of the prompts, and the timestamps of the others count up
/// from it. If these timestamps reach those of later prompts, the later ones continue after them;
/// each chunk names the prompts it belongs to. The back edge returns the `LOOPBACK` packet, and
/// with it the engine's credit for one more step. While a client does not read, the loop stops and
/// the sequence is left out of batches. Without a back edge the credit returns at once. The node
/// closes when no more prompts can come and all choices have ended.
///
/// A request takes at most half of the free places in the engine's queue. Its other prompts and
/// choices follow when earlier ones have begun.
///
/// Images of a prompt are encoded before it is submitted, by the model's projector (`mmproj`), one
/// at a time. Encoded images are cached for requests with the same image.
///
/// The node defines the resource it names: model, vocabulary and chat template. Other nodes that
/// name it share it.
///
/// ```pbtxt
/// input_stream: "TOKENS:prompts"
/// input_stream: "PARAMS:params"
/// output_stream: "TOKENS:tokens"
/// node {
///   name: "llm"
///   calculator: "LLMCalculator"
///   input_side_packet: "LLM_NODE_RESOURCES:llm"
///   input_stream: "TOKENS:prompts"
///   input_stream: "PARAMS:params"
///   input_stream: "LOOPBACK:loopback"
///   input_stream_info { tag_index: "LOOPBACK" back_edge: true }
///   output_stream: "TOKENS:tokens"
///   output_stream: "LOOPBACK:loopback"
///   node_options {
///     [type.googleapis.com/mediapipe.LLMCalculatorOptions] { models_path: "./" cache_size: 2 }
///   }
/// }
/// ```
pub struct Llm {
    model: Arc<LanguageModel>,
    limits: Limits,
    /// Inputs, with their timestamps, that wait for each other or for the end of earlier ones.
    prompts: Option<(Timestamp, TokenPrompts)>,
    params: Option<(Timestamp, GenerationParams)>,
    /// Generations of the current packet.
    work: Option<PromptWork>,
    /// True once a packet was accepted.
    has_worked: bool,
    /// Recorded tokens to emit instead, if an earlier run is replayed.
    replay: Option<Replay>,
    /// True if credit comes back through the graph.
    looped: bool,
}

/// The port handles of [`Llm`].
#[derive(Copy, Clone, Debug)]
pub struct LlmPorts {
    prompts: In<TokenPrompts>,
    params: In<GenerationParams>,
    credit: In<Credit>,
    tokens: Out<TokenChunk>,
    again: Out<Credit>,
    events: Events<GenerationEvent>,
    model: Res<LanguageModel>,
}

impl Calculator for Llm {
    const NAME: &'static str = "LLMCalculator";
    const DOC: &'static str =
        "Generates tokens for prompts, batched with those of all sessions of the same model.";
    const OPTION_NAMES: &'static [&'static str] = &["mediapipe.LLMCalculatorOptions"];
    type Options = LlmOptions;
    type Ports = LlmPorts;

    fn contract(c: &mut Contract, options: &LlmOptions) -> LlmPorts {
        c.policy(Policy::Immediate);
        c.offset(Offset::Unset);
        // The end of the prompts may become known after the last token.
        c.process_timestamp_bounds();
        options.node.warn_of_ignored();
        let spec = options.model_spec(c);
        LlmPorts {
            prompts: c.input("TOKENS"),
            params: c.input("PARAMS"),
            credit: c.optional("LOOPBACK"),
            tokens: c.output("TOKENS"),
            again: c.optional_output("LOOPBACK"),
            events: c.events(),
            model: c.resource("LLM_NODE_RESOURCES", Some(spec)),
        }
    }

    fn open(options: &LlmOptions, io: LlmPorts, cx: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self {
            model: cx.resource(io.model),
            limits: Limits::new(options),
            prompts: None,
            params: None,
            work: None,
            has_worked: false,
            replay: RecordedTokens::take_replay(cx.run(), cx.node_name()),
            looped: io.credit.is_connected() && io.again.is_connected(),
        })
    }

    fn process(&mut self, io: LlmPorts, cx: &mut Cx<'_>) -> Result<Flow> {
        match cx.event(io.events) {
            Some(event) => self.take_event(io, cx, event)?,
            None => self.take_inputs(io, cx),
        }
        if self.work.as_ref().is_some_and(PromptWork::is_done) {
            self.work = None;
        }
        while self.work.is_none()
            && let Some((time, prompts, params)) = self.next(io, cx)
        {
            self.serve(io, cx, (time, prompts), &params)
                .map_err(|error| error.at_time(time))?;
        }
        if let Some(replay) = &mut self.replay {
            replay.play(io.tokens, self.looped.then_some(io.again), cx)?;
        }
        let is_over = |settled: Timestamp| settled >= Timestamp::MAX;
        let no_prompts = self.prompts.is_none() && is_over(cx.settled(io.prompts));
        let no_params = self.params.is_none() && is_over(cx.settled(io.params));
        let is_idle = self.work.is_none() && self.replay.as_ref().is_none_or(Replay::is_done);
        let ends = is_idle && (no_prompts || no_params);
        Ok(if ends { Flow::Stop } else { Flow::Continue })
    }

    fn waits_for(&self) -> Option<String> {
        self.work.as_ref().and_then(PromptWork::waits_for)
    }
}
register!(Llm);

impl Llm {
    /// Takes the inputs of this call. Later ones wait until these are served.
    fn take_inputs(&mut self, io: LlmPorts, cx: &mut Cx<'_>) {
        if let Some(credit) = cx.take(io.credit) {
            match (&mut self.replay, &mut self.work) {
                (Some(replay), _) => replay.granted(credit),
                (None, Some(work)) if work.prompt == credit.prompt => work.grant(credit.index),
                // It belongs to a choice that has ended.
                (None, _) => {}
            }
        }
        if let Some(prompts) = cx.take(io.prompts) {
            self.prompts = Some((cx.settled(io.prompts), prompts));
            cx.out().pause(io.prompts);
        }
        if let Some(params) = cx.take(io.params) {
            self.params = Some((cx.settled(io.params), params));
            cx.out().pause(io.params);
        }
    }

    /// Returns the next prompts with their parameters, once both are there. Prompts and parameters
    /// without a counterpart are dropped.
    fn next(
        &mut self,
        io: LlmPorts,
        cx: &mut Cx<'_>,
    ) -> Option<(Timestamp, TokenPrompts, GenerationParams)> {
        let prompts = self.prompts.as_ref().map(|(time, _)| *time);
        let params = self.params.as_ref().map(|(time, _)| *time);
        let (prompts_known, params_known) = (cx.settled(io.prompts), cx.settled(io.params));
        let takes_prompts = prompts.is_some_and(|time| params.unwrap_or(params_known) >= time);
        let takes_params = params.is_some_and(|time| prompts.unwrap_or(prompts_known) >= time);
        let prompts = self.prompts.take_if(|_| takes_prompts);
        let params = self.params.take_if(|_| takes_params);
        if prompts.is_some() {
            cx.out().resume(io.prompts);
        }
        if params.is_some() {
            cx.out().resume(io.params);
        }
        let ((time, prompts), (_, params)) = prompts.zip(params)?;
        Some((time, prompts, params))
    }

    /// Starts the generations of a packet of prompts.
    fn serve(
        &mut self,
        io: LlmPorts,
        cx: &mut Cx<'_>,
        (time, TokenPrompts(mut prompts)): (Timestamp, TokenPrompts),
        params: &GenerationParams,
    ) -> Result<()> {
        if let Some(replay) = &mut self.replay {
            replay.asked(time);
            return Ok(());
        }
        let lowered = self.limits.lowered(params);
        let context = self.model.engine().context_length();
        let begin = self.model.vocab().bos();
        truncation::cut(&mut prompts, params.truncation, context, begin)?;
        self.limits.check_prompts(&prompts)?;
        // A refused request must not use up any limit of its key.
        if let Some(terms) = Terms::find(cx.run()) {
            let most = lowered.or(params.max_tokens);
            terms
                .quota
                .reserve(&need(&prompts, params, most, context as u64))?;
        }
        if let Some(tally) = Tally::find(cx.run()) {
            let tokens: usize = prompts.iter().map(|prompt| prompt.tokens.len()).sum();
            tally.count(cx.node_name(), |counts| {
                counts.submit(tokens as u32);
                counts.lowered = lowered;
            });
        }
        // The request is checked completely before anything is submitted.
        let engine = self.model.engine();
        let max_tokens = self.limits.max_tokens(params)?;
        let speculation = self.limits.speculation(params, &engine)?;
        let constraint = compiled(params)?;
        refuse_what_is_not_formatted(params)?;
        let quota = Terms::find(cx.run()).map(|terms| Arc::clone(&terms.quota));
        let generations = Generations::new(
            engine,
            (time, prompts),
            params,
            (max_tokens, speculation),
            constraint,
            (cx.sender(io.events), quota),
        )?;
        let follows = std::mem::replace(&mut self.has_worked, true);
        let model = Arc::clone(&self.model);
        let site = (&**cx.run(), cx.node_name());
        let prompts = (time, params.n);
        let work = PromptWork::new(site, model, prompts, generations, follows)?;
        self.work = Some(work);
        Ok(())
    }

    fn take_event(&mut self, io: LlmPorts, cx: &mut Cx<'_>, event: GenerationEvent) -> Result<()> {
        let work = self.work.as_mut();
        let Some(work) = work.filter(|work| work.prompt == event.prompt) else {
            // It was on its way when the last choice ended.
            return Ok(());
        };
        let site = (&**cx.run(), &Arc::clone(cx.node_name()));
        let chunk = match event.kind {
            EventKind::Step { index, output } => work.step(site, index, output)?,
            EventKind::Stop { index } => {
                work.stop(site, index);
                None
            }
            EventKind::Encoded(encoded) => {
                encoded.map_err(failed)?;
                work.begin(site)?;
                None
            }
        };
        let Some(chunk) = chunk else {
            return Ok(());
        };
        let time = cx.time().max(chunk.prompt);
        let (prompt, index, finish) = (chunk.prompt, chunk.index, chunk.finish);
        if finish.is_none() && !self.looped {
            work.grant(index);
        }
        cx.emit_at(io.tokens, time, chunk);
        if finish.is_none() && self.looped {
            cx.emit_at(io.again, time, Credit { prompt, index });
        }
        Ok(())
    }
}

/// Converts an engine's failure to an error for the client.
pub(crate) fn failed(error: GenerationError) -> Error {
    let kind = match error.kind {
        ErrorKind::Internal => Kind::Internal,
        ErrorKind::ResourceExhausted => Kind::ResourceExhausted,
        ErrorKind::Unavailable => Kind::Unavailable,
        ErrorKind::Constraint | ErrorKind::Adapters => Kind::InvalidArgument,
    };
    let code = (error.kind == ErrorKind::Constraint).then_some("invalid_constraint");
    let failed = Error::new(kind, error.message.clone()).with_source(error);
    match code {
        Some(code) => failed.with_code(code),
        None => failed,
    }
}
