//! One generation inside the engine: its tokens, its cells, its credit and its end.

use std::borrow::Cow;
use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use super::recovery::Soundness;
use super::request::{Entry, GenerationRequest};
use super::standing::Standing;
use crate::cache::{KvCells, Newcomer, ShareGroup};
use crate::constrain::{Matching, Reasoning};
use crate::measure::Moments;
use crate::model::vocab::Vocab;
use crate::protocol::{FinishReason, SequenceId, StepOutput, Token, TokenLogprob, Usage};
use crate::sampler::{SampledToken, Sampler};
use crate::schedule::turns::Owner;
use crate::schedule::{Row, RowWork};
use crate::speculate::{Drafting, KEPT_HIDDEN, Speculation};
use crate::vision::PlacedTile;
use crate::worker::OutputReceiver;

/// A sequence from its submission to its end.
pub(crate) struct Sequence {
    pub(crate) id: SequenceId,
    /// The request, without the parts that became other fields.
    pub(super) request: GenerationRequest,
    /// Position in the fair order, as in [`Row::rank`].
    pub(crate) rank: i64,
    /// Time of queueing, as in [`Row::queued`].
    pub(crate) queued: i64,
    /// Priority, converted to a head start in microseconds.
    pub(crate) head_start: i64,
    /// Tokens of the prompt, followed by the generated ones.
    pub(crate) tokens: Vec<Token>,
    pub(crate) cells: KvCells,
    /// Shares cells with sequences of the same group only, and computes with its adapters.
    pub(crate) group: ShareGroup,
    pub(super) soundness: Soundness,
    pub(crate) last_step: u64,
    pub(crate) sampler: Sampler,
    /// State of the constraint; `None` if the request has none.
    pub(super) matching: Option<Box<Matching>>,
    /// State of the limit on reasoning; `None` if the request has none.
    pub(super) reasoning: Option<Box<Reasoning>>,
    /// Drafting of the sequence; `None` if the request did not ask for it.
    pub(crate) speculation: Option<Box<Speculation>>,
    /// Rows of logits that the step computed for the sequence: of its last token and of its drafts.
    /// Empty between steps.
    pub(crate) rows: Range<usize>,
    /// Rows of prompt tokens whose successors' log probabilities are requested; they precede
    /// `rows`. Empty between steps.
    pub(crate) prompt_rows: Range<usize>,
    /// Log probabilities of the prompt from its second token on, as long as some are missing.
    pub(crate) prompt_logprobs: Option<Vec<TokenLogprob>>,
    /// Tokens chosen from `rows`; `None` if there was none to choose. Empty between steps.
    pub(crate) sampled: SmallVec<[Option<SampledToken>; 1]>,
    /// True if it was admitted before. Then it no longer counts against the bound of the queue.
    pub(crate) was_admitted: bool,
    pub(crate) sink: Arc<OutputReceiver>,
    pub(crate) moments: Moments,
    pub(super) prompt_tokens: u32,
    /// Number of prompt tokens that are positions of sounds.
    sound_tokens: u32,
    /// Number of prompt tokens that were reused when it was first admitted.
    cached_tokens: u32,
    /// Maximum number of tokens, prompt and generated.
    pub(super) token_limit: u32,
}

/// The credit of a sequence whose graph has no loop.
pub(super) const UNLIMITED: u32 = u32::MAX;

impl Sequence {
    /// Creates a sequence whose prompt leaves room for at least one token of the `context`.
    pub(crate) fn new(
        id: SequenceId,
        (rank, head_start): (i64, i64),
        mut request: GenerationRequest,
        group: ShareGroup,
        context: u32,
        vocab: &Arc<dyn Vocab>,
    ) -> Self {
        let prompt_tokens = request.prompt.len() as u32;
        // The text tokens of the prompt, in which repetitions are looked for.
        let mut text = Cow::Borrowed(&request.prompt);
        if !request.tiles.is_empty() {
            text.to_mut().retain(|token| vocab.contains(*token));
        }
        let sounds = request.tiles.iter().filter(|tile| tile.tile().is_sound());
        let sound_tokens = sounds.map(|tile| tile.shape().positions).sum();
        let token_limit = match request.max_tokens {
            Some(max_tokens) => prompt_tokens.saturating_add(max_tokens).min(context),
            None => context,
        };
        // The sequence has its place itself, so one that was reserved elsewhere is free.
        request.entry = Entry::default();
        Self {
            id,
            rank,
            queued: rank,
            head_start,
            sampler: Sampler::new(mem::take(&mut request.sampling), &text).with_vocab(&text, vocab),
            matching: (request.constraint.take()).map(|it| Box::new(it.matching())),
            reasoning: (request.reasoning_limit.take())
                .map(|limit| Box::new(Reasoning::new(limit))),
            speculation: request
                .speculation
                .filter(|_| request.tiles.is_empty())
                .map(|params| Box::new(Speculation::new(params, &request.prompt))),
            tokens: mem::take(&mut request.prompt),
            cells: KvCells::default(),
            rows: 0..0,
            prompt_rows: 0..0,
            prompt_logprobs: request.prompt_logprobs.map(|_| Vec::new()),
            sampled: SmallVec::new(),
            group,
            soundness: Soundness::default(),
            cached_tokens: 0,
            last_step: 0,
            was_admitted: false,
            sink: Arc::new(OutputReceiver::new(Arc::clone(&request.sink))),
            moments: Moments::now(),
            prompt_tokens,
            sound_tokens,
            token_limit,
            request,
        }
    }

    /// Owner in the fair order: the tenant, or the request if there is none.
    pub(crate) fn owner(&self) -> Owner {
        let by_request = Owner::Request(self.request.request);
        self.request.tenant.map_or(by_request, Owner::Tenant)
    }

    pub(crate) fn row(&self) -> Row {
        Row {
            id: self.id,
            request: self.request.request,
            owner: self.owner(),
            turn: 0,
            request_turn: 0,
            rank: self.rank,
            queued: self.queued,
            slot: self.cells.slot(),
            tokens: self.tokens.len() as u32,
            computed: self.cells.computed(),
            owned: self.cells.computed(),
            deferred: false,
            at_once: self.at_once(self.cells.computed()),
            remaining: self.remaining(),
            drafts: self.drafts().len() as u32,
            has_credit: self.has_credit(),
            last_step: self.last_step,
        }
    }

    /// Returns true if a step that computes the token at this position must return its logits. They
    /// choose the next token, or give the log probability of the prompt's next token.
    pub(crate) fn wants_row(&self, position: u32) -> bool {
        position + 1 >= self.tokens.len() as u32 || self.wants_prompt_row(position)
    }

    /// Returns true if the logits give a log probability of the prompt that is still missing.
    pub(crate) fn wants_prompt_row(&self, position: u32) -> bool {
        let found = self.prompt_logprobs.as_ref().map(Vec::len);
        position + 1 < self.prompt_tokens && found.is_some_and(|found| position as usize >= found)
    }

    /// Returns the first tile that ends behind this position.
    fn tile_from(&self, next: u32) -> Option<&PlacedTile> {
        let tiles = &self.request.tiles;
        tiles.get(tiles.partition_point(|tile| tile.end() <= next))
    }

    /// Returns the tile that contains the next position to compute, if there is one.
    pub(crate) fn tile(&self) -> Option<&PlacedTile> {
        let next = self.cells.computed();
        self.tile_from(next).filter(|tile| tile.at() <= next)
    }

    /// Number of positions from this one on that must be computed in one step: those of a tile that
    /// looks ahead. 0 for all others.
    pub(crate) fn at_once(&self, next: u32) -> u32 {
        let tile = self.tile_from(next).filter(|tile| tile.at() == next);
        let shape = tile.map(PlacedTile::shape);
        let shape = shape.filter(|shape| shape.looks_ahead);
        shape.map_or(0, |shape| shape.positions)
    }

    /// The next boundary of an image. A batch must stop there: tokens and embeddings are computed
    /// in different ways.
    pub(crate) fn next_border(&self) -> Option<u32> {
        let next = self.cells.computed();
        let tile = self.tile_from(next)?;
        let borders = [tile.at(), tile.end()];
        borders.into_iter().find(|border| *border > next)
    }

    /// Returns the first tokens, whose cells may come from other sequences. The last token is
    /// always computed, because its logits choose the next one. So are tokens whose logits give log
    /// probabilities of the prompt.
    pub(crate) fn shareable(&self) -> &[Token] {
        let end = match &self.prompt_logprobs {
            Some(found) => found.len(),
            None => self.tokens.len() - 1,
        };
        &self.tokens[..end]
    }

    /// Number of its first cells that later prompts can repeat; 0 for a prompt that begins with
    /// vectors, which are new in each request.
    pub(super) fn repeatable(&self) -> u32 {
        match self.request.tiles.first() {
            Some(first) if first.at() == 0 && first.tile().is_given() => 0,
            _ => self.cells.computed(),
        }
    }

    /// Describes the sequence to the prefix cache for its admission.
    pub(crate) fn newcomer(&self) -> Newcomer<'_> {
        Newcomer {
            id: self.id,
            group: &self.group,
            tokens: &self.tokens,
            shareable: self.shareable(),
            stops: self.cells.stops(),
            last_turn: self.request.last_turn,
            is_new: !self.was_admitted,
        }
    }

    /// Sets the cells of an admitted sequence. The first time, also records the number of reused
    /// prompt tokens.
    pub(crate) fn admitted(&mut self, cells: KvCells, step: u64) {
        self.cells = cells;
        self.last_step = step;
        if !self.was_admitted {
            self.cached_tokens = self.cells.computed().min(self.prompt_tokens);
        }
        self.was_admitted = true;
    }

    pub(crate) fn grant(&mut self, credits: u32) {
        self.request.credits = self.request.credits.saturating_add(credits);
    }

    /// Assigns `asked` rows of logits of the batch, from `first` on, to the sequence.
    pub(crate) fn take_rows(&mut self, work: &RowWork, first: usize, asked: usize) {
        let reaches_end = (self.cells.computed() + work.tokens) as usize == self.tokens.len();
        let chooses = if reaches_end {
            1 + work.drafts as usize
        } else {
            0
        };
        self.prompt_rows = first..first + asked - chooses;
        self.rows = self.prompt_rows.end..first + asked;
    }

    /// Returns true if the batch has logits for the sequence.
    pub(crate) fn has_rows(&self) -> bool {
        !self.rows.is_empty() || !self.prompt_rows.is_empty()
    }

    /// Returns true if the text must match a constraint.
    pub(crate) fn is_constrained(&self) -> bool {
        self.matching.is_some()
    }

    /// Returns true if MTP layers may draft from the hidden state behind the token at this
    /// position.
    pub(crate) fn wants_hidden(&self, position: u32) -> bool {
        let speculation = self.speculation.as_ref();
        position + KEPT_HIDDEN >= self.tokens.len() as u32
            && speculation.is_some_and(|speculation| speculation.is_by_model())
    }

    /// Returns the sequence's standing; `None` without a slot.
    pub(super) fn standing(&self) -> Option<Standing> {
        let slot = self.cells.slot()?.0;
        let prompt = self.prompt_tokens;
        Some(match (self.generated(), self.prompt_left()) {
            (0, left) if left > 0 => Standing::Prefills {
                slot,
                computed: prompt - left,
                prompt,
            },
            (generated, _) => Standing::Generates {
                slot,
                generated,
                limit: self.token_limit - prompt,
            },
        })
    }

    /// Number of drafts that the next step could use. A decoding sequence gets one token more than
    /// its accepted drafts.
    pub(super) fn useful_drafts(&self) -> u32 {
        if self.decodes() {
            self.remaining().saturating_sub(1)
        } else {
            0
        }
    }

    /// Number of prompt tokens that have no cell yet.
    pub(crate) fn prompt_left(&self) -> u32 {
        self.prompt_tokens.saturating_sub(self.cells.computed())
    }

    /// Creates an output without a token.
    pub(super) fn output(&self, finish: Option<FinishReason>, now: Instant) -> StepOutput {
        StepOutput::empty(finish, self.usage(now), now)
    }

    pub(super) fn generated(&self) -> u32 {
        self.tokens.len() as u32 - self.prompt_tokens
    }

    /// Time without a slot so far.
    pub(super) fn queued(&self, now: Instant) -> Duration {
        self.moments.slot_wait.until(now)
    }

    /// Counts of the sequence's tokens, and its times so far.
    pub(crate) fn usage(&self, now: Instant) -> Usage {
        Usage {
            prompt_tokens: self.prompt_tokens,
            cached_tokens: self.cached_tokens,
            sound_tokens: self.sound_tokens,
            generated_tokens: self.generated(),
            queued: self.queued(now),
            drafts: self.speculation.as_ref().map(|it| it.counts()),
        }
    }
}
