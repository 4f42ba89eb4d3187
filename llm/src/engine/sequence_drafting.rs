//! Implements the drafting interface for sequences.

use super::sequence::Sequence;
use crate::protocol::{SequenceId, Token};
use crate::speculate::{Drafting, ModelDraft};

impl Drafting for Sequence {
    fn id(&self) -> SequenceId {
        self.id
    }

    fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    fn remaining(&self) -> u32 {
        self.token_limit - self.tokens.len() as u32
    }

    fn has_credit(&self) -> bool {
        self.request.credits > 0
    }

    fn decodes(&self) -> bool {
        self.request.credits > 0 && self.tokens.len() as u32 == self.cells.computed() + 1
    }

    fn draft(&mut self) {
        let limit = self.useful_drafts();
        if let Some(speculation) = &mut self.speculation {
            speculation.draft(&self.tokens, limit);
        }
    }

    fn model_draft(&self) -> Option<ModelDraft> {
        self.speculation.as_ref()?.model_draft(self.useful_drafts())
    }

    fn push_draft(&mut self, token: Token, chance: f32) {
        if let Some(speculation) = &mut self.speculation {
            speculation.push(token, chance);
        }
    }

    fn cut_drafts(&mut self) {
        if let (Some(matching), Some(speculation)) = (&mut self.matching, &mut self.speculation) {
            speculation.keep(matching.valid(speculation.drafts()));
        }
    }

    fn keep_drafts(&mut self, count: usize) {
        if let Some(speculation) = &mut self.speculation {
            speculation.keep(count);
        }
    }

    fn drafts(&self) -> &[Token] {
        self.speculation.as_ref().map_or(&[], |it| it.drafts())
    }

    fn draft_chances(&self) -> &[f32] {
        self.speculation.as_ref().map_or(&[], |it| it.chances())
    }
}
