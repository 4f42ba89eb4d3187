//! What a path and its query ask for.

use graphmill_engine::{Error, Result};

use super::fields::shown;
use super::inspect::question::{self, Asked};
use crate::payload::Endpoint;

/// The paths, without what comes before, that a chat graph serves.
const TARGETS: &[(&str, Endpoint, Asked)] = &[
    ("/chat/completions", Endpoint::Chat, Asked::Generation),
    ("/completions", Endpoint::Completions, Asked::Generation),
    ("/responses", Endpoint::Responses, Asked::Generation),
    ("/messages", Endpoint::Messages, Asked::Generation),
    (
        "/responses/input_tokens",
        Endpoint::Responses,
        Asked::Count(Some("response.input_tokens")),
    ),
    (
        "/messages/count_tokens",
        Endpoint::Messages,
        Asked::Count(None),
    ),
    ("/chat/completions/render", Endpoint::Chat, Asked::Rendering),
    (
        "/completions/render",
        Endpoint::Completions,
        Asked::Rendering,
    ),
    ("/apply-template", Endpoint::Chat, Asked::Template),
    ("/tokenize", Endpoint::Completions, Asked::Tokens),
    ("/detokenize", Endpoint::Completions, Asked::Text),
];

/// The endpoint of a path, and what is asked of it.
pub(super) fn of(uri: &str) -> Result<(Endpoint, Asked)> {
    let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
    let found = TARGETS.iter().find(|(end, ..)| path.ends_with(end));
    match found {
        Some((_, endpoint, Asked::Generation)) => Ok((*endpoint, question::explained(query)?)),
        Some((_, endpoint, asked)) => Ok((*endpoint, *asked)),
        None => {
            let served: Vec<String> = TARGETS
                .iter()
                .map(|(end, ..)| format!("`{}`", &end[1..]))
                .collect();
            let message = format!(
                "this graph serves {}, not `{}`",
                served.join(", "),
                shown(path)
            );
            Err(Error::not_found(message).with_code("unknown_endpoint"))
        }
    }
}
