//! The generations for the prompts of one packet.

use std::sync::{Arc, atomic::Ordering};
use std::time::{Duration, Instant};

use graphmill_engine::{Result, RunCx, Timestamp};
use graphmill_llm::{DraftCounts, Encoding, FinishReason, StepOutput, Usage};

use super::calculator::failed;
use super::generations::{Generations, RunningChoice};
use super::{LanguageModel, waits};
use crate::payload::{EchoedTokens, Finish, OpenWait, Tally, TallyCounts, TokenChunk};

/// Maximum number of choices whose waits are described one by one.
const MOST_DESCRIBED: usize = 4;

/// The run and the name of a node.
type NodeSite<'a> = (&'a RunCx, &'a Arc<str>);

/// Generations for the prompts of one packet.
pub(super) struct PromptWork {
    model: Arc<LanguageModel>,
    /// Timestamp of the packet of prompts.
    pub(super) prompt: Timestamp,
    /// Number of choices for each prompt.
    n: u32,
    /// True if other prompts of the session came before.
    follows: bool,
    /// The submitted choices; `None` once they have ended.
    choices: Vec<Option<RunningChoice>>,
    /// Generations, some of which are not submitted yet.
    generations: Option<Generations>,
    /// Encoding of the prompts' images, until it is done.
    encoding: Option<Encoding>,
    /// Number of choices that have not ended.
    running: usize,
    clock: TokenClock,
}

/// Times of the tokens of this work.
struct TokenClock {
    submitted: Instant,
    /// Time of the last token.
    last: Option<Instant>,
    /// True once a generation had an output.
    began: bool,
}

impl PromptWork {
    /// Starts to encode the images of the prompts, or submits the first choices if there are none.
    pub(super) fn new(
        site: NodeSite<'_>,
        model: Arc<LanguageModel>,
        (prompt, n): (Timestamp, u32),
        generations: Generations,
        follows: bool,
    ) -> Result<Self> {
        let mut work = Self {
            model,
            prompt,
            n: n.max(1),
            follows,
            choices: Vec::new(),
            running: generations.count(),
            encoding: generations.encode()?,
            generations: Some(generations),
            clock: TokenClock {
                submitted: Instant::now(),
                last: None,
                began: false,
            },
        };
        if work.encoding.is_none() {
            work.begin(site)?;
        }
        Ok(work)
    }

    /// Returns true once all choices have ended.
    pub(super) fn is_done(&self) -> bool {
        self.running == 0
    }

    /// Describes for what the choices wait outside of the graph.
    pub(super) fn waits_for(&self) -> Option<String> {
        let engine = self.model.engine();
        if let Some(encoding) = &self.encoding {
            return Some(waits::encoder(&engine, encoding.has_begun()));
        }
        let standing = |choice: &RunningChoice| match choice.sequence.standing() {
            Some(standing) => standing.to_string(),
            None => "the last ones are being delivered".to_owned(),
        };
        // The others wait for credit.
        let able = self.choices.iter().flatten().filter(|it| it.credits > 0);
        let mut told: Vec<String> = able.take(MOST_DESCRIBED).map(standing).collect();
        if told.is_empty() {
            return None;
        }
        // These include choices that are not submitted yet.
        if self.running > told.len() {
            told.push(format!("and {} more", self.running - told.len()));
        }
        let model = &engine.info().model;
        Some(format!("tokens of engine `{model}`: {}", told.join("; ")))
    }

    /// Submits the first choices, whose images are encoded.
    pub(super) fn begin(&mut self, (run, node): NodeSite<'_>) -> Result<()> {
        self.encoding = None;
        if let Some(generations) = &mut self.generations {
            self.choices = generations.begin(self.follows)?;
        }
        if let Some(tally) = Tally::find(run) {
            let first = self.choices.first().and_then(Option::as_ref);
            let wait = first.map(|choice| OpenWait {
                slot: Arc::clone(choice.sequence.slot_wait()),
                counted: Duration::ZERO,
                since: self.clock.submitted,
            });
            tally.count(node, |counts| counts.wait = wait);
        }
        Ok(())
    }

    /// Takes the output of a step and returns its chunk; `None` if its choice has ended.
    pub(super) fn step(
        &mut self,
        (run, node): NodeSite<'_>,
        index: u32,
        output: StepOutput,
    ) -> Result<Option<TokenChunk>> {
        let first_of_prompt = index.is_multiple_of(self.n);
        let Some(choice) = choice(&mut self.choices, index) else {
            // The output was on its way when the choice ended.
            return Ok(None);
        };
        if choice.stopped.load(Ordering::Relaxed) {
            self.stop((run, node), index);
            return Ok(None);
        }
        choice.credits = choice.credits.saturating_sub(1);
        let begins = !std::mem::replace(&mut choice.began, true);
        let finish = match output.finish {
            None => None,
            Some(FinishReason::Stop) => Some(Finish::Stop),
            Some(FinishReason::Length) => Some(Finish::Length),
            Some(FinishReason::Error(error)) => return Err(failed(error)),
        };
        let usage = output.usage;
        let before = std::mem::replace(&mut choice.tallied, usage);
        if let Some(tally) = Tally::find(run) {
            let clock = &mut self.clock;
            tally.count(node, |counts| {
                clock.count(counts, &before, &usage, output.at);
                counts.wait = finish.is_none().then(|| OpenWait {
                    slot: Arc::clone(choice.sequence.slot_wait()),
                    counted: usage.queued,
                    since: output.at,
                });
                if begins && first_of_prompt {
                    counts.cached += usage.cached_tokens;
                    counts.sounds += usage.sound_tokens;
                }
                counts.finishes.extend(finish);
            });
        }
        let stop = choice.stop.clone();
        let echo = choice.echo.take().map(|tokens| {
            Box::new(EchoedTokens {
                tokens,
                logprobs: output.prompt_logprobs,
            })
        });
        let mut ids = Vec::new();
        if choice.tells_ids {
            ids.extend(output.tokens.iter().copied().chain(output.end_token));
        }
        if let Some(reply) = &mut choice.reply {
            reply.tokens.extend_from_slice(&output.tokens);
        }
        if let Some(reply) = choice.reply.take_if(|_| finish.is_some()) {
            let (vocab, history) = (&**self.model.vocab(), self.model.history());
            history.remember(vocab, &reply.asked, reply.prompt, &reply.tokens);
        }
        if begins {
            self.follow()?;
        }
        if finish.is_some() {
            self.end(index);
        }
        Ok(Some(TokenChunk {
            prompt: self.prompt,
            index,
            echo,
            tokens: output.tokens,
            ids,
            logprobs: output.logprobs,
            finish,
            usage,
            stop,
        }))
    }

    /// Submits the next choice, for one that no longer waits.
    fn follow(&mut self) -> Result<()> {
        if let Some(generations) = &mut self.generations {
            match generations.follow()? {
                Some(choice) => self.choices.push(Some(choice)),
                None => self.generations = None,
            }
        }
        Ok(())
    }

    /// Gives a choice credit for the output of one more step.
    pub(super) fn grant(&mut self, index: u32) {
        if let Some(choice) = choice(&mut self.choices, index)
            && !choice.stopped.load(Ordering::Relaxed)
        {
            choice.credits += 1;
            choice.sequence.grant(1);
        }
    }

    /// Ends a choice for a later node, unless it has ended already.
    pub(super) fn stop(&mut self, (run, node): NodeSite<'_>, index: u32) {
        if self.end(index)
            && let Some(tally) = Tally::find(run)
        {
            tally.count(node, |counts| counts.finishes.push(Finish::Stop));
        }
    }

    /// Ends a choice. Returns false if it had already ended.
    fn end(&mut self, index: u32) -> bool {
        let place = self.choices.get_mut(index as usize);
        let ends = place.and_then(Option::take).is_some();
        self.running -= usize::from(ends);
        ends
    }
}

fn choice(choices: &mut [Option<RunningChoice>], index: u32) -> Option<&mut RunningChoice> {
    choices.get_mut(index as usize)?.as_mut()
}

impl TokenClock {
    /// Counts the tokens and times of a choice's step.
    fn count(&mut self, counts: &mut TallyCounts, before: &Usage, usage: &Usage, now: Instant) {
        let elapsed = now.duration_since(self.last.unwrap_or(self.submitted));
        // While a further choice waits for its admission, others run.
        let follows = std::mem::replace(&mut self.began, true) && *before == Usage::default();
        let told = usage.queued.saturating_sub(before.queued);
        let waited = if follows {
            Duration::ZERO
        } else {
            told.min(elapsed)
        };
        *counts.queued.get_or_insert_default() += waited;
        add_generated(counts, before, usage);
        if usage.generated_tokens == before.generated_tokens {
            return;
        }
        match self.last.replace(now) {
            None => {
                counts.first.get_or_insert(now);
                *counts.prefill.get_or_insert_default() += elapsed.saturating_sub(usage.queued);
            }
            Some(_) => counts.decoding += elapsed.saturating_sub(waited),
        }
    }
}

/// Adds the tokens that a choice has generated since its usage was `before`.
pub(super) fn add_generated(counts: &mut TallyCounts, before: &Usage, usage: &Usage) {
    counts.generated += usage
        .generated_tokens
        .saturating_sub(before.generated_tokens);
    counts.draft(usage.drafts.map(|now| {
        let old = before.drafts.unwrap_or_default();
        DraftCounts {
            accepted: now.accepted.saturating_sub(old.accepted),
            rejected: now.rejected.saturating_sub(old.rejected),
        }
    }));
}
