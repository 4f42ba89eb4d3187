//! Speculation: guesses the next tokens of a sequence, so that one step can check several at once.
//!
//! The guesses (drafts) ride in the step's batch behind the sequence's last token, with logits at
//! each. The sampler then goes over these logits in order as if each were a step of its own, and
//! goes on while the token it takes is the one that was drafted. So what is generated is what would
//! have been generated without drafts, to the same state of the random stream and the penalties;
//! only the number of steps differs.
//!
//! Drafts come from one of three sources:
//!
//! - **Prompt lookup** ([`lookup`]): the text is likely to go on as it did where its end has
//!   occurred before. Every prediction is compared with what was generated, drafted or not
//!   ([`learned`]), so that knowing when to draft costs no step.
//! - **A draft model** ([`drafter`]). How often it is right is learned from what it drafted, for
//!   each sequence, and for all together as what the next one begins with.
//! - **The model's own MTP layers, or an EAGLE3 model**, which draft as a draft model does, but from
//!   hidden states of the model ([`hidden`]).
//!
//! How many drafts a step takes follows from their chances and from what its rows cost ([`worth`]).

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
