//! Speculation: guesses the next tokens of a sequence, so that one step can check several at once.
//!
//! The guesses (drafts) are in the step's batch behind the sequence's last token, with logits for
//! each. The sampler then processes these logits in order as if each were a step of its own, and
//! continues while the token it chooses is the drafted one. So the generated text is the same as
//! without drafts, with the same state of the random stream and the penalties; only the number of
//! steps differs.
//!
//! Drafts come from one of three sources:
//!
//! - **Prompt lookup** ([`lookup`]): if the end of the text has occurred before, the text is likely
//!   to continue as it did there. Every prediction is compared with the generated token, drafted
//!   or not ([`learned`]), so learning when to draft costs no step.
//! - **A draft model** ([`drafter`]). Its success is learned from its drafts, for each sequence,
//!   and over all sequences as the assumption for new ones.
//! - **The model's own MTP layers, or an EAGLE3 model**, which draft as a draft model does, but from
//!   hidden states of the model ([`hidden`]).
//!
//! The number of drafts in a step follows from their chances and from the cost of its rows
//! ([`worth`]).

mod draft_state;
mod drafter;
mod drafting;
mod hidden;
mod learned;
mod lookup;
mod sequence_drafts;
mod step_drafts;
mod trials;
mod turns;
mod worth;

pub(crate) use drafting::{Drafting, ModelDraft};
pub(crate) use hidden::KEPT as KEPT_HIDDEN;
pub(crate) use sequence_drafts::Speculation;
pub(crate) use step_drafts::Drafts;

#[cfg(test)]
mod tests;
