//! Adapters by name. Only requests with the same adapter share cells.

use std::sync::Arc;

use super::LlmEngine;
use super::sequence::Sequence;
use crate::backend::Adapter;
use crate::cache::ShareGroup;
use crate::protocol::SubmitError;
use crate::spec::AdapterSpec;

impl LlmEngine {
    /// The group of requests with this adapter, if any, and this salt.
    pub(super) fn group(
        &self,
        adapter: Option<&str>,
        salt: &Arc<str>,
    ) -> Result<ShareGroup, SubmitError> {
        let adapter = adapter.map(|name| self.adapter(name)).transpose()?;
        Ok(ShareGroup {
            adapter,
            salt: Arc::clone(salt),
        })
    }

    fn adapter(&self, name: &str) -> Result<Adapter, SubmitError> {
        let adapters = &self.spec.adapters;
        let found = adapters.iter().position(|adapter| adapter.name == name);
        found
            .map(|index| Adapter(index as u32))
            .ok_or_else(|| SubmitError::UnknownAdapter {
                name: name.to_owned(),
                known: adapters
                    .iter()
                    .map(|adapter| adapter.name.clone())
                    .collect(),
            })
    }
}

/// The adapters of sequences, a bit for each; those behind the 64th are not told.
pub(super) fn bits<'a>(sequences: impl Iterator<Item = &'a Sequence>) -> u64 {
    let adapters = sequences.filter_map(|sequence| sequence.group.adapter);
    adapters
        .filter(|adapter| adapter.0 < u64::BITS)
        .fold(0, |bits, adapter| bits | 1 << adapter.0)
}

/// The names of the adapters whose bits are set.
pub(super) fn names(bits: u64, adapters: &[AdapterSpec]) -> Vec<String> {
    let set = |index: &usize| *index < u64::BITS as usize && bits & (1 << index) != 0;
    (0..adapters.len())
        .filter(set)
        .map(|index| adapters[index].name.clone())
        .collect()
}
