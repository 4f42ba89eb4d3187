//! The HTTP operations. An operation is a route together with its documentation, so that neither
//! exists without the other.

use std::{
    future::{Ready, ready},
    sync::Arc,
};

use axum::{
    Router,
    handler::Handler,
    routing::{MethodRouter, delete, get, options, post, put},
};

use graphmill_calculators::http::dialect::{Dialect, Purpose, Route};
use serde::Serialize;

use crate::{
    app::state::App,
    errors::{Cause, Failure},
    keys::Permission,
};

/// An operation: a method of a path, with its handler and its documentation.
pub(crate) struct Operation {
    /// HTTP method in lower case.
    pub(super) method: &'static str,
    /// Path in the router's syntax, in which `{*name}` matches slashes.
    pub(super) path: String,
    /// Handler; `None` if the handler of a shorter path that ends with `{*name}` serves the
    /// operation.
    handler: Option<MethodRouter<Arc<App>>>,
    /// Section of the documentation that lists it.
    pub(super) group: Group,
    /// Summary for the documentation, one sentence without a full stop.
    pub(super) summary: &'static str,
    /// Body in a dialect, if it takes one.
    pub(super) body: Option<Body>,
    pub(super) answer: Answer,
    /// Fields of a body that is not in a dialect.
    pub(super) fields: &'static [Parameter],
    /// True if the body is plain text.
    pub(super) takes_text: bool,
    pub(super) query: &'static [Parameter],
    /// Additional error causes, beyond those of all operations.
    refusals: &'static [Cause],
    /// True to document it. Other spellings of a path are not documented.
    pub(super) listed: bool,
    /// Listener that serves it, if operators have one of their own.
    pub(super) side: Side,
    /// Required permission, if it differs from the usual one.
    own_need: Option<Permission>,
}

/// A query parameter, or a field of a body.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Parameter {
    pub(super) name: &'static str,
    pub(super) kind: ParameterKind,
    pub(super) about: &'static str,
}

/// The type of a parameter.
#[derive(Copy, Clone, Debug)]
pub(crate) enum ParameterKind {
    Text,
    OptionalText,
    Object,
    Objects,
    /// Optional array of JSON objects.
    OptionalObjects,
    /// One of the listed texts.
    OneOf(&'static [&'static str]),
    /// Text that can be given several times.
    Texts,
    /// Number above 0 and up to 1.
    Share,
    /// Whole number from 1 to the given maximum.
    Count(u64),
    Boolean,
}

impl ParameterKind {
    /// Returns true if a request must contain it.
    pub(super) fn is_required(self) -> bool {
        matches!(self, Self::Text | Self::Texts | Self::Objects)
    }
}

impl Parameter {
    pub(crate) const fn new(name: &'static str, kind: ParameterKind, about: &'static str) -> Self {
        Self { name, kind, about }
    }
}

/// The users of an operation.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Only for clients; not served at the port of operators.
    Public,
    /// Only for operators; refused at the port of clients if they have their own.
    Management,
    /// For clients and operators, such as probes.
    Both,
}

/// The sections of the documentation.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Group {
    /// Operations that generate text with models.
    Generation,
    /// Operations that show the prompts of models.
    Prompts,
    /// Operations that embed or rank texts.
    Vectors,
    /// Operations on graphs of tensors.
    Tensors,
    /// Operations on the served models.
    Models,
    /// Operations that observe graphs and sessions.
    Graphs,
    /// Operations on the state of the server.
    Server,
}

/// A JSON body in a dialect.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Body {
    pub(super) dialect: &'static dyn Dialect,
    pub(super) route: &'static Route,
}

impl Body {
    /// Returns the name of the endpoint in the table of fields.
    pub(super) fn endpoint(self) -> &'static str {
        self.dialect.endpoint()
    }

    /// Returns the only fields that the schema shows; `None` shows all.
    pub(super) fn only(self) -> Option<&'static [&'static str]> {
        use Purpose::{Count, Rendering, Template};
        let shows_prompt = matches!(self.route.purpose, Rendering | Count(_) | Template);
        shows_prompt.then_some(OF_PROMPTS)
    }
}

/// Fields that shape a prompt. They include `n`, because the name is so short that a client may
/// choose it by chance.
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
    /// A JSON object with these fields, or a stream of events.
    JsonOrEvents(&'static [&'static str]),
    Events,
    /// Text of one of these media types.
    Text(&'static [&'static str]),
    /// Any answer that the graph produces.
    Any,
    /// JSON with a matching status: 200 or 503.
    Health,
    /// A JSON array of objects.
    List,
    /// The states of graphs, with status 201 if one has changed and 200 if not. Errors of a new
    /// configuration have status 400 or 412.
    Reload,
    /// No content, with status 204.
    Nothing,
    /// A file of the page, the same for all clients.
    Page,
}

/// Causes of failures of all operations.
#[rustfmt::skip]
const OF_ALL: &[Cause] = &[
    Cause::WrongMethod, Cause::ForeignHost, Cause::ForeignOrigin, Cause::TooManyConnections, Cause::Panic, Cause::NoKey, Cause::Forbidden,
];

/// Additional causes of failures of operations with a body.
#[rustfmt::skip]
const OF_BODIES: &[Cause] = &[Cause::BodyTooLarge, Cause::UnknownEncoding, Cause::BodiesFull, Cause::LateRequest, Cause::Draining];

/// Additional causes of failures of POST requests to graphs.
#[rustfmt::skip]
pub(crate) const OF_GRAPHS: &[Cause] = &[
    Cause::BadRequest, Cause::ContextLength, Cause::UnknownModel, Cause::NotFound, Cause::QueueFull, Cause::Loading, Cause::GraphFailed,
    Cause::Unavailable, Cause::Deadline, Cause::Cancelled, Cause::NodeFailed, Cause::NoAnswer, Cause::RateLimited,
];

impl Operation {
    /// Creates an operation for GET.
    pub(crate) fn get<T: 'static>(path: &str, handler: impl Handler<T, Arc<App>>) -> Self {
        Self::new("get", path, Some(get(handler)))
    }

    /// Creates an operation for POST.
    pub(crate) fn post<T: 'static>(path: &str, handler: impl Handler<T, Arc<App>>) -> Self {
        Self::new("post", path, Some(post(handler)))
    }

    /// Creates an operation for PUT.
    pub(crate) fn put<T: 'static>(path: &str, handler: impl Handler<T, Arc<App>>) -> Self {
        Self::new("put", path, Some(put(handler)))
    }

    /// Creates an operation for OPTIONS.
    pub(crate) fn options<T: 'static>(path: &str, handler: impl Handler<T, Arc<App>>) -> Self {
        Self::new("options", path, Some(options(handler)))
    }

    /// Creates an operation for DELETE.
    pub(crate) fn delete<T: 'static>(path: &str, handler: impl Handler<T, Arc<App>>) -> Self {
        Self::new("delete", path, Some(delete(handler))).refuses(&[Cause::NotFound])
    }

    /// Creates an operation that is served by the handler of a shorter path, which ends with
    /// `{*name}`.
    pub(crate) fn behind(method: &'static str, path: &str) -> Self {
        Self::new(method, path, None)
    }

    /// Returns the permission that it needs. Probes that name no graph need none. The page needs
    /// none, as browsers request pages without a key. Operators need `metrics` for reading.
    pub(super) fn need(&self) -> Permission {
        if let Some(need) = self.own_need {
            return need;
        }
        match (self.answer, self.side, self.method) {
            (Answer::Health, ..) if !self.path.contains('{') => Permission::Nothing,
            (Answer::Health, ..) => Permission::Key,
            (Answer::Page, ..) => Permission::Nothing,
            (_, Side::Management, "get") => Permission::Metrics,
            (_, Side::Management, _) => Permission::Admin,
            (.., "delete") => Permission::Cancel,
            (..) if self.group == Group::Server && self.method == "get" => Permission::Key,
            _ => Permission::Infer,
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

    /// Sets its body, in a dialect.
    pub(crate) fn takes_body(mut self, body: Body) -> Self {
        self.body = Some(body);
        self.refuses(OF_GRAPHS)
    }

    /// Sets its section and its summary.
    pub(crate) fn about(mut self, group: Group, summary: &'static str) -> Self {
        self.group = group;
        self.summary = summary;
        self
    }

    /// Sets the form of its answer.
    pub(crate) fn answers(mut self, answer: Answer) -> Self {
        if answer == Answer::Health {
            self.side = Side::Both;
        }
        self.answer = answer;
        self
    }

    /// Overrides the usual error causes.
    pub(crate) fn refuses(mut self, refusals: &'static [Cause]) -> Self {
        self.refusals = refusals;
        self
    }

    /// Returns all its error causes, usual and additional ones.
    pub(super) fn refusals(&self) -> impl Iterator<Item = Cause> {
        let comes_with_a_body = matches!(self.method, "post" | "put");
        let of_bodies = if comes_with_a_body { OF_BODIES } else { &[] };
        let all = [self.refusals, of_bodies, OF_ALL].into_iter().flatten();
        all.copied()
    }

    pub(crate) fn asks(mut self, query: &'static [Parameter]) -> Self {
        self.query = query;
        self
    }

    /// Sets the fields of its body. The body is optional if no field is required.
    pub(crate) fn takes(mut self, fields: &'static [Parameter]) -> Self {
        self.fields = fields;
        self
    }

    /// Declares that its body is plain text.
    pub(crate) fn takes_text(mut self) -> Self {
        self.takes_text = true;
        self
    }

    /// Overrides the permission that the path implies.
    pub(crate) fn needs(mut self, need: Permission) -> Self {
        self.own_need = Some(need);
        self
    }

    /// Sets its users, which are clients by default.
    pub(crate) fn on(mut self, side: Side) -> Self {
        self.side = side;
        self
    }

    /// Sets if it is documented.
    pub(crate) fn listed(mut self, listed: bool) -> Self {
        self.listed = listed;
        self
    }
}

/// Returns a handler that refuses every request.
pub(super) fn refused(why: &'static str) -> impl Fn() -> Ready<Failure> + Clone {
    move || ready(Failure::new(Cause::Unsupported, why))
}

/// Builds the router of operations.
pub(crate) fn routes(operations: Vec<Operation>) -> Router<Arc<App>> {
    let handled = operations.into_iter();
    let handled = handled.filter_map(|it| Some((it.path, it.handler?)));
    handled.fold(Router::new(), |routes, (path, handler)| {
        routes.route(&path, handler)
    })
}
