//! The parameters behind the `?` of a path. One that is not known is refused, so that a mistyped
//! one is not taken for one that is left out.

use axum::extract::RawQuery;
use graphmill_engine::shortened;

use super::SHOWN_BYTES;
use crate::errors::{Cause, Failure};

/// Parameters in their order.
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads the parameters, which have to be among the `known` ones.
    pub(super) fn read(query: RawQuery, known: &[&'static str]) -> Result<Self, Failure> {
        let query = query.0.unwrap_or_default();
        let pairs = form_urlencoded::parse(query.as_bytes()).into_owned();
        let query = Self(pairs.collect());
        let is_unknown = |name: &&String| !known.contains(&name.as_str());
        let Some(name) = query.0.iter().map(|(name, _)| name).find(is_unknown) else {
            return Ok(query);
        };
        let (name, known) = (shortened(name, SHOWN_BYTES), known.join("`, `"));
        let message = format!("unknown parameter `{name}`: there are `{known}`");
        Err(Failure::new(Cause::BadRequest, message).with_code("unsupported_parameter"))
    }

    fn values(&self, name: &'static str) -> impl Iterator<Item = &str> {
        let of_name = self.0.iter().filter(move |(other, _)| other == name);
        of_name.map(|(_, value)| value.as_str())
    }

    /// All values of a parameter.
    pub(super) fn all(&self, name: &'static str) -> Vec<String> {
        self.values(name).map(str::to_owned).collect()
    }

    /// The value of a parameter that may be given once.
    pub(super) fn one(&self, name: &'static str) -> Result<Option<&str>, Failure> {
        let mut values = self.values(name);
        match (values.next(), values.next()) {
            (_, Some(_)) => Err(wrong(name, "is given more than once")),
            (only, None) => Ok(only),
        }
    }

    /// A parameter that is `true` or `false`.
    pub(super) fn boolean(&self, name: &'static str) -> Result<Option<bool>, Failure> {
        match self.one(name)? {
            None => Ok(None),
            Some("true" | "1") => Ok(Some(true)),
            Some("false" | "0") => Ok(Some(false)),
            Some(_) => Err(wrong(name, "is neither `true` nor `false`")),
        }
    }
}

/// The failure of a parameter or field that is wrong.
pub(super) fn wrong(name: &'static str, why: &str) -> Failure {
    Failure::new(Cause::BadRequest, format!("`{name}` {why}")).of_field(name)
}

/// The failure of a parameter or field that is not there. `why`: what it is for.
pub(super) fn missing(name: &'static str, why: &str) -> Failure {
    wrong(name, &format!("is missing: {why}")).with_code("missing_required_parameter")
}

/// A share of packets or sessions.
pub(super) fn rate(rate: f64) -> Result<f64, Failure> {
    if rate > 0.0 && rate <= 1.0 {
        return Ok(rate);
    }
    let why = "is no share: expected a number above 0 and up to 1";
    Err(wrong("rate", why))
}
