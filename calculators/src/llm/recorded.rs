//! Tokens of an earlier run, emitted instead of generated ones.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, PoisonError},
};

use graphmill_engine::{Cx, Error, Out, Packet, Result, RunCx, Timestamp};
use graphmill_llm::Usage;

use super::Credit;
use super::work::add_generated;
use crate::payload::{Account, Tally, TokenChunk};

/// Tokens that the language models of a graph generated in an earlier run. In the account of a run
/// they replace generation: nothing is computed, and each node emits its recorded packets.
#[derive(Debug, Default)]
pub struct RecordedTokens(Mutex<BTreeMap<String, VecDeque<(Timestamp, TokenChunk)>>>);

impl RecordedTokens {
    /// Adds a packet of a node's output `TOKENS` after its earlier ones.
    ///
    /// # Errors
    /// The packet has no tokens.
    pub fn add(&mut self, node: &str, packet: &Packet) -> Result<()> {
        let Some(chunk) = packet.get::<TokenChunk>().cloned() else {
            let found = packet.type_info().name();
            let message = format!("expected tokens of `{node}`, not a packet of type `{found}`");
            return Err(Error::invalid(message));
        };
        let nodes = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        let chunks = nodes.entry(node.to_owned()).or_default();
        chunks.push_back((packet.time, chunk));
        Ok(())
    }

    /// Takes the recorded packets of a node in this run; `None` if models generate.
    pub(super) fn take_replay(run: &RunCx, node: &str) -> Option<Replay> {
        let Self(nodes) = Account::find(run)?.recorded.as_ref()?;
        let mut nodes = nodes.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Replay {
            chunks: nodes.remove(node),
            asked: Timestamp::UNSET,
            waits_for: BTreeMap::new(),
            tallied: BTreeMap::new(),
        })
    }
}

/// The recorded packets that a node still has to emit.
pub(super) struct Replay {
    /// `None` if nothing was recorded for the node.
    chunks: Option<VecDeque<(Timestamp, TokenChunk)>>,
    /// Timestamp of the last prompts that came.
    asked: Timestamp,
    /// Number of packets whose credit has not come back, by prompts and choice. Each choice may
    /// have one.
    waits_for: BTreeMap<(Timestamp, u32), u32>,
    /// Usage that was already counted, by prompts and choice.
    tallied: BTreeMap<(Timestamp, u32), Usage>,
}

impl Replay {
    /// Returns true if nothing is left, or nothing was requested.
    pub(super) fn is_done(&self) -> bool {
        let is_empty = self.chunks.as_ref().is_none_or(VecDeque::is_empty);
        is_empty || self.asked == Timestamp::UNSET
    }

    /// Notes that prompts came, so that their recorded packets may be emitted.
    pub(super) fn asked(&mut self, time: Timestamp) {
        self.asked = time;
    }

    /// Returns the credit of a choice.
    pub(super) fn granted(&mut self, credit: Credit) {
        if let Some(packets) = self.waits_for.get_mut(&(credit.prompt, credit.index)) {
            *packets = packets.saturating_sub(1);
        }
    }

    /// Emits the packets that have credit. `again` is the output for credit, if it comes back.
    ///
    /// # Errors
    /// Nothing was recorded for the node.
    pub(super) fn play(
        &mut self,
        tokens: Out<TokenChunk>,
        again: Option<Out<Credit>>,
        cx: &mut Cx<'_>,
    ) -> Result<()> {
        let asked = self.asked;
        if asked == Timestamp::UNSET {
            return Ok(());
        }
        let Some(chunks) = &mut self.chunks else {
            let message = format!("no tokens of the node `{}` were recorded", cx.node_name());
            return Err(Error::precondition(message));
        };
        let waits_for = &mut self.waits_for;
        while let Some((time, chunk)) = chunks.pop_front_if(|(_, next)| {
            let waiting = waits_for.get(&(next.prompt, next.index));
            next.prompt <= asked && waiting.is_none_or(|packets| *packets == 0)
        }) {
            let (prompt, index) = (chunk.prompt, chunk.index);
            if let Some(tally) = Tally::find(cx.run()) {
                let before = self.tallied.insert((prompt, index), chunk.usage);
                tally.count(cx.node_name(), |counts| {
                    add_generated(counts, &before.unwrap_or_default(), &chunk.usage);
                    if before.is_none() && index == 0 {
                        counts.prompt += chunk.usage.prompt_tokens;
                        counts.cached += chunk.usage.cached_tokens;
                        counts.sounds += chunk.usage.sound_tokens;
                    }
                });
            }
            let goes_on = chunk.finish.is_none();
            cx.emit_at(tokens, time, chunk);
            if let Some(again) = again.filter(|_| goes_on) {
                cx.emit_at(again, time, Credit { prompt, index });
                *waits_for.entry((prompt, index)).or_default() += 1;
            }
        }
        Ok(())
    }
}
