//! The table of dialects, the one place that names them. A dialect is a folder beside this file and
//! a line of [`ALL`].

use graphmill_engine::{Error, Result};

use super::{
    chat::Chat,
    completions::Completions,
    dialect::{Asked, Dialect, Place},
    fields::shown,
    generate::Generate,
    inspect::question,
    messages::Messages,
    responses::Responses,
    transcriptions::Transcriptions,
};

/// All dialects.
pub const ALL: &[&dyn Dialect] = &[
    &Chat,
    &Completions,
    &Responses,
    &Messages,
    &Transcriptions,
    &Generate::WHOLE,
    &Generate::STREAM,
];

/// The prefixes under which every dialect is served.
pub const PREFIXES: &[&str] = &["/v3/v1", "/v3", "/v1"];

/// What is before the name of a graph in the paths of dialects that are
/// [behind it](Place::BehindTheGraph).
pub const GRAPHS: &str = "/v2/models";

/// The dialect that a path belongs to, whether or not something is served there.
pub fn of_path(path: &str) -> Option<&'static dyn Dialect> {
    let mut dialects = ALL.iter().copied();
    dialects.find(|dialect| match dialect.place() {
        Place::BehindPrefixes => is_under(path, dialect.endpoint()),
        Place::BehindTheGraph => is_of_graph(path, dialect.endpoint()),
    })
}

/// Whether a path is this one behind the name of a graph.
fn is_of_graph(path: &str, name: &str) -> bool {
    let behind = path.strip_prefix(GRAPHS);
    let graph = behind.and_then(|path| {
        path.strip_prefix('/')?
            .strip_suffix(name)?
            .strip_suffix('/')
    });
    graph.is_some_and(|graph| !graph.is_empty())
}

/// Whether a path is this one behind one of the prefixes, or below it.
pub fn is_under(path: &str, name: &str) -> bool {
    PREFIXES.iter().any(|prefix| {
        let behind = path.strip_prefix(prefix);
        let behind = behind.and_then(|path| path.strip_prefix('/')?.strip_prefix(name));
        behind.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// The dialect with this endpoint.
pub fn named(endpoint: &str) -> Option<&'static dyn Dialect> {
    let named = ALL.iter().find(|dialect| dialect.endpoint() == endpoint);
    named.copied()
}

/// The dialect of a request, and what it asks for. What comes before a path is the server's
/// business.
pub(super) fn of_request(uri: &str) -> Result<(&'static dyn Dialect, Asked)> {
    let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
    let ends = |end: &str| {
        let before = path.strip_suffix(end);
        before.is_some_and(|before| before.ends_with('/'))
    };
    let of_dialects = ALL.iter().flat_map(|dialect| {
        let routes = dialect.routes().iter();
        routes.map(move |route| (route.path, *dialect, route.asked))
    });
    let routes = || of_dialects.clone().chain(question::routes());
    match routes().find(|(end, ..)| ends(end)) {
        Some((_, dialect, Asked::Generation)) => Ok((dialect, question::explained(query)?)),
        Some((_, dialect, asked)) => Ok((dialect, asked)),
        None => {
            // Files are for models that hear, and this is not the place that knows the model.
            let served = routes().filter(|(_, dialect, _)| dialect.file_field().is_none());
            let served: Vec<String> = served.map(|(end, ..)| format!("`{end}`")).collect();
            let message = format!(
                "this graph serves {}, not `{}`",
                served.join(", "),
                shown(path)
            );
            Err(Error::not_found(message).with_code("unknown_endpoint"))
        }
    }
}
