//! The layer that checks the key of each request. Only health probes and the files of the page need
//! no key.

use std::{collections::HashMap, sync::Arc};

use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};

use super::{Caller, KeyName, Keys, key::KeyEntry};
use crate::{
    errors::{Cause, Failure},
    metrics::KeyCounts,
    telemetry::{self, Audit, log::shown},
};

/// Header in which clients of Anthropic send their key.
const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// The permission that an operation needs.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    /// No key at all, for probes and the page.
    Nothing,
    /// Any key, whatever its scopes.
    Key,
    /// The scope `infer`, for requests to graphs.
    Infer,
    /// The scope `infer` for requests of the same key, or `admin` for all.
    Cancel,
    /// The scope `metrics` or `admin`.
    Metrics,
    /// The scope `admin`, for changes of the server.
    Admin,
}

impl Permission {
    fn is_met(self, entry: &KeyEntry) -> bool {
        match self {
            Self::Nothing | Self::Key => true,
            Self::Infer => entry.infers(),
            Self::Cancel => entry.infers() || entry.administers(),
            Self::Metrics => entry.watches(),
            Self::Admin => entry.administers(),
        }
    }

    fn scope(self) -> &'static str {
        match self {
            Self::Nothing | Self::Key => "any",
            Self::Infer | Self::Cancel => "infer",
            Self::Metrics => "metrics",
            Self::Admin => "admin",
        }
    }
}

/// State of the layer: the keys, and the permissions that operations need.
pub(crate) struct Gate {
    keys: Arc<Keys>,
    counts: KeyCounts,
    /// Required permissions by route and method.
    needs: HashMap<String, Vec<(Method, Permission)>>,
}

impl Gate {
    pub(crate) fn new(
        keys: Arc<Keys>,
        counts: KeyCounts,
        operations: impl IntoIterator<Item = (Method, String, Permission)>,
    ) -> Self {
        let mut needs: HashMap<String, Vec<(Method, Permission)>> = HashMap::new();
        for (method, path, need) in operations {
            needs.entry(path).or_default().push((method, need));
        }
        Self {
            keys,
            counts,
            needs,
        }
    }

    fn need(&self, request: &Request) -> Permission {
        let method = match request.method() {
            &Method::HEAD => &Method::GET,
            method => method,
        };
        let path = request.extensions().get::<MatchedPath>();
        let known = path.and_then(|path| self.needs.get(path.as_str()));
        let need = known.and_then(|needs| needs.iter().find(|(of, _)| of == method));
        match need {
            Some((_, need)) => *need,
            // A graph may serve the path.
            None if *method == Method::POST => Permission::Infer,
            None => Permission::Key,
        }
    }

    /// Returns the key of a request, and the number of requests it may still send, if that is
    /// limited. The error is the answer to a request that is refused.
    #[expect(clippy::result_large_err, reason = "a refusal is answered at once")]
    fn admit(
        &self,
        request: &Request,
        need: Permission,
    ) -> Result<(Caller, Option<u32>), Response> {
        let none = || {
            let message =
                "a key is needed: in the header `Authorization` after `Bearer`, or in `x-api-key`";
            Failure::new(Cause::NoKey, message)
        };
        let presented = presented(request.headers()).ok_or_else(none);
        let found = presented.and_then(|presented| self.keys.find(presented));
        let (key, competes) = found.map_err(|failure| {
            self.counts.refused("", "key");
            failure.into_response()
        })?;
        let name = Arc::clone(&key.entry.name);
        self.counts.request(&key.label);
        let refused = |reason, failure: Failure| {
            self.counts.refused(&key.label, reason);
            let mut response = failure.into_response();
            response.extensions_mut().insert(KeyName(Arc::clone(&name)));
            response
        };
        if !need.is_met(&key.entry) {
            let scope = need.scope();
            let message = format!("the key `{name}` does not have the scope `{scope}`");
            if need == Permission::Admin {
                telemetry::audit(&Audit {
                    action: "administer",
                    actor: Some(&name),
                    subject: &shown(request.uri().path()),
                    outcome: "refused",
                    reason: Some(&message),
                });
            }
            return Err(refused("scope", Failure::new(Cause::Forbidden, message)));
        }
        let limited = key.usage.requests.as_ref();
        let limited =
            limited.filter(|_| need == Permission::Infer && request.method() == Method::POST);
        let left = match limited.map(|requests| requests.take(1)).transpose() {
            Ok(left) => left,
            Err(wait) => {
                let message = format!("the key `{name}` is over its limit of requests per minute");
                let failure = Failure::new(Cause::RateLimited, message).after(wait);
                let mut response = refused("requests", failure);
                key.usage.write_headers(Some(0), response.headers_mut());
                return Err(response);
            }
        };
        let caller = Caller::new(key, competes, self.counts.clone());
        Ok((caller, left))
    }
}

/// Returns true for headers that may contain a key.
pub(crate) fn has_key(name: &HeaderName) -> bool {
    name == header::AUTHORIZATION || name == X_API_KEY
}

/// Returns the key that a client sent.
fn presented(headers: &HeaderMap) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"bearer ";
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| {
        let (scheme, key) = value.as_bytes().split_at_checked(SCHEME.len())?;
        let is_bearer = scheme.eq_ignore_ascii_case(SCHEME) && !key.is_empty();
        is_bearer.then(|| key.trim_ascii())
    });
    bearer.or_else(|| headers.get(X_API_KEY).map(HeaderValue::as_bytes))
}

/// Checks the key of a request.
pub(crate) async fn layer(
    State(gate): State<Arc<Gate>>,
    mut request: Request,
    next: Next,
) -> Response {
    let need = gate.need(&request);
    if need == Permission::Nothing {
        return next.run(request).await;
    }
    let (caller, left) = match gate.admit(&request, need) {
        Ok((caller, left)) => (Arc::new(caller), left),
        Err(response) => return response,
    };
    request.extensions_mut().insert(Arc::clone(&caller));
    let mut response = next.run(request).await;
    caller.key.usage.write_headers(left, response.headers_mut());
    let name = KeyName(Arc::clone(caller.name()));
    response.extensions_mut().insert(name);
    response
}
