//! Anthropic's `messages`: the request as one for chat, and the answer as a message of content blocks.

mod answer;
mod blocks;
mod request;

pub(super) use answer::Answer;
pub(super) use request::{NAMES, to_chat};
