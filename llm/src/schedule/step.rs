//! The decisions of one step, one kind of work after the other.

use super::cost::StepSize;
use super::{Now, OpenPrompt, PROMPT_TILE, Row, RowState, RowWork, StepLimits, StepPlan};
use crate::backend::Slot;

/// A plan in progress, with the remaining budget and cells.
pub(super) struct PlanBuilder<'a> {
    pub(super) limits: &'a StepLimits,
    pub(super) now: &'a Now<'a>,
    pub(super) plan: &'a mut StepPlan,
    pub(super) free: u32,
    pub(super) budget: u32,
    /// Remaining part of the budget for prompts.
    pub(super) chunk: u32,
    /// Number of sequences that have a slot.
    pub(super) sequences: u32,
    /// Number of cells that admitted sequences will certainly need soon.
    pub(super) committed: u32,
}

impl<'a> PlanBuilder<'a> {
    pub(super) fn new(limits: &'a StepLimits, now: &'a Now<'a>, plan: &'a mut StepPlan) -> Self {
        // Prompts that are not split keep their order: each waits for a step that has room for all
        // of it.
        let token_micros = if limits.split_prompts {
            now.pace.cost.token_micros()
        } else {
            0.0
        };
        let prompt = |waits| {
            move |(index, row): (usize, &Row)| OpenPrompt {
                order: row.prompt_order(token_micros),
                index,
                waits,
            }
        };
        let running = now.running.iter().enumerate();
        let waiting = now.waiting.iter().enumerate();
        let prompts = &mut plan.prompts;
        prompts.clear();
        prompts.extend(
            running
                .filter(|(_, row)| row.has_credit && row.pending() > 1)
                .map(prompt(false)),
        );
        prompts.extend(waiting.filter(|(_, row)| row.may_join()).map(prompt(true)));
        prompts.sort_unstable_by_key(|prompt| prompt.order);
        Self {
            limits,
            now,
            plan,
            free: now.free_cells,
            budget: limits.batch_tokens,
            chunk: 0,
            sequences: now.running.len() as u32,
            committed: 0,
        }
    }

    pub(super) fn schedule_decodes(&mut self) {
        let rows = self.now.running.iter().enumerate();
        let decodes = rows.filter(|(_, row)| row.is_decode());
        self.plan.decodes.clear();
        self.plan.decodes.extend(decodes.map(|(index, _)| index));
        let mut count = self.plan.decodes.len() as u32;
        let first_prompt = self.plan.prompts.first().map(|prompt| self.row(prompt));
        if let Some(prompt) = first_prompt
            && count > 0
            && self.at_once(prompt) > 0
            && self.at_once(prompt) + count > self.budget
            && !self.now.prompt_had_turn
        {
            self.plan.prompt_turn = true;
            return;
        }
        let share = self.prompt_share(count);
        if count > self.budget - share {
            count = self.budget - share;
            self.give_turns(count);
        }
        for index in &self.plan.decodes {
            self.plan.state[*index] = RowState::Scheduled(1);
        }
        self.budget -= count;
        self.take_cells_for_decodes(count);
    }

    /// Keeps `count` decodes, in neighboring slots if possible. A backend may compute neighbors
    /// together, and read the weights once more for each gap between them.
    fn give_turns(&mut self, count: u32) {
        let rows = self.now.running;
        let decodes = &mut self.plan.decodes;
        decodes.sort_unstable_by_key(|index| rows[*index].slot);
        let had_theirs = decodes.partition_point(|index| rows[*index].slot < Some(self.now.turn));
        decodes.rotate_left(had_theirs);
        decodes.truncate(count as usize);
        let last = decodes.last().and_then(|index| rows[*index].slot);
        self.plan.next_turn = last.map_or(self.now.turn, |last| Slot(last.0 + 1));
    }

    /// Returns the tokens of the budget that are reserved for prompts if this many decodes would
    /// leave fewer: no more than prompts can use in this step.
    fn prompt_share(&self, decodes: u32) -> u32 {
        let pace = &self.now.pace;
        let prompts = self.prompts_with_room();
        let share = pace.prompt_share(decodes, prompts, self.budget);
        let most = self.wanted_by_prompts(share);
        if decodes + most <= self.budget {
            return most;
        }
        let left = self.budget - most;
        let rows = self.now.running.iter().filter(|row| row.is_decode());
        let cells: u64 = rows.map(|row| u64::from(row.tokens)).sum();
        let beside = StepSize {
            decode_tokens: left,
            attended_cells: cells * u64::from(left) / u64::from(decodes),
            prompt_tokens: 0,
        };
        let target = pace.target_micros(&beside, prompts);
        pace.prompt_tokens(&beside, target, most)
    }

    /// Number of pending tokens, up to `most`, of prompts that have a slot or could get one.
    fn wanted_by_prompts(&self, most: u32) -> u32 {
        let paused = self.now.running.iter().filter(|row| !row.has_credit);
        let mut places = self.places_for_prompts() + paused.count() as u32;
        let mut wanted = 0;
        for prompt in &self.plan.prompts {
            if wanted >= most {
                return most;
            }
            if prompt.waits && places == 0 {
                continue;
            }
            places -= u32::from(prompt.waits);
            wanted += self.row(prompt).pending();
        }
        wanted.min(most)
    }

    pub(super) fn schedule_prompts(&mut self) {
        let decodes = self.decodes_size();
        let pace = &self.now.pace;
        self.plan.target_micros = pace.target_micros(&decodes, self.prompts_with_room());
        self.chunk = if self.limits.split_prompts {
            pace.prompt_tokens(&decodes, self.plan.target_micros, self.budget)
        } else {
            self.budget
        };
        self.plan.prompt_limit = self.chunk;
        let commitments = (0..self.now.running.len()).map(|index| self.commitment(index));
        self.committed = commitments.sum();
        // If a sequence lost its cells, they were needed. It comes before sequences that never had
        // any.
        let mut admits = self.plan.preempt.is_empty();
        for number in 0..self.plan.prompts.len() {
            let prompt = self.plan.prompts[number];
            let row = self.row(&prompt);
            if self.chunk == 0 {
                return;
            }
            let at_once = self.at_once(row);
            if at_once > self.chunk {
                if self.chunk < self.plan.prompt_limit || at_once > self.budget {
                    return; // the next prompt waits behind this one
                }
                // It cannot be divided, however long it takes.
                self.chunk = at_once;
                self.plan.prompt_limit = at_once;
            }
            if prompt.waits {
                admits = admits && self.admit(row);
            } else if self.plan.state[prompt.index] == RowState::Idle {
                let preempted = self.plan.preempt.len();
                if !self.continue_prompt(prompt.index, row) {
                    return;
                }
                admits = admits && self.plan.preempt.len() == preempted;
            }
        }
    }

    /// Number of prompts that have a slot or could get one.
    fn prompts_with_room(&self) -> u32 {
        let waiting = self.plan.prompts.iter().filter(|prompt| prompt.waits);
        let waiting = waiting.count() as u32;
        self.plan.prompts.len() as u32 - waiting + waiting.min(self.places_for_prompts())
    }

    /// Number of a prompt's tokens that the step has room for: all that are pending, or full tiles
    /// of [`PROMPT_TILE`]. Less than a tile is not worth a pass over the weights, unless the step
    /// has no other prompt.
    pub(super) fn part_of(&self, row: &Row) -> u32 {
        if row.pending() <= self.chunk {
            return row.pending();
        }
        let tiles = self.chunk / PROMPT_TILE * PROMPT_TILE;
        if tiles == 0 && self.chunk == self.plan.prompt_limit {
            self.chunk
        } else {
            tiles.max(row.at_once)
        }
    }

    pub(super) fn take(&mut self, tokens: u32, cells: u32) {
        self.chunk -= tokens;
        self.budget -= tokens;
        self.free -= cells;
    }

    /// Puts the work of running sequences before that of the admitted ones. Drafts get the
    /// remaining budget, cells and time, because they may all be wrong.
    pub(super) fn finish(&mut self) {
        let admitted_tokens = self.plan.size.prompt_tokens;
        self.plan.size = self.decodes_size();
        let prompts = self.scheduled().filter(|(row, _)| !row.is_decode());
        let prompt_tokens: u32 = prompts.map(|(_, tokens)| tokens).sum();
        self.plan.size.prompt_tokens = prompt_tokens + admitted_tokens;
        let decodes = self.scheduled().filter(|(row, _)| row.is_decode());
        let wanted = decodes.map(|(row, _)| row.useful_drafts()).sum();
        let pace = &self.now.pace;
        let mut drafts = pace.drafts(&self.plan.size, self.plan.target_micros, wanted);
        drafts = drafts.min(self.budget).min(self.free);
        let admitted = self.plan.work.len();
        for decode in [true, false] {
            for (row, state) in self.now.running.iter().zip(&self.plan.state) {
                let RowState::Scheduled(tokens) = *state else {
                    continue;
                };
                if decode != row.is_decode() {
                    continue;
                }
                let mut work = RowWork::known(row.id, tokens);
                if decode {
                    work.drafts = row.useful_drafts().min(drafts);
                    drafts -= work.drafts;
                    self.plan.size.decode_tokens += work.drafts;
                    self.plan.size.attended_cells += u64::from(work.drafts * row.tokens);
                }
                self.plan.work.push(work);
            }
        }
        self.plan.work.rotate_left(admitted);
    }

    fn row(&self, prompt: &OpenPrompt) -> &'a Row {
        if prompt.waits {
            &self.now.waiting[prompt.index]
        } else {
            &self.now.running[prompt.index]
        }
    }

    /// Returns the running sequences that take part, with their number of known tokens.
    fn scheduled(&self) -> impl Iterator<Item = (&'a Row, u32)> {
        let states = self.now.running.iter().zip(&self.plan.state);
        states.filter_map(|(row, state)| match state {
            RowState::Scheduled(tokens) => Some((row, *tokens)),
            _ => None,
        })
    }

    fn decodes_size(&self) -> StepSize {
        let mut size = StepSize::default();
        for (row, tokens) in self.scheduled().filter(|(row, _)| row.is_decode()) {
            size.decode_tokens += tokens;
            size.attended_cells += u64::from(row.tokens);
        }
        size
    }

    /// Number of pending tokens of a prompt that must be computed in one step; 0 if any number may
    /// be.
    pub(super) fn at_once(&self, row: &Row) -> u32 {
        let is_whole = !self.limits.split_prompts && row.pending() <= self.limits.batch_tokens;
        if is_whole { row.pending() } else { row.at_once }
    }

    /// Number of tokens of a running sequence in this step.
    pub(super) fn scheduled_tokens(&self, index: usize) -> u32 {
        match self.plan.state[index] {
            RowState::Scheduled(tokens) => tokens,
            RowState::Idle | RowState::Preempted => 0,
        }
    }
}
