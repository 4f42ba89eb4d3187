//! The sender of a request, as far as its key says who that is.

use std::{convert::Infallible, sync::Arc};

use axum::{extract::FromRequestParts, http::request::Parts};

use crate::{
    keys::Caller,
    observe::{self, Audit},
};

/// The sender of a request; `None` where requests need no key.
pub(crate) struct Asker(pub(crate) Option<Arc<Caller>>);

impl<S: Sync> FromRequestParts<S> for Asker {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(parts.extensions.get().cloned()))
    }
}

impl Asker {
    /// The name of its key.
    pub(crate) fn key(&self) -> Option<&str> {
        self.0.as_ref().map(|caller| &**caller.name())
    }

    pub(crate) fn caller(&self) -> Option<&Caller> {
        self.0.as_deref()
    }

    /// Returns true if it may use a graph, or an adapter of it.
    pub(crate) fn sees(&self, graph: &str, adapter: Option<&str>) -> bool {
        let caller = self.caller();
        caller.is_none_or(|caller| caller.sees(graph, adapter))
    }

    /// Writes the line of the audit log for what it wanted.
    pub(crate) fn audit(&self, action: &str, subject: &str, outcome: &str, reason: Option<&str>) {
        observe::audit(&Audit {
            action,
            actor: self.key(),
            subject,
            outcome,
            reason,
        });
    }
}
