//! Routes that lead to graphs, for all dialects. The graph's nodes check the fields of a body and
//! write the answer.
//!
//! As in OpenVINO Model Server, a POST to any path under the prefixes of dialects goes to the graph
//! that `model` names. The graph decides which of these paths have a meaning.

use std::{collections::HashMap, sync::Arc};

use axum::{
    Router,
    extract::{MatchedPath, Request},
    routing::post,
};
use graphmill_calculators::http::{
    dialect::{Family, PREFIXES, Place, Purpose, Target},
    dialect_table,
};

use super::{any_path, endpoint};
use crate::{
    app::state::App,
    http::{
        operation::{Answer, Body, Group, Operation},
        unknown_route,
    },
};

/// Path for everything after the name of a graph, which can contain slashes.
pub(in crate::http) const BEHIND_GRAPH: &str = "/v2/models/{*name}";

/// Returns the operations of all dialects.
pub(in crate::http) fn operations() -> Vec<Operation> {
    let bodies = dialect_table::all().flat_map(|dialect| {
        let routes = dialect.routes().iter();
        routes.map(move |route| Body { dialect, route })
    });
    bodies.flat_map(operations_with).collect()
}

fn operations_with(body: Body) -> Vec<Operation> {
    let route = body.route;
    let (group, answer) = match (body.dialect.family(), route.purpose) {
        (Family::Text(_), _) if route.answer.is_empty() => (Group::Generation, Answer::Any),
        _ if route.answer.is_empty() => (Group::Vectors, Answer::Any),
        (Family::Text(_), Purpose::Answer) => {
            (Group::Generation, Answer::JsonOrEvents(route.answer))
        }
        (Family::Text(_), _) => (Group::Prompts, Answer::Json(route.answer)),
        _ => (Group::Vectors, Answer::Json(route.answer)),
    };
    let told = |operation: Operation| {
        let operation = operation.takes_body(body).answers(answer);
        operation.about(group, route.summary)
    };
    let prefixes = match body.dialect.place() {
        Place::Behind(prefixes) => prefixes,
        Place::Bare => &[""],
        Place::BehindTheGraph => {
            let path = format!("{BEHIND_GRAPH}/{}", route.path);
            return vec![told(Operation::behind("post", &path))];
        }
    };
    // On servers with a single model, these paths have no prefix and no name.
    let bare = route.purpose.needs_no_model().then_some(&"");
    let each = prefixes.iter().chain(bare);
    let operations = each.map(|prefix| {
        let path = format!("{prefix}/{}", route.path);
        // Paths without a prefix belong to other servers, and are documented there.
        let is_listed = *prefix == prefixes[0] && !prefix.is_empty();
        told(Operation::post(&path, endpoint)).listed(is_listed)
    });
    operations.collect()
}

/// Returns the paths below those of dialects.
fn below() -> impl Iterator<Item = (String, Target)> {
    dialect_table::all().flat_map(|dialect| {
        let own = match dialect.place() {
            Place::Behind(own) => own,
            Place::Bare | Place::BehindTheGraph => &[],
        };
        let prefixes = PREFIXES.iter().filter(|prefix| own.contains(prefix));
        let paths =
            prefixes.map(move |prefix| format!("{prefix}/{}/{{*path}}", dialect.endpoint()));
        let purpose = None;
        paths.map(move |path| (path, Target { dialect, purpose }))
    })
}

/// Returns the routes for all other paths that a graph may serve.
pub(in crate::http) fn other_paths() -> Router<Arc<App>> {
    let below = below().map(|(path, _)| path);
    let others = ["/v1/{*path}", "/v3/{*path}"].map(str::to_owned);
    below.chain(others).fold(Router::new(), |routes, path| {
        routes.route(&path, post(any_path).fallback(unknown_route))
    })
}

/// Targets by route, for all dialects.
#[derive(Clone)]
pub(crate) struct Targets(Arc<HashMap<String, Target>>);

impl Targets {
    /// Collects the targets of all dialects.
    pub(crate) fn new() -> Self {
        let served = operations().into_iter().filter_map(|operation| {
            let Body { dialect, route } = operation.body?;
            let purpose = Some(route.purpose);
            Some((operation.path, Target { dialect, purpose }))
        });
        Self(Arc::new(below().chain(served).collect()))
    }

    /// Returns the target of a request by its route. If the route ends with the name of a graph,
    /// the part of the path after the name counts, too.
    pub(in crate::http) fn find(&self, request: &Request) -> Option<Target> {
        let route = request.extensions().get::<MatchedPath>()?.as_str();
        let behind_name = || {
            let (before, _) = route.split_once("{*")?;
            let behind = request.uri().path().strip_prefix(before)?;
            let (name, end) = behind.rsplit_once('/')?;
            let target = self.0.get(&format!("{route}/{end}"));
            target.filter(|_| !name.is_empty())
        };
        self.0.get(route).or_else(behind_name).copied()
    }
}
