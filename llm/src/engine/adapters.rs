//! Adapters by name: what a request computes with, and so with whom it shares cells.

use std::sync::Arc;

use super::LlmEngine;
use crate::backend::Adapter;
use crate::cache::ShareGroup;
use crate::protocol::SubmitError;

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
