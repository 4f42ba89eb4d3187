//! Tokens of an earlier run, in place of generated ones.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, PoisonError},
};

use graphmill_engine::{Cx, Error, Flow, Out, Packet, Result, RunCx, Timestamp};

use super::Credit;
use crate::payload::TokenChunk;

/// What the language models of a graph generated in an earlier run. As the extension of a run, it
/// stands in for them: nothing is computed, and each node puts out the packets that it put out then.
#[derive(Debug, Default)]
pub struct RecordedTokens(Mutex<BTreeMap<String, VecDeque<(Timestamp, TokenChunk)>>>);

impl RecordedTokens {
    /// Adds a packet of the output `TOKENS` of a node, behind those that it has.
    ///
    /// # Errors
    /// That the packet has no tokens.
    pub fn add(&mut self, node: &str, packet: &Packet) -> Result<()> {
        let Some(chunk) = packet.get::<TokenChunk>().cloned() else {
            let found = packet.type_info().name();
            let message = format!("node `{node}` put out tokens, not a packet of type `{found}`");
            return Err(Error::invalid(message));
        };
        let nodes = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        let chunks = nodes.entry(node.to_owned()).or_default();
        chunks.push_back((packet.time, chunk));
        Ok(())
    }

    /// What a node is to put out in this run; nothing where models generate.
    pub(super) fn of(run: &RunCx, node: &str) -> Option<Replay> {
        let Self(nodes) = run.extension.as_deref()?.downcast_ref()?;
        let mut nodes = nodes.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Replay {
            chunks: nodes.remove(node),
            waits_for: BTreeMap::new(),
        })
    }
}

/// What a node still has to put out.
pub(super) struct Replay {
    /// None if nothing was recorded of it.
    chunks: Option<VecDeque<(Timestamp, TokenChunk)>>,
    /// By choice: packets whose credit has not come back. Each choice may have one.
    waits_for: BTreeMap<u32, u32>,
}

impl Replay {
    /// Takes back the credit of a choice.
    pub(super) fn granted(&mut self, choice: u32) {
        if let Some(packets) = self.waits_for.get_mut(&choice) {
            *packets = packets.saturating_sub(1);
        }
    }

    /// Puts out what may be, and tells whether there is more; `again` is the output for credit,
    /// where that comes back.
    ///
    /// # Errors
    /// That nothing was recorded of the node.
    pub(super) fn play(
        &mut self,
        tokens: Out<TokenChunk>,
        again: Option<Out<Credit>>,
        cx: &mut Cx<'_>,
    ) -> Result<Flow> {
        let Some(chunks) = &mut self.chunks else {
            let message = format!("no tokens of the node `{}` were recorded", cx.node_name());
            return Err(Error::precondition(message));
        };
        let waits_for = &mut self.waits_for;
        while let Some((time, chunk)) = chunks.pop_front_if(|(_, next)| {
            waits_for
                .get(&next.index)
                .is_none_or(|packets| *packets == 0)
        }) {
            let index = chunk.index;
            let goes_on = chunk.finish.is_none();
            cx.emit_at(tokens, time, chunk);
            if let Some(again) = again.filter(|_| goes_on) {
                cx.emit_at(again, time, Credit { index });
                *waits_for.entry(index).or_default() += 1;
            }
        }
        let done = chunks.is_empty();
        Ok(if done { Flow::Stop } else { Flow::Continue })
    }
}
