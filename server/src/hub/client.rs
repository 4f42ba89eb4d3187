//! Requests to a hub: the list of files of a repository, and their contents.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use reqwest::{Client as HttpClient, Response, StatusCode, Url, header};
use serde::Deserialize;

use super::choice::{RepositoryFile, Sum};
use crate::http_client;

/// Default hub; `HF_ENDPOINT` names another.
const ENDPOINT: &str = "https://huggingface.co";
/// Page where users create tokens.
const TOKENS: &str = "https://huggingface.co/settings/tokens";
/// Maximum size of a repository's list of files, in bytes. Some have tens of thousands.
const MAX_LIST_BYTES: usize = 64 << 20;
/// Maximum number of redirects of one request.
const MAX_REDIRECTS: usize = 10;
/// Time limit of a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Maximum silence of a server.
const SILENCE: Duration = Duration::from_secs(30);

/// The error of a request to a hub.
pub(super) enum HubFailure {
    /// It will fail again in the same way.
    Lasting(String),
    /// It may succeed if it is repeated.
    Passing(String),
}

/// The files of a repository at a commit.
pub(super) struct Listing {
    pub(super) commit: String,
    pub(super) files: Vec<RepositoryFile>,
}

/// A client of a hub, with the user's token.
pub(super) struct Client {
    http: HttpClient,
    endpoint: Url,
    token: Option<String>,
}

impl Client {
    pub(super) fn new(endpoint: Option<String>, token: Option<String>) -> Result<Self, String> {
        let text = endpoint.unwrap_or_else(|| ENDPOINT.to_owned());
        let wrong = |why: &dyn std::fmt::Display| format!("`HF_ENDPOINT={text}`: {why}");
        let endpoint: Url = text.parse().map_err(|error| wrong(&error))?;
        if !matches!(endpoint.scheme(), "http" | "https") || endpoint.cannot_be_a_base() {
            return Err(wrong(&"expected an address such as https://huggingface.co"));
        }
        // Downloads come from the Internet, so a proxy may be needed.
        let http = http_client::builder_through_proxies(&endpoint)
            .connect_timeout(CONNECT)
            .read_timeout(SILENCE)
            .build();
        let http = http.map_err(|error| wrong(&http_client::reason(&error)))?;
        Ok(Self {
            http,
            endpoint,
            token,
        })
    }

    /// Requests the list of a repository's files.
    pub(super) async fn list(&self, repository: &str) -> Result<Listing, HubFailure> {
        let mut url = self.url(&format!("api/models/{repository}/revision/main"));
        url.set_query(Some("blobs=true"));
        let answer = self.get(url, repository, 0).await?;
        let body = to_bytes(Body::new(reqwest::Body::from(answer)), MAX_LIST_BYTES).await;
        let body =
            body.map_err(|error| HubFailure::Passing(format!("{}: {error}", self.endpoint)))?;
        let hub = &self.endpoint;
        let info: Info = serde_json::from_slice(&body).map_err(|error| {
            let why = format!("the list of `{repository}` from {hub} cannot be read: {error}");
            HubFailure::Lasting(why)
        })?;
        if !is_hexadecimal(&info.sha, 40) {
            let why = format!("{hub} reports no valid commit of `{repository}`");
            return Err(HubFailure::Lasting(why));
        }
        let files = info.siblings.into_iter().filter_map(Sibling::file);
        Ok(Listing {
            commit: info.sha,
            files: files.collect(),
        })
    }

    /// Requests a file, from a byte offset on.
    pub(super) async fn file(
        &self,
        repository: &str,
        commit: &str,
        path: &str,
        from: u64,
    ) -> Result<Response, HubFailure> {
        let url = self.url(&format!("{repository}/resolve/{commit}/{path}"));
        self.get(url, repository, from).await
    }

    fn url(&self, path: &str) -> Url {
        let mut url = self.endpoint.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path.split('/'));
        }
        url
    }

    /// Requests a URL and follows redirects. Only the hub itself receives the token.
    async fn get(&self, mut url: Url, repository: &str, from: u64) -> Result<Response, HubFailure> {
        for _ in 0..MAX_REDIRECTS {
            let mut request = self.http.get(url.clone());
            let is_hub = url.origin() == self.endpoint.origin();
            if let Some(token) = self.token.as_ref().filter(|_| is_hub) {
                request = request.bearer_auth(token);
            }
            if from > 0 {
                request = request.header(header::RANGE, format!("bytes={from}-"));
            }
            let answer = request.send().await.map_err(|error| {
                let host = url.origin().ascii_serialization();
                let reason = match http_client::reason(&error) {
                    _ if error.is_timeout() => "it did not answer in time".to_owned(),
                    reason => reason,
                };
                HubFailure::Passing(format!("cannot reach {host}: {reason}"))
            })?;
            if !answer.status().is_redirection() {
                return self.admitted(answer, &url, repository);
            }
            let target = answer.headers().get(header::LOCATION);
            let target = target.and_then(|target| url.join(target.to_str().ok()?).ok());
            let is_safe = |target: &Url| match target.scheme() {
                "https" => true,
                "http" => self.endpoint.scheme() == "http",
                _ => false,
            };
            let Some(target) = target.filter(is_safe) else {
                let host = url.host_str().unwrap_or_default();
                let why = format!("{host} redirects to an invalid URL");
                return Err(HubFailure::Lasting(why));
            };
            url = target;
        }
        let hub = &self.endpoint;
        let why = format!("{hub} redirects more than {MAX_REDIRECTS} times");
        Err(HubFailure::Lasting(why))
    }

    /// Returns a successful answer, or the reason why the request was refused.
    fn admitted(
        &self,
        answer: Response,
        url: &Url,
        repository: &str,
    ) -> Result<Response, HubFailure> {
        let status = answer.status();
        if status.is_success() || status == StatusCode::RANGE_NOT_SATISFIABLE {
            return Ok(answer);
        }
        let host = url.host_str().unwrap_or_default();
        let is_busy = matches!(
            status,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT
        );
        // An address from the hub may have expired.
        let is_elsewhere = url.origin() != self.endpoint.origin();
        if is_busy || is_elsewhere || status.is_server_error() {
            return Err(HubFailure::Passing(format!("{host} answered {status}")));
        }
        let code = answer.headers().get("x-error-code");
        let is_gated = code.is_some_and(|code| code == "GatedRepo");
        let terms = format!("accept its terms at {}", self.url(repository));
        let why = match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => match (&self.token, is_gated) {
                (None, true) => format!(
                    "`{repository}` is gated: {terms}, and set HF_TOKEN to a token of your account \
                     ({TOKENS})"
                ),
                (None, false) => format!(
                    "`{repository}` does not exist, or is private or gated: for one that exists, \
                     set HF_TOKEN to a token of an account that may read it ({TOKENS})"
                ),
                (Some(_), true) => format!(
                    "`{repository}` is gated, and the account of the token in HF_TOKEN has no \
                     access: {terms}"
                ),
                (Some(_), false) => format!(
                    "the token in HF_TOKEN has no access to `{repository}`, or the repository does \
                     not exist ({status})"
                ),
            },
            StatusCode::NOT_FOUND => {
                format!("{host} does not have the repository `{repository}`, or not this file")
            }
            _ => format!("{host} answered {status}"),
        };
        Err(HubFailure::Lasting(why))
    }
}

/// The hub's description of a repository.
#[derive(Deserialize)]
struct Info {
    sha: String,
    #[serde(default)]
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
    blob_id: Option<String>,
    lfs: Option<Lfs>,
}

/// The checksum of a file that is too large for git.
#[derive(Deserialize)]
struct Lfs {
    #[serde(alias = "oid")]
    sha256: String,
    size: u64,
}

impl Sibling {
    /// Returns the file, unless its path could leave the folder or contains control characters.
    fn file(self) -> Option<RepositoryFile> {
        let is_odd = |it: char| it == '\\' || it.is_control();
        let is_inside =
            |part: &str| !matches!(part, "" | "." | ".." | ".cache") && !part.contains(is_odd);
        if !self.rfilename.split('/').all(is_inside) {
            return None;
        }
        let sum = match (&self.lfs, self.blob_id) {
            (Some(lfs), _) => Some(Sum::Sha256(lfs.sha256.to_ascii_lowercase())),
            (None, id) => id.map(Sum::GitBlob),
        };
        let is_sum = |sum: &Sum| match sum {
            Sum::Sha256(digits) => is_hexadecimal(digits, 64),
            Sum::GitBlob(digits) => is_hexadecimal(digits, 40),
        };
        Some(RepositoryFile {
            path: self.rfilename,
            size: self.lfs.map(|lfs| lfs.size).or(self.size).unwrap_or(0),
            sum: sum.filter(is_sum),
        })
    }
}

fn is_hexadecimal(text: &str, digits: usize) -> bool {
    text.len() == digits
        && text
            .bytes()
            .all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
}
