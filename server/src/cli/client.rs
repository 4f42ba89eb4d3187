//! HTTP client of the commands that query a running server.

use bytes::Bytes;
use reqwest::{Client as Http, Method, RequestBuilder, Response, Url, header};
use serde_json::Value;

use super::server::is_url;
use crate::http_client;

/// URL of the server if the command line has none.
pub(super) const USUAL_URL: &str = "http://127.0.0.1:8000";

/// Hint for a server whose certificate is refused.
const TRUSTED: &str = "the certificates of the system are trusted, or those in the file that the variable `SSL_CERT_FILE` names";

/// Maximum size in bytes of an answer, and of a line of a stream; more than any server here sends.
const LONGEST: usize = 64 << 20;

/// A client of one server.
pub(super) struct Client {
    http: Http,
    base: String,
    key: Option<String>,
    /// Hint for the error that the server cannot be reached.
    hint: &'static str,
}

impl Client {
    /// Creates a client for the server at `url`, which may end in `/v1` or `/v3`. It connects with
    /// the first request.
    pub(super) fn new(url: &str, key: Option<String>) -> Result<Self, String> {
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
        let parsed = Url::parse(&base).ok();
        let parsed = parsed.filter(|url| ["http", "https"].contains(&url.scheme()));
        let parsed = parsed
            .ok_or_else(|| format!("`{url}` is not a URL: expected one such as {USUAL_URL}"))?;
        let http = http_client::builder_for(&parsed).build();
        let http =
            http.map_err(|error| format!("cannot ask `{url}`: {}", http_client::reason(&error)))?;
        Ok(Self {
            http,
            base,
            key,
            hint: "`graphmill serve MODEL` starts a server",
        })
    }

    /// Replaces the hint for a server that cannot be reached.
    pub(super) fn hinting(self, hint: &'static str) -> Self {
        Self { hint, ..self }
    }

    pub(super) fn url(&self) -> &str {
        &self.base
    }

    /// Fetches a path and returns the body. The error is the server's message, or the reason why it
    /// did not answer.
    pub(super) async fn get(&self, path: &str) -> Result<String, String> {
        whole(self.send(self.request(Method::GET, path)).await?).await
    }

    /// Fetches a path like [`Client::get`], and parses the body as JSON.
    pub(super) async fn get_json(&self, path: &str) -> Result<Value, String> {
        self.json(path, &self.get(path).await?)
    }

    /// Posts a request that is answered by a stream of events.
    pub(super) async fn stream(&self, path: &str, body: &Value) -> Result<Events, String> {
        self.post(path, body).await.map(Events::new)
    }

    /// Fetches a path that is answered by a stream of events.
    pub(super) async fn listen(&self, path: &str) -> Result<Events, String> {
        let answer = self.send(self.request(Method::GET, path)).await;
        answer.map(Events::new)
    }

    /// Posts JSON, and parses the answer as JSON.
    pub(super) async fn post_json(&self, path: &str, body: &Value) -> Result<Value, String> {
        let answer = self.post(path, body).await?;
        self.json(path, &whole(answer).await?)
    }

    fn json(&self, path: &str, text: &str) -> Result<Value, String> {
        let url = &self.base;
        serde_json::from_str(text).map_err(|error| format!("{url}{path} is not JSON: {error}"))
    }

    /// Deletes the resource at a path.
    pub(super) async fn delete(&self, path: &str) -> Result<(), String> {
        let request = self.request(Method::DELETE, path);
        self.send(request).await.map(drop)
    }

    async fn post(&self, path: &str, body: &Value) -> Result<Response, String> {
        self.send(self.request(Method::POST, path).json(body)).await
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        match &self.key {
            Some(key) => request.header(header::AUTHORIZATION, format!("Bearer {key}")),
            None => request,
        }
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, String> {
        let answer = request.send().await.map_err(|error| {
            let hint = match &error {
                error if http_client::refuses_certificate(error) => TRUSTED,
                error if error.is_connect() => self.hint,
                _ => "",
            };
            let between = if hint.is_empty() { "" } else { "; " };
            let reason = http_client::reason(&error);
            format!("cannot reach {}: {reason}{between}{hint}", self.base)
        })?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let body = serde_json::from_str::<Value>(&whole(answer).await?);
        let said = body.ok().and_then(|body| message(&body));
        Err(said.unwrap_or_else(|| format!("the server answered {status}")))
    }
}

async fn whole(mut answer: Response) -> Result<String, String> {
    let mut bytes = Vec::new();
    while let Some(more) = next(&mut answer).await? {
        bytes.extend_from_slice(&more);
        if bytes.len() > LONGEST {
            return Err("the answer is too long".to_owned());
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the next bytes of an answer; `None` at its end.
async fn next(answer: &mut Response) -> Result<Option<Bytes>, String> {
    let read = answer.chunk().await;
    read.map_err(|error| format!("the answer was cut short: {}", http_client::reason(&error)))
}

/// Returns the message of an error body, in the form of OpenAI or of this server.
fn message(body: &Value) -> Option<String> {
    let error = body.get("error").filter(|error| !error.is_null())?;
    let text = error.as_str().or_else(|| error.get("message")?.as_str());
    Some(text.unwrap_or("the server gave no reason").to_owned())
}

/// Reader of the events of a stream.
pub(super) struct Events {
    answer: Response,
    /// Received bytes of an incomplete line.
    read: Vec<u8>,
}

impl Events {
    fn new(answer: Response) -> Self {
        Self {
            answer,
            read: Vec::new(),
        }
    }

    /// Returns the next event; `None` at the end. The error is the server's message, or that the
    /// stream was cut short.
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
                    .map_err(|error| format!("an event of the answer is not JSON: {error}"))?;
                return match message(&event) {
                    Some(message) => Err(message),
                    None => Ok(Some(event)),
                };
            }
            if self.read.len() > LONGEST {
                return Err("an event of the answer is too long".to_owned());
            }
            match next(&mut self.answer).await? {
                Some(more) => self.read.extend_from_slice(&more),
                None => {
                    return Err("the answer was cut short: the connection was closed".to_owned());
                }
            }
        }
    }
}
