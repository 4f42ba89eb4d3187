//! Parts of a request that handlers read: its sender, its query parameters, and its body.

use std::{convert::Infallible, sync::Arc};

use axum::{
    extract::{FromRequest, FromRequestParts, Request},
    http::request::Parts,
};
use bytes::Bytes;
use graphmill_calculators::payload::without_mark;
use graphmill_engine::shortened;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Deserializer;

use super::SHOWN_BYTES;
use crate::{
    app::state::App,
    bodies::Share,
    errors::{Cause, Failure, Result},
    run::RequestContext,
    telemetry::{self, Audit},
};

/// Code of a failure for a missing parameter or field.
const MISSING: &str = "missing_required_parameter";

impl FromRequestParts<Arc<App>> for RequestContext {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self> {
        Self::read(&app.runner, &parts.extensions, &parts.headers)
    }
}

impl RequestContext {
    /// Writes a line of the audit log for an action of the sender.
    pub(crate) fn audit(&self, action: &str, subject: &str, outcome: &str, reason: Option<&str>) {
        telemetry::audit(&Audit {
            action,
            actor: self.key().as_deref(),
            subject,
            outcome,
            reason,
        });
    }
}

/// The body of a request, with its share of the budget of all bodies.
pub(super) struct RequestBody {
    pub(super) bytes: Bytes,
    pub(super) share: Arc<Share>,
}

impl FromRequest<Arc<App>> for RequestBody {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self> {
        let (parts, body) = request.into_parts();
        let share = app.bodies.share(&parts.extensions);
        let reading = share.read(&parts.headers, body);
        let bytes = app.runner.guard(None).wait(reading).await?;
        Ok(Self { bytes, share })
    }
}

impl RequestBody {
    /// Parses a JSON object. An empty body counts as `{}`.
    pub(super) fn fields<T: DeserializeOwned>(&self) -> Result<T> {
        let is_empty = self.bytes.trim_ascii().is_empty();
        let text = if is_empty { b"{}" } else { &*self.bytes };
        read_json(text, "the body cannot be read")
    }
}

/// Parses a JSON object. `what` is the beginning of the error, which names the wrong field.
pub(super) fn read_json<'a, T: Deserialize<'a>>(text: &'a [u8], what: &str) -> Result<T> {
    let text = without_mark(text);
    let refused = |why: String| Failure::new(Cause::BadRequest, format!("{what}: {why}"));
    let lacking = |field: String| {
        let failure = Failure::new(Cause::BadRequest, format!("`{field}` is missing"));
        failure.with_field(field).with_code(MISSING)
    };
    if text.trim_ascii_start().starts_with(b"[") {
        // serde would accept an array of the fields' values.
        return Err(refused("it is an array, not an object".to_owned()));
    }
    let mut json = Deserializer::from_slice(text);
    let read = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let (path, error) = (error.path().to_string(), error.into_inner());
        let path = shortened(&path, SHOWN_BYTES);
        let told = error.to_string();
        let lacks = told.strip_prefix("missing field `");
        let lacks = lacks.and_then(|rest| rest.split('`').next());
        match (&*path, lacks) {
            _ if !error.is_data() => refused(error.to_string()).with_code("invalid_json"),
            (".", Some(name)) => lacking(name.to_owned()),
            (path, Some(name)) => lacking(format!("{path}.{name}")),
            (".", None) => refused(error.to_string()),
            (field, None) => refused(format!("`{field}`: {error}")).with_field(field.to_owned()),
        }
    })?;
    let ended = json.end();
    ended.map_err(|error| refused(error.to_string()).with_code("invalid_json"))?;
    Ok(read)
}

/// The query parameters of a request, in order.
pub(super) struct Query(Vec<(String, String)>);

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let query = parts.uri.query().unwrap_or_default();
        let pairs = form_urlencoded::parse(query.as_bytes());
        Ok(Self(pairs.into_owned().collect()))
    }
}

impl Query {
    /// Refuses parameters other than these, so that a misspelled one is not ignored.
    pub(super) fn check(&self, known: &[&'static str]) -> Result<()> {
        let mut names = self.0.iter().map(|(name, _)| name);
        let Some(name) = names.find(|name| !known.contains(&name.as_str())) else {
            return Ok(());
        };
        let (name, known) = (shortened(name, SHOWN_BYTES), known.join("`, `"));
        let message = format!("unknown parameter `{name}`: expected one of `{known}`");
        Err(Failure::new(Cause::BadRequest, message).with_code("unsupported_parameter"))
    }

    fn values(&self, name: &'static str) -> impl Iterator<Item = &str> {
        let of_name = self.0.iter().filter(move |(other, _)| other == name);
        of_name.map(|(_, value)| value.as_str())
    }

    /// Returns all values of a parameter.
    pub(super) fn all(&self, name: &'static str) -> Vec<String> {
        self.values(name).map(str::to_owned).collect()
    }

    /// Returns the value of a parameter that must not be given more than once.
    pub(super) fn one(&self, name: &'static str) -> Result<Option<&str>> {
        let mut values = self.values(name);
        match (values.next(), values.next()) {
            (_, Some(_)) => Err(wrong(name, "is given more than once")),
            (only, None) => Ok(only),
        }
    }

    /// Returns the value of a parameter that is `true` or `false`.
    pub(super) fn boolean(&self, name: &'static str) -> Result<Option<bool>> {
        match self.one(name)? {
            None => Ok(None),
            Some("true" | "1") => Ok(Some(true)),
            Some("false" | "0") => Ok(Some(false)),
            Some(_) => Err(wrong(name, "is neither `true` nor `false`")),
        }
    }
}

/// Creates the failure for a wrong parameter or field.
pub(super) fn wrong(name: &'static str, why: &str) -> Failure {
    Failure::new(Cause::BadRequest, format!("`{name}` {why}")).with_field(name)
}

/// Creates the failure for a missing parameter or field. `why` is its purpose.
pub(super) fn missing(name: &'static str, why: &str) -> Failure {
    wrong(name, &format!("is missing: {why}")).with_code(MISSING)
}
