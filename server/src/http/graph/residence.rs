//! Requests that say how long their graph stays in memory, or ask for nothing else.

use axum::{
    Json,
    http::HeaderValue,
    response::{IntoResponse as _, Response},
};
use graphmill_calculators::{http::dialect::Dialect, payload::JsonBody};
use graphmill_dialects::bodies::ollama::KEEP_ALIVE;

use super::Head;
use crate::{errors::Failure, servable::Servable};

/// The header that names what a request says without effect.
pub(super) const IGNORED: &str = "x-ignored-fields";

/// Wish of a request about the memory of its graph.
pub(super) struct Residence {
    dialect: Option<&'static dyn Dialect>,
    /// True if the graph leaves memory behind the answer.
    pub(super) unloads: bool,
    is_ignored: bool,
}

impl Residence {
    /// Reads what a request says. Operators alone have a graph unloaded, if the next request has it
    /// loaded again.
    pub(super) fn read(head: &Head, graph: &Servable, body: &JsonBody) -> Result<Self, Failure> {
        let dialect = head.target.map(|target| target.dialect);
        let said = dialect.map_or(Ok(None), |dialect| dialect.unloads(body))?;
        let unloads = said == Some(true) && head.who.operates() && graph.loads_on_demand();
        Ok(Self {
            dialect,
            unloads,
            is_ignored: said.is_some() && !unloads,
        })
    }

    /// The answer to a request that asks for nothing else.
    pub(super) fn answer(&self, body: &JsonBody) -> Result<Option<Response>, Failure> {
        let answer = self
            .dialect
            .map_or(Ok(None), |dialect| dialect.loaded(body, self.unloads))?;
        Ok(answer.map(|answer| self.tell(Json(answer).into_response())))
    }

    /// The same response, with the header that names the wish where it has no effect.
    pub(super) fn tell(&self, mut response: Response) -> Response {
        if self.is_ignored {
            let name = HeaderValue::from_static(KEEP_ALIVE);
            response.headers_mut().append(IGNORED, name);
        }
        response
    }
}
