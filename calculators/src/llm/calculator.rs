//! `LLMCalculator`: generates tokens.

use std::sync::{Arc, atomic::Ordering};

use graphmill_engine::{
    Calculator, Contract, Cx, Error, EventSender, Events, Flow, In, Kind, Offset, OpenCx, Out,
    Policy, Res, Result, Timestamp, register,
};
use graphmill_llm::{Encoding, ErrorKind, FinishReason, GenerationError, StepOutput};

use super::generations::{Choice, Event, Generations, Reply};
use super::limits::{Limits, compiled, need, refuse_what_is_not_formatted};
use super::recorded::{RecordedTokens, Replay};
use super::{LanguageModel, LlmOptions, waits};
use crate::payload::{
    EchoedTokens, Finish, GenerationParams, Quota, Tally, Terms, TokenChunk, TokenPrompt,
    TokenPrompts,
};

/// A turn of the loop: the output of one more step of this choice may come.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Credit {
    /// The choice.
    pub index: u32,
}

/// Generates tokens for prompts, all choices at once, batched with those of every other session of
/// the same model.
///
/// `TOKENS` and `PARAMS` are read once. Each step of a choice gives one packet on `TOKENS` and one
/// on `LOOPBACK`, at the same timestamp, counted from 0. The back edge returns the `LOOPBACK`
/// packet, and with it the engine's credit for one more step: while a client does not read, the
/// loop stands still and the sequence sits out the batches. Without a back edge the credit returns
/// when the packet is put out. The node closes when all choices have ended, or when there are to be
/// none: `PARAMS` ended without a packet.
///
/// Where a request has more prompts and choices than half of the places that are left in the
/// engine's queue, the others follow when earlier ones have begun.
///
/// Images of a prompt are encoded before it is submitted, by the model's projector (`mmproj`), which
/// encodes one at a time; what was encoded is kept for requests that have the same image.
///
/// The node defines the resource it names: model, vocabulary and chat template, for the nodes that
/// name it too.
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
    prompts: Option<TokenPrompts>,
    params: Option<GenerationParams>,
    /// When the prompts came. Parameters that do not come until then never will: nothing is to be
    /// generated.
    asked_at: Timestamp,
    /// The choices that were submitted; none before the first.
    choices: Option<Vec<Option<Choice>>>,
    /// Those of them that are not submitted yet.
    generations: Option<Generations>,
    /// The images of the prompts, as long as they are not encoded.
    encoding: Option<Encoding>,
    /// What is put out instead, where an earlier run is replayed.
    replay: Option<Replay>,
    /// Choices that have not ended.
    running: usize,
    /// Whether credit comes back through the graph.
    looped: bool,
}

/// The ports of [`Llm`].
#[derive(Copy, Clone, Debug)]
pub struct LlmPorts {
    prompts: In<TokenPrompts>,
    params: In<GenerationParams>,
    credit: In<Credit>,
    tokens: Out<TokenChunk>,
    again: Out<Credit>,
    events: Events<Event>,
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
        options.warn_of_ignored();
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
            asked_at: Timestamp::MAX,
            choices: None,
            generations: None,
            encoding: None,
            replay: RecordedTokens::of(cx.run(), cx.node_name()),
            running: 0,
            looped: io.credit.is_connected() && io.again.is_connected(),
        })
    }

    fn process(&mut self, io: LlmPorts, cx: &mut Cx<'_>) -> Result<Flow> {
        if self.replay.is_some() {
            return self.play(io, cx);
        }
        match cx.event(io.events) {
            Some(Event::Step { index, output }) => self.step(io, cx, index, output)?,
            Some(Event::Stop { index }) => self.stopped(cx, index),
            Some(Event::Encoded(encoded)) => {
                encoded.map_err(failed)?;
                self.begin()?;
            }
            None => self.take_inputs(io, cx)?,
        }
        let unasked = self.params.is_none() && cx.settled(io.params) >= self.asked_at;
        let ended = unasked || (self.choices.is_some() && self.running == 0);
        Ok(if ended { Flow::Stop } else { Flow::Continue })
    }

    fn waits_for(&self) -> Option<String> {
        let engine = self.model.engine();
        if let Some(encoding) = &self.encoding {
            return Some(waits::encoder(&engine, encoding.has_begun()));
        }
        let choices = self.choices.iter().flatten().flatten();
        waits::tokens(&engine, choices, self.running)
    }
}
register!(Llm);

impl Llm {
    fn take_inputs(&mut self, io: LlmPorts, cx: &mut Cx<'_>) -> Result<()> {
        if let Some(credit) = cx.take(io.credit) {
            self.grant(credit.index);
        }
        if let Some(prompts) = cx.take(io.prompts) {
            self.prompts = Some(prompts);
            self.asked_at = cx.time();
        }
        if let Some(params) = cx.take(io.params) {
            self.params = Some(params);
        }
        if self.choices.is_none()
            && self.generations.is_none()
            && let (Some(prompts), Some(params)) = (&mut self.prompts, &self.params)
        {
            let prompts = std::mem::take(&mut prompts.0);
            // What is refused takes nothing.
            if let Some(terms) = Terms::of(cx.run()) {
                let context = self.model.engine().context_length() as u64;
                terms.quota.reserve(&need(&prompts, params, context))?;
            }
            if let Some(tally) = Tally::of(cx.run()) {
                tally.prompt(prompts.iter().map(|prompt| prompt.tokens.len()).sum());
                tally.submitted();
            }
            let quota = Terms::of(cx.run()).map(|terms| Arc::clone(&terms.quota));
            let told = (cx.sender(io.events), quota);
            let generations = prepare(&self.model, self.limits, prompts, params, told)?;
            self.running = generations.count();
            self.encoding = generations.encode()?;
            self.generations = Some(generations);
            if self.encoding.is_none() {
                self.begin()?;
            }
        }
        Ok(())
    }

    /// Puts out what was recorded, once it is asked for.
    fn play(&mut self, io: LlmPorts, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(prompts) = cx.take(io.prompts) {
            self.prompts = Some(prompts);
            self.asked_at = cx.time();
        }
        self.params = self.params.take().or(cx.take(io.params));
        let credit = cx.take(io.credit);
        let again = self.looped.then_some(io.again);
        let Some(replay) = &mut self.replay else {
            return Ok(Flow::Stop);
        };
        if let Some(credit) = credit {
            replay.granted(credit.index);
        }
        match (&self.prompts, &self.params) {
            (Some(_), Some(_)) => replay.play(io.tokens, again, cx),
            (_, None) if cx.settled(io.params) >= self.asked_at => Ok(Flow::Stop),
            _ => Ok(Flow::Continue),
        }
    }

    /// Submits the first choices, whose images are encoded.
    fn begin(&mut self) -> Result<()> {
        self.encoding = None;
        if let Some(generations) = &mut self.generations {
            self.choices = Some(generations.begin()?);
        }
        Ok(())
    }

    fn step(
        &mut self,
        io: LlmPorts,
        cx: &mut Cx<'_>,
        index: u32,
        output: StepOutput,
    ) -> Result<()> {
        let n = self.params.as_ref().map_or(1, |params| params.n.max(1));
        let first_of_prompt = index.is_multiple_of(n);
        let Some(choice) = self.choice_mut(index) else {
            // it was on its way when the choice ended
            return Ok(());
        };
        if choice.stopped.load(Ordering::Relaxed) {
            self.stopped(cx, index);
            return Ok(());
        }
        choice.credits = choice.credits.saturating_sub(1);
        let begins = !std::mem::replace(&mut choice.began, true);
        if let Some(tally) = Tally::of(cx.run()) {
            let usage = &output.usage;
            if begins && first_of_prompt {
                tally.cached(usage.cached_tokens);
            }
            if begins {
                tally.admitted(usage.queued);
            }
            tally.generated(usage.generated_tokens.saturating_sub(choice.tallied));
            choice.tallied = usage.generated_tokens;
        }
        let finish = match output.finish {
            None => None,
            Some(FinishReason::Stop) => Some(Finish::Stop),
            Some(FinishReason::Length) => Some(Finish::Length),
            Some(FinishReason::Error(error)) => return Err(failed(error)),
        };
        if let (Some(finish), Some(tally)) = (finish, Tally::of(cx.run())) {
            tally.finished(finish);
        }
        let stop = choice.stop.clone();
        let echo = choice.echo.take().map(|tokens| {
            Box::new(EchoedTokens {
                tokens,
                logprobs: output.prompt_logprobs,
            })
        });
        if let Some(reply) = &mut choice.reply {
            reply.tokens.extend_from_slice(&output.tokens);
        }
        if let Some(reply) = choice.reply.take_if(|_| finish.is_some()) {
            let Reply {
                asked,
                prompt,
                tokens,
            } = reply;
            let vocab = &**self.model.vocab();
            self.model
                .history()
                .remember(vocab, &asked, prompt, &tokens);
        }
        cx.emit(
            io.tokens,
            TokenChunk {
                index,
                echo,
                tokens: output.tokens,
                logprobs: output.logprobs,
                finish,
                usage: output.usage,
                stop,
            },
        );
        if begins {
            self.follow()?;
        }
        if finish.is_some() {
            self.end(index);
        } else if self.looped {
            cx.emit(io.again, Credit { index });
        } else {
            self.grant(index);
        }
        Ok(())
    }

    /// Submits the next choice, in the place of one that waits no longer.
    fn follow(&mut self) -> Result<()> {
        if let (Some(choices), Some(generations)) = (&mut self.choices, &mut self.generations) {
            match generations.follow()? {
                Some(choice) => choices.push(Some(choice)),
                None => self.generations = None,
            }
        }
        Ok(())
    }

    fn choice(&self, index: u32) -> Option<&Choice> {
        self.choices.as_ref()?.get(index as usize)?.as_ref()
    }

    fn choice_mut(&mut self, index: u32) -> Option<&mut Choice> {
        self.choices.as_mut()?.get_mut(index as usize)?.as_mut()
    }

    fn grant(&mut self, index: u32) {
        if let Some(choice) = self.choice_mut(index)
            && !choice.stopped.load(Ordering::Relaxed)
        {
            choice.credits += 1;
            choice.sequence.grant(1);
        }
    }

    /// A node behind this one has ended a choice, if it had not ended before.
    fn stopped(&mut self, cx: &Cx<'_>, index: u32) {
        if let (Some(_), Some(tally)) = (self.choice(index), Tally::of(cx.run())) {
            tally.finished(Finish::Stop);
        }
        self.end(index);
    }

    fn end(&mut self, index: u32) {
        let choice = self
            .choices
            .as_mut()
            .and_then(|choices| choices.get_mut(index as usize))
            .and_then(Option::take);
        if choice.is_some() {
            self.running -= 1;
        }
    }
}

/// What a request generates, once it is certain that it can; nothing is submitted yet.
fn prepare(
    model: &Arc<LanguageModel>,
    limits: Limits,
    prompts: Vec<TokenPrompt>,
    params: &GenerationParams,
    told: (EventSender<Event>, Option<Arc<dyn Quota>>),
) -> Result<Generations> {
    let max_tokens = limits.max_tokens(params)?;
    let engine = model.engine();
    let speculation = limits.speculation(params, &engine)?;
    let constraint = compiled(params)?;
    refuse_what_is_not_formatted(params)?;
    let bounds = (max_tokens, speculation);
    Generations::new(engine, prompts, params, bounds, constraint, told)
}

/// Why an engine could not go on.
pub(crate) fn failed(error: GenerationError) -> Error {
    let kind = match error.kind {
        ErrorKind::Internal => Kind::Internal,
        ErrorKind::ResourceExhausted => Kind::ResourceExhausted,
        ErrorKind::Unavailable => Kind::Unavailable,
        ErrorKind::Constraint => Kind::InvalidArgument,
    };
    Error::new(kind, error.message.clone()).with_source(error)
}
