//! OpenAI's `responses`, as far as it needs no memory: the request as one for chat, and the answer as a response of items.

mod answer;
mod items;
mod request;

pub(super) use answer::Answer;
pub(super) use request::{NAMES, complete, to_chat};
