//! The HTTP operations. An operation is a route together with its documentation, so that neither
//! exists without the other.

use std::sync::Arc;

use axum::{
    Router,
    handler::Handler,
    routing::{MethodRouter, delete, get, options, post, put},
};

use graphmill_calculators::http::dialect::{Dialect, Purpose, Route};
use serde::Serialize;

use crate::{app::state::App, errors::Cause, keys::Need};

/// A method of a path.
pub(crate) struct Operation {
    /// In lower case.
    pub(super) method: &'static str,
    /// As the router has it: `{*name}` takes slashes.
    pub(super) path: String,
    /// None where the handler of a shorter path serves it, which ends in `{*name}`.
    handler: Option<MethodRouter<Arc<App>>>,
    /// What it belongs to, in the documentation.
    pub(super) group: Group,
    /// What it does.
    pub(super) summary: &'static str,
    /// The body it takes.
    pub(super) body: Option<Body>,
    /// What it answers.
    pub(super) answer: Answer,
    /// The fields of a body that the table of requests for graphs does not have.
    pub(super) fields: &'static [Parameter],
    /// Whether its body is a text.
    pub(super) takes_text: bool,
    /// The parameters behind the path.
    pub(super) query: &'static [Parameter],
    /// Extra error causes, beyond those of all operations.
    refusals: &'static [Cause],
    /// Whether it is documented; other spellings of a path are not.
    pub(super) listed: bool,
    /// Which listener has it, where operators have one of their own.
    pub(super) side: Side,
    /// What a key needs for it, where that is not as usual.
    own_need: Option<Need>,
}

/// A parameter behind a path, or a field of a body.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Parameter {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) about: &'static str,
}

/// What a parameter can be.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Kind {
    Text,
    /// A text that may be left out.
    OptionalText,
    /// An object.
    Object,
    /// An array of objects.
    Objects,
    /// The same, which may be left out.
    OptionalObjects,
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// A text; may be given several times.
    Texts,
    /// A number above 0 and up to 1.
    Share,
    /// A whole number from 1 to this.
    Count(u64),
    Boolean,
}

impl Kind {
    /// Returns true if a request has to have it, be it behind the path or in the body.
    pub(super) fn is_required(self) -> bool {
        matches!(self, Self::Text | Self::Texts | Self::Objects)
    }
}

impl Parameter {
    pub(crate) const fn new(name: &'static str, kind: Kind, about: &'static str) -> Self {
        Self { name, kind, about }
    }
}

/// Whom an operation is for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Clients.
    Public,
    /// Operators.
    Management,
    /// Probes of either.
    Both,
}

/// Parts of the documentation.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Group {
    /// Text from models.
    Generation,
    /// What models see.
    Prompts,
    /// Numbers about texts.
    Vectors,
    /// Graphs of tensors.
    Tensors,
    /// What is served.
    Models,
    /// What graphs and their sessions do.
    Graphs,
    /// How the server is.
    Server,
}

/// A JSON body in a dialect.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Body {
    pub(super) dialect: &'static dyn Dialect,
    pub(super) route: &'static Route,
}

impl Body {
    /// Name of the endpoint in the table of fields.
    pub(super) fn endpoint(self) -> &'static str {
        self.dialect.endpoint()
    }

    /// The fields that its schema shows; none for all.
    pub(super) fn only(self) -> Option<&'static [&'static str]> {
        use Purpose::{Count, Rendering, Template};
        let shows_prompt = matches!(self.route.purpose, Rendering | Count(_) | Template);
        shows_prompt.then_some(OF_PROMPTS)
    }
}

/// The fields that make a prompt, and `n`, whose name is so short that a client can hit on it by
/// chance.
#[rustfmt::skip]
const OF_PROMPTS: &[&str] = &[
    "add_generation_prompt", "chat_template_kwargs", "documents", "enable_thinking", "input", "instructions", "messages", "model", "n",
    "prompt", "reasoning_effort", "system", "thinking", "tool_choice", "tools",
];

/// The form of an answer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A JSON object with these fields.
    Json(&'static [&'static str]),
    /// The same, or a stream of events.
    JsonOrEvents(&'static [&'static str]),
    /// A stream of events.
    Events,
    /// Text of one of these media types.
    Text(&'static [&'static str]),
    /// Whatever the graph gives.
    Any,
    /// JSON, with a status that says the same: 200 or 503.
    Health,
    /// A JSON array of objects.
    List,
    /// The states of graphs, with a status that says whether one has changed: 200 or 201. What is
    /// wrong with a new configuration: 400 or 412.
    Reload,
    /// Nothing: status 204.
    Nothing,
    /// A file of the page, the same for everybody.
    Page,
}

/// Why any request may not be answered.
#[rustfmt::skip]
const OF_ALL: &[Cause] = &[
    Cause::WrongMethod, Cause::ForeignHost, Cause::ForeignOrigin, Cause::TooManyConnections, Cause::Panic, Cause::NoKey, Cause::Forbidden,
];

/// Why one that comes with a body may not be, besides.
#[rustfmt::skip]
const OF_BODIES: &[Cause] = &[Cause::BodyTooLarge, Cause::UnknownEncoding, Cause::BodiesFull, Cause::LateRequest, Cause::Draining];

/// Why no POST for a graph may be answered.
#[rustfmt::skip]
pub(crate) const OF_GRAPHS: &[Cause] = &[
    Cause::BadRequest, Cause::ContextLength, Cause::UnknownModel, Cause::NotFound, Cause::QueueFull, Cause::Loading, Cause::GraphFailed,
    Cause::Unavailable, Cause::Deadline, Cause::Cancelled, Cause::NodeFailed, Cause::NoAnswer, Cause::RateLimited,
];

impl Operation {
    /// A GET.
    pub(crate) fn get<T: 'static>(path: &str, handler: impl Handler<T, Arc<App>>) -> Self {
        Self::new("get", path, Some(get(handler)))
    }

    /// A POST.
    pub(crate) fn post<T: 'static>(path: &str, handler: impl Handler<T, Arc<App>>) -> Self {
        Self::new("post", path, Some(post(handler)))
    }

    /// A PUT.
    pub(crate) fn put<T: 'static>(path: &str, handler: impl Handler<T, Arc<App>>) -> Self {
        Self::new("put", path, Some(put(handler)))
    }

    /// An OPTIONS.
    pub(crate) fn options<T: 'static>(path: &str, handler: impl Handler<T, Arc<App>>) -> Self {
        Self::new("options", path, Some(options(handler)))
    }

    /// A DELETE.
    pub(crate) fn delete<T: 'static>(path: &str, handler: impl Handler<T, Arc<App>>) -> Self {
        Self::new("delete", path, Some(delete(handler))).refuses(&[Cause::NotFound])
    }

    /// An operation that the handler of a shorter path serves, which ends in `{*name}`.
    pub(crate) fn behind(method: &'static str, path: &str) -> Self {
        Self::new(method, path, None)
    }

    /// What a key needs for it. Probes that name no graph need none; the page needs none, as
    /// browsers ask for pages without one. Of what operators ask, `metrics` is for what only reads.
    pub(super) fn need(&self) -> Need {
        if let Some(need) = self.own_need {
            return need;
        }
        match (self.answer, self.side, self.method) {
            (Answer::Health, ..) if !self.path.contains('{') => Need::Nothing,
            (Answer::Health, ..) => Need::Key,
            (Answer::Page, ..) => Need::Nothing,
            (_, Side::Management, "get") => Need::Metrics,
            (_, Side::Management, _) => Need::Admin,
            (.., "delete") => Need::Cancel,
            (..) if self.group == Group::Server && self.method == "get" => Need::Key,
            _ => Need::Infer,
        }
    }

    fn new(method: &'static str, path: &str, handler: Option<MethodRouter<Arc<App>>>) -> Self {
        Self {
            method,
            path: path.to_owned(),
            handler,
            group: Group::Server,
            summary: "",
            body: None,
            answer: Answer::Json(&[]),
            fields: &[],
            takes_text: false,
            query: &[],
            refusals: &[],
            listed: true,
            side: Side::Public,
            own_need: None,
        }
    }

    /// It takes a body for a graph.
    pub(crate) fn takes_body(mut self, body: Body) -> Self {
        self.body = Some(body);
        self.refuses(OF_GRAPHS)
    }

    /// What it does.
    pub(crate) fn about(mut self, group: Group, summary: &'static str) -> Self {
        self.group = group;
        self.summary = summary;
        self
    }

    /// What it answers.
    pub(crate) fn answers(mut self, answer: Answer) -> Self {
        if answer == Answer::Health {
            self.side = Side::Both;
        }
        self.answer = answer;
        self
    }

    /// Why it may not answer, where that is not as usual.
    pub(crate) fn refuses(mut self, refusals: &'static [Cause]) -> Self {
        self.refusals = refusals;
        self
    }

    /// Why it may not answer.
    pub(super) fn refusals(&self) -> impl Iterator<Item = Cause> {
        let comes_with_a_body = matches!(self.method, "post" | "put");
        let of_bodies = if comes_with_a_body { OF_BODIES } else { &[] };
        let all = [self.refusals, of_bodies, OF_ALL].into_iter().flatten();
        all.copied()
    }

    /// The parameters that it takes behind its path.
    pub(crate) fn asks(mut self, query: &'static [Parameter]) -> Self {
        self.query = query;
        self
    }

    /// The fields of its body, which may be left out where none is required.
    pub(crate) fn takes(mut self, fields: &'static [Parameter]) -> Self {
        self.fields = fields;
        self
    }

    /// Its body is a text.
    pub(crate) fn takes_text(mut self) -> Self {
        self.takes_text = true;
        self
    }

    /// What a key needs for it.
    pub(crate) fn needs(mut self, need: Need) -> Self {
        self.own_need = Some(need);
        self
    }

    /// Says whom it is for, where not for clients.
    pub(crate) fn on(mut self, side: Side) -> Self {
        self.side = side;
        self
    }

    /// Documents the operation only if its path is the one that the documentation shows.
    pub(crate) fn listed(mut self, listed: bool) -> Self {
        self.listed = listed;
        self
    }
}

/// The routes of operations.
pub(crate) fn routes(operations: Vec<Operation>) -> Router<Arc<App>> {
    let handled = operations.into_iter();
    let handled = handled.filter_map(|it| Some((it.path, it.handler?)));
    handled.fold(Router::new(), |routes, (path, handler)| {
        routes.route(&path, handler)
    })
}
