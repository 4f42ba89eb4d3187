//! Requests that set how long their graph stays in memory, or that only load or unload it.

use axum::{
    Json,
    http::HeaderValue,
    response::{IntoResponse as _, Response},
};
use graphmill_calculators::{http::dialect::Dialect, payload::JsonBody};
use graphmill_dialects::bodies::ollama::KEEP_ALIVE;

use super::RequestHead;
use crate::{errors::Result, servable::Servable};

/// Response header that names fields without effect.
pub(super) const IGNORED: &str = "x-ignored-fields";

/// The time that a request wants its graph to stay in memory after the answer.
pub(super) struct Residence {
    dialect: Option<&'static dyn Dialect>,
    /// True to unload the graph after the answer.
    pub(super) unloads: bool,
    is_ignored: bool,
}

impl Residence {
    /// Reads the field of a request. Only operators can unload a graph, and only one that the next
    /// request loads again.
    pub(super) fn read(head: &RequestHead, graph: &Servable, body: &JsonBody) -> Result<Self> {
        let dialect = head.target.map(|target| target.dialect);
        let said = dialect.map_or(Ok(None), |dialect| dialect.unloads(body))?;
        let unloads = said == Some(true) && head.who.operates() && graph.loads_on_demand();
        Ok(Self {
            dialect,
            unloads,
            is_ignored: said.is_some() && !unloads,
        })
    }

    /// Returns the answer to a request that only loads or unloads; `None` for others.
    pub(super) fn answer(&self, body: &JsonBody) -> Result<Option<Response>> {
        let answer = self
            .dialect
            .map_or(Ok(None), |dialect| dialect.loaded(body, self.unloads))?;
        Ok(answer.map(|answer| self.mark_ignored(Json(answer).into_response())))
    }

    /// Adds the header that names the field, if it has no effect.
    pub(super) fn mark_ignored(&self, mut response: Response) -> Response {
        if self.is_ignored {
            let name = HeaderValue::from_static(KEEP_ALIVE);
            response.headers_mut().append(IGNORED, name);
        }
        response
    }
}
