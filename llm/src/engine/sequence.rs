//! One generation inside the engine: its tokens, its cells, its credit and how it ends.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use super::request::{GenerationRequest, OnAdmission};
use super::standing::Standing;
use crate::cache::{KvCells, Newcomer, ShareGroup};
use crate::constrain::{Matching, Reasoning};
use crate::measure::Moments;
use crate::model::vocab::Vocab;
use crate::protocol::{
    FinishReason, RequestId, SequenceId, StepOutput, Tenant, Token, TokenLogprob, TokenSet, Tokens,
    Usage,
};
use crate::sampler::{BadWords, Sampled, Sampler};
use crate::schedule::turns::Owner;
use crate::schedule::{Row, Work};
use crate::speculate::{Drafting, KEPT_HIDDEN, Speculation};
use crate::vision::PlacedTile;
use crate::worker::OutputReceiver;

/// A sequence from its submission to its end.
pub(crate) struct Sequence {
    pub(crate) id: SequenceId,
    /// Whose it is.
    pub(crate) request: RequestId,
    /// For whom.
    pub(crate) tenant: Option<Tenant>,
    /// See [`Row::rank`].
    pub(crate) rank: i64,
    /// See [`Row::queued`].
    pub(crate) queued: i64,
    /// Priority as a head start in microseconds.
    pub(crate) head_start: i64,
    pub(crate) submitted: Instant,
    /// Prompt and generated tokens.
    pub(crate) tokens: Vec<Token>,
    /// The tiles of images in the prompt, in order.
    tiles: Arc<[PlacedTile]>,
    /// Tokens before the last turn of the prompt.
    last_turn: Option<u32>,
    pub(crate) cells: KvCells,
    /// Shares cells with sequences of the same group only, and computes with its adapters.
    pub(crate) group: ShareGroup,
    pub(crate) last_step: u64,
    pub(crate) sampler: Sampler,
    /// Present if the request has a constraint.
    pub(super) matching: Option<Box<Matching>>,
    /// Present if the request limits reasoning.
    pub(super) reasoning: Option<Box<Reasoning>>,
    /// Present if the request asked for it.
    pub(crate) speculation: Option<Box<Speculation>>,
    /// The rows of logits that the step computed for it: of its last token and of its drafts. Empty
    /// between steps.
    pub(crate) rows: Range<usize>,
    /// The rows of prompt tokens whose successors' log probabilities are asked for, before those.
    /// Empty between steps.
    pub(crate) prompt_rows: Range<usize>,
    /// Present as long as log probabilities of the prompt are to be found.
    pub(crate) prompt_logprobs: Option<PromptLogprobs>,
    /// What was chosen from `rows`; `None` if no logit was finite.
    pub(crate) sampled: SmallVec<[Option<Sampled>; 1]>,
    /// Whether it was admitted before, so that it no longer counts against the bound of the queue.
    pub(crate) was_admitted: bool,
    /// Called when it is admitted for the first time, or ends before.
    pub(crate) on_admission: Option<OnAdmission>,
    pub(crate) sink: Arc<OutputReceiver>,
    pub(crate) moments: Moments,
    pub(super) prompt_tokens: u32,
    /// Those of them that are positions of sounds.
    sound_tokens: u32,
    /// Tokens of the prompt that were reused when it was first admitted.
    cached_tokens: u32,
    /// Most tokens, prompt and generated.
    pub(super) token_limit: u32,
    pub(super) min_tokens: u32,
    pub(super) stop_tokens: TokenSet,
    pub(super) ignore_eos: bool,
    pub(super) bad_words: BadWords,
    pub(super) credits: u32,
}

/// The log probabilities of a prompt's tokens, as far as they are known.
pub(crate) struct PromptLogprobs {
    /// How many of the most likely tokens are told of.
    pub(crate) top: usize,
    /// Of the second token, and those after it.
    pub(crate) found: Vec<TokenLogprob>,
}

/// The credit of a sequence whose graph has no loop.
pub(super) const UNLIMITED: u32 = u32::MAX;

impl Sequence {
    /// A sequence whose prompt leaves room for at least one token of the `context`.
    pub(crate) fn new(
        id: SequenceId,
        (rank, head_start): (i64, i64),
        request: GenerationRequest,
        group: ShareGroup,
        context: u32,
        vocab: &Arc<dyn Vocab>,
    ) -> Self {
        let prompt_tokens = request.prompt.len() as u32;
        // What was said in tokens, which is what repetitions are looked for in.
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
        Self {
            id,
            request: request.request,
            tenant: request.tenant,
            rank,
            queued: rank,
            head_start,
            submitted: Instant::now(),
            sampler: Sampler::new(request.sampling, &text).with_vocab(&text, vocab),
            matching: request
                .constraint
                .map(|constraint| Box::new(constraint.matching())),
            reasoning: request
                .reasoning_limit
                .map(|limit| Box::new(Reasoning::new(limit))),
            speculation: request
                .speculation
                .filter(|_| request.tiles.is_empty())
                .map(|params| Box::new(Speculation::new(params, &request.prompt))),
            tokens: request.prompt,
            tiles: request.tiles,
            last_turn: request.last_turn,
            cells: KvCells::default(),
            rows: 0..0,
            prompt_rows: 0..0,
            prompt_logprobs: request.prompt_logprobs.map(|top| PromptLogprobs {
                top: usize::from(top),
                found: Vec::new(),
            }),
            sampled: SmallVec::new(),
            group,
            cached_tokens: 0,
            last_step: 0,
            was_admitted: false,
            on_admission: request.on_admission,
            sink: Arc::new(OutputReceiver::new(request.sink)),
            moments: Moments::now(),
            prompt_tokens,
            sound_tokens,
            token_limit,
            min_tokens: request.min_tokens,
            stop_tokens: request.stop_tokens,
            ignore_eos: request.ignore_eos,
            bad_words: request.bad_words,
            credits: request.credits,
        }
    }

    /// Whose turns it takes.
    pub(crate) fn owner(&self) -> Owner {
        self.tenant
            .map_or(Owner::Request(self.request), Owner::Tenant)
    }

    pub(crate) fn row(&self) -> Row {
        Row {
            id: self.id,
            request: self.request,
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

    /// Whether a step that computes the token at this position has to give its logits: they choose
    /// the next token, or tell how likely the prompt's next token was.
    pub(crate) fn wants_row(&self, position: u32) -> bool {
        position + 1 >= self.tokens.len() as u32 || self.wants_prompt_row(position)
    }

    /// Whether the row tells how likely the prompt's next token was, and that is not known.
    pub(crate) fn wants_prompt_row(&self, position: u32) -> bool {
        let found = |wanted: &PromptLogprobs| wanted.found.len() as u32;
        let unknown = self.prompt_logprobs.as_ref().map(found);
        position + 1 < self.prompt_tokens && unknown.is_some_and(|unknown| position >= unknown)
    }

    /// The tile that the next position to compute is in, if it is in one.
    pub(crate) fn tile(&self) -> Option<&PlacedTile> {
        let next = self.cells.computed();
        let index = self.tiles.partition_point(|tile| tile.end() <= next);
        self.tiles.get(index).filter(|tile| tile.at() <= next)
    }

    /// How many positions from this one on are computed at once or not at all: those of a tile that
    /// looks ahead. 0 for others.
    pub(crate) fn at_once(&self, next: u32) -> u32 {
        let index = self.tiles.partition_point(|tile| tile.at() < next);
        let tile = self.tiles.get(index).filter(|tile| tile.at() == next);
        tile.map_or(0, |tile| {
            let shape = tile.shape();
            if shape.looks_ahead {
                shape.positions
            } else {
                0
            }
        })
    }

    /// The next boundary of an image. A batch must stop there: tokens and embeddings are computed
    /// in different ways.
    pub(crate) fn next_border(&self) -> Option<u32> {
        let next = self.cells.computed();
        let index = self.tiles.partition_point(|tile| tile.end() <= next);
        let tile = self.tiles.get(index)?;
        Some(if tile.at() > next {
            tile.at()
        } else {
            tile.end()
        })
    }

    /// The first tokens, whose cells may come from other sequences. The last token is computed in
    /// any case: its logits choose the next one. So are those whose logits tell how likely the
    /// prompt is.
    pub(crate) fn shareable(&self) -> &[Token] {
        let end = match &self.prompt_logprobs {
            Some(wanted) => wanted.found.len(),
            None => self.tokens.len() - 1,
        };
        &self.tokens[..end]
    }

    /// Outputs that are still allowed before more credit is granted.
    pub(crate) fn credits(&self) -> u32 {
        self.credits
    }

    /// As the prefix cache sees it when it is admitted.
    pub(crate) fn newcomer(&self) -> Newcomer<'_> {
        Newcomer {
            id: self.id,
            group: &self.group,
            tokens: &self.tokens,
            shareable: self.shareable(),
            stops: self.cells.stops(),
            last_turn: self.last_turn,
            is_new: !self.was_admitted,
        }
    }

    /// Takes the cells that it is admitted with. The first time, the usage remembers how much of
    /// the prompt it need not compute.
    pub(crate) fn admitted(&mut self, cells: KvCells, step: u64) {
        self.cells = cells;
        self.last_step = step;
        if !self.was_admitted {
            self.cached_tokens = self.cells.computed().min(self.prompt_tokens);
        }
        self.was_admitted = true;
    }

    pub(crate) fn grant(&mut self, credits: u32) {
        self.credits = self.credits.saturating_add(credits);
    }

    /// Takes the `asked` rows of logits from `first` on, which the batch has for its work.
    pub(crate) fn take_rows(&mut self, work: &Work, first: usize, asked: usize) {
        let reaches_end = (self.cells.computed() + work.tokens) as usize == self.tokens.len();
        let chooses = if reaches_end {
            1 + work.drafts as usize
        } else {
            0
        };
        self.prompt_rows = first..first + asked - chooses;
        self.rows = self.prompt_rows.end..first + asked;
    }

    /// Whether the batch has logits of it.
    pub(crate) fn has_rows(&self) -> bool {
        !self.rows.is_empty() || !self.prompt_rows.is_empty()
    }

    /// Whether the text has to match something.
    pub(crate) fn is_constrained(&self) -> bool {
        self.matching.is_some()
    }

    /// Whether MTP layers may draft from the hidden state behind the token at this position.
    pub(crate) fn wants_hidden(&self, position: u32) -> bool {
        let speculation = self.speculation.as_ref();
        position + KEPT_HIDDEN >= self.tokens.len() as u32
            && speculation.is_some_and(|speculation| speculation.is_by_model())
    }

    /// Returns its standing, if it has a slot.
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

    /// Drafts that the next step could use: if it decodes, it gives one token more than it has
    /// drafts that are accepted.
    pub(super) fn useful_drafts(&self) -> u32 {
        if self.decodes() {
            self.remaining().saturating_sub(1)
        } else {
            0
        }
    }

    /// Tokens of the prompt that have no cell yet.
    pub(crate) fn prompt_left(&self) -> u32 {
        self.prompt_tokens.saturating_sub(self.cells.computed())
    }

    /// Returns an output without a token.
    pub(super) fn output(&self, finish: Option<FinishReason>, now: Instant) -> StepOutput {
        StepOutput {
            tokens: Tokens::new(),
            end_token: None,
            logprobs: Vec::new(),
            prompt_logprobs: None,
            finish,
            usage: self.usage(now),
            at: now,
        }
    }

    pub(super) fn generated(&self) -> u32 {
        self.tokens.len() as u32 - self.prompt_tokens
    }

    /// Time without a slot so far.
    pub(super) fn queued(&self, now: Instant) -> Duration {
        self.moments.slot_wait.until(now)
    }

    /// Counts so far.
    pub(crate) fn usage(&self, now: Instant) -> Usage {
        Usage {
            prompt_tokens: self.prompt_tokens,
            cached_tokens: self.cached_tokens,
            sound_tokens: self.sound_tokens,
            generated_tokens: self.generated(),
            queued: self.queued(now),
            drafts: self
                .speculation
                .as_ref()
                .map(|speculation| speculation.counts()),
        }
    }
}
