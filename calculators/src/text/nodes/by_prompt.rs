//! The input policy of nodes after a language model. Chunks have a time line of their own, and each
//! names its prompts. The other inputs have one packet for each prompt, on the time line of the
//! prompts.

use std::sync::Arc;

use graphmill_engine::{
    InputPolicy, InputQueue, InputSet, Packet, Policy, Readiness, Timestamp, Waiting,
};

use crate::payload::{TextChunk, TokenChunk};

/// Delivers the chunks of the last input one by one. The first chunk of each prompt comes together
/// with the packets of the other inputs at the timestamp of that prompt, or their last ones before
/// it.
pub(super) fn by_prompt() -> Policy {
    Policy::Custom(Arc::new(|| Box::new(ByPrompt)))
}

/// The states of the choices of the prompts whose chunks come now.
pub(super) struct ChoiceStates<S> {
    prompt: Timestamp,
    states: Vec<S>,
}

impl<S> Default for ChoiceStates<S> {
    fn default() -> Self {
        Self {
            prompt: Timestamp::UNSET,
            states: Vec::new(),
        }
    }
}

impl<S> ChoiceStates<S> {
    /// Returns the state of a chunk's choice, made with `new` at its first chunk.
    pub(super) fn state(
        &mut self,
        prompt: Timestamp,
        index: u32,
        new: impl FnMut() -> S,
    ) -> &mut S {
        if prompt != self.prompt {
            self.prompt = prompt;
            self.states.clear();
        }
        let index = index as usize;
        if self.states.len() <= index {
            self.states.resize_with(index + 1, new);
        }
        &mut self.states[index]
    }
}

struct ByPrompt;

/// Returns the timestamp of the prompts that a chunk belongs to. For other packets it is their own.
fn prompt_of(packet: &Packet) -> Timestamp {
    let tokens = packet.get::<TokenChunk>().map(|chunk| chunk.prompt);
    let prompt = tokens.or_else(|| packet.get::<TextChunk>().map(|chunk| chunk.prompt));
    prompt.unwrap_or(packet.time)
}

impl InputPolicy for ByPrompt {
    fn readiness(&self, queues: &[InputQueue]) -> Readiness {
        let Some((chunks, others)) = queues.split_last() else {
            return Readiness::Close;
        };
        let waiting = |stream: usize, until| {
            Readiness::Waiting(Waiting {
                stream: stream as u16,
                until,
            })
        };
        let Some(chunk) = chunks.front() else {
            return match chunks.bound() {
                Timestamp::DONE | Timestamp::ONE_OVER_POST_STREAM => Readiness::Close,
                bound => waiting(others.len(), bound),
            };
        };
        let prompt = prompt_of(chunk);
        match others.iter().position(|other| other.bound() <= prompt) {
            Some(unsettled) => waiting(unsettled, chunk.time),
            None => Readiness::Process(chunk.time),
        }
    }

    fn fill(&mut self, at: Timestamp, queues: &mut [InputQueue], set: &mut InputSet) {
        let Some((chunks, others)) = queues.split_last_mut() else {
            return;
        };
        let prompt = chunks.front().map_or(at, prompt_of);
        for (input, queue) in others.iter_mut().enumerate() {
            let mut latest = None;
            while queue.head().is_some_and(|head| head <= prompt) {
                latest = queue.pop();
            }
            match latest {
                Some(packet) => set.put(input, packet),
                None => set.hold_back(input, queue),
            }
        }
        set.fill(others.len(), chunks, at);
    }
}
