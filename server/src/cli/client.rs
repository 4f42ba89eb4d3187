//! HTTP to a server of this program: what the verbs that ask one use.

use std::{error::Error as _, iter::successors};

use axum::body::{Body, BodyDataStream, to_bytes};
use futures_util::StreamExt as _;
use hyper::{Request, StatusCode, Uri, body::Incoming, header};
use hyper_util::{
    client::legacy::{Client as Http, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::Value;

use super::server::is_url;

/// Where servers are unless somebody says otherwise.
pub(super) const USUAL_URL: &str = "http://127.0.0.1:8000";

/// The longest answer, and the longest line of a stream: more than any server here says.
const LONGEST: usize = 64 << 20;

/// A server by its address.
pub(super) struct Client {
    http: Http<HttpConnector, Body>,
    base: String,
    key: Option<String>,
}

impl Client {
    /// Of the server at `url`, whose path may be that of the API. Connects when it is asked.
    pub(super) fn new(url: &str, key: Option<String>) -> Result<Self, String> {
        if url.starts_with("https://") {
            return Err(format!(
                "cannot ask `{url}`: only http:// is spoken here, which a proxy on this machine can \
                 pass on"
            ));
        }
        let base = url.trim_end_matches('/');
        let base = ["/v3", "/v1"]
            .iter()
            .find_map(|api| base.strip_suffix(api))
            .unwrap_or(base);
        let base = if is_url(base) && !base.contains("://") {
            format!("http://{base}")
        } else {
            base.to_owned()
        };
        let parsed: Uri = base
            .parse()
            .map_err(|error| format!("`{url}` is no URL: {error}"))?;
        if parsed.scheme_str() != Some("http") || parsed.host().is_none() {
            return Err(format!(
                "`{url}` is no URL: expected one such as {USUAL_URL}"
            ));
        }
        Ok(Self {
            http: Http::builder(TokioExecutor::new()).build_http(),
            base,
            key,
        })
    }

    pub(super) fn url(&self) -> &str {
        &self.base
    }

    /// The body of an answer. The error is the server's message, or why there is none.
    pub(super) async fn get(&self, path: &str) -> Result<String, String> {
        let request = Request::get(format!("{}{path}", self.base));
        let answer = self
            .send(request.header(header::ACCEPT, "*/*"), Body::empty())
            .await?;
        whole(answer).await
    }

    /// As [`Client::get`], read as JSON.
    pub(super) async fn get_json(&self, path: &str) -> Result<Value, String> {
        let text = self.get(path).await?;
        let url = &self.base;
        serde_json::from_str(&text).map_err(|error| format!("{url}{path} is no JSON: {error}"))
    }

    /// Posts a request whose answer is a stream of events.
    pub(super) async fn stream(&self, path: &str, body: &Value) -> Result<Events, String> {
        Ok(Events::of(self.post(path, body).await?))
    }

    /// Listens to a stream of events.
    pub(super) async fn listen(&self, path: &str) -> Result<Events, String> {
        let request = Request::get(format!("{}{path}", self.base));
        let answer = self.send(request, Body::empty()).await?;
        Ok(Events::of(answer))
    }

    /// Posts JSON, and reads the answer as JSON.
    pub(super) async fn post_json(&self, path: &str, body: &Value) -> Result<Value, String> {
        let answer = whole(self.post(path, body).await?).await?;
        let url = &self.base;
        serde_json::from_str(&answer).map_err(|error| format!("{url}{path} is no JSON: {error}"))
    }

    /// Deletes what is at a path.
    pub(super) async fn delete(&self, path: &str) -> Result<(), String> {
        let request = Request::delete(format!("{}{path}", self.base));
        self.send(request, Body::empty()).await.map(drop)
    }

    async fn post(&self, path: &str, body: &Value) -> Result<Incoming, String> {
        let request = Request::post(format!("{}{path}", self.base));
        let request = request.header(header::CONTENT_TYPE, "application/json");
        self.send(request, Body::from(body.to_string())).await
    }

    async fn send(
        &self,
        request: hyper::http::request::Builder,
        body: Body,
    ) -> Result<Incoming, String> {
        let request = match &self.key {
            Some(key) => request.header(header::AUTHORIZATION, format!("Bearer {key}")),
            None => request,
        };
        let request = request
            .body(body)
            .map_err(|error| format!("cannot ask: {error}"))?;
        let answer = self.http.request(request).await.map_err(|error| {
            let causes = successors(error.source(), |&cause| cause.source());
            let causes: Vec<String> = causes.map(ToString::to_string).collect();
            let hint = if error.is_connect() {
                "; `graphmill serve MODEL` starts a server, `graphmill chat MODEL` needs none"
            } else {
                ""
            };
            format!("cannot reach {}: {}{hint}", self.base, causes.join(": "))
        })?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer.into_body());
        }
        Err(refusal(status, &whole(answer.into_body()).await?))
    }
}

async fn whole(body: Incoming) -> Result<String, String> {
    let read = to_bytes(Body::new(body), LONGEST).await;
    let bytes = read.map_err(|error| format!("the answer ends early: {error}"))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What a server says of a request that it does not serve.
fn refusal(status: StatusCode, body: &str) -> String {
    let said = serde_json::from_str::<Value>(body)
        .ok()
        .and_then(|body| message(&body));
    said.unwrap_or_else(|| format!("the server answers {status}"))
}

/// The message in an answer that is an error, in either form.
fn message(body: &Value) -> Option<String> {
    let error = body.get("error").filter(|error| !error.is_null())?;
    let text = error.as_str().or_else(|| error.get("message")?.as_str());
    Some(text.unwrap_or("the server says no reason").to_owned())
}

/// The events of a stream.
pub(super) struct Events {
    stream: BodyDataStream,
    /// What has been read and is no whole line yet.
    read: Vec<u8>,
}

impl Events {
    fn of(answer: Incoming) -> Self {
        Self {
            stream: Body::new(answer).into_data_stream(),
            read: Vec::new(),
        }
    }

    /// The next event; nothing at the end. The error is the server's, or that the stream breaks
    /// off.
    pub(super) async fn next(&mut self) -> Result<Option<Value>, String> {
        loop {
            while let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line);
                let Some(data) = line.strip_prefix("data:").map(str::trim) else {
                    continue; // a comment, or the end of an event
                };
                if data == "[DONE]" {
                    return Ok(None);
                }
                let event: Value = serde_json::from_str(data)
                    .map_err(|error| format!("an event of the answer is no JSON: {error}"))?;
                return match message(&event) {
                    Some(message) => Err(message),
                    None => Ok(Some(event)),
                };
            }
            if self.read.len() > LONGEST {
                return Err("an event of the answer is too long".to_owned());
            }
            match self.stream.next().await {
                Some(Ok(more)) => self.read.extend_from_slice(&more),
                Some(Err(error)) => return Err(format!("the answer breaks off: {error}")),
                None => return Err("the answer breaks off: the connection was closed".to_owned()),
            }
        }
    }
}
