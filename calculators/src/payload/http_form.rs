//! JSON form of HTTP requests and responses, for tools that run a graph from a file and show its
//! output.

use std::sync::Arc;

use bytes::Bytes;
use graphmill_engine::register_payload;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{HttpRequestPayload, HttpResponse, JsonBody, NamedAdapter};

register_payload!(HttpRequestPayload as "http_request", request_to_json, request_from_json);
register_payload!(HttpResponse as "http_response", response_to_json, response_from_json);

/// Converts bytes to the JSON that they contain, or else to text.
fn bytes_to_json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes)
        .unwrap_or_else(|_| Value::from(String::from_utf8_lossy(bytes).into_owned()))
}

fn request_to_json(request: &HttpRequestPayload) -> Value {
    let headers: Value = request
        .headers
        .iter()
        .map(|(name, value)| (name.clone(), Value::from(value.as_str())))
        .collect();
    let body = bytes_to_json(&request.body);
    json!({ "method": request.method, "uri": request.uri, "headers": headers, "body": body })
}

/// A request. Only `uri` is required. A `body` that is not a string is sent as JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    #[serde(default = "post")]
    method: String,
    uri: String,
    #[serde(default)]
    headers: std::collections::BTreeMap<String, String>,
    #[serde(default)]
    body: Value,
    #[serde(default)]
    adapter: Option<String>,
}

fn post() -> String {
    "POST".to_owned()
}

fn request_from_json(value: &Value) -> Result<HttpRequestPayload, String> {
    let request = Request::deserialize(value).map_err(|error| error.to_string())?;
    let (body, json) = match request.body {
        Value::Null => (Bytes::new(), None),
        Value::String(text) => (text.into(), None),
        json => {
            let text = Bytes::from(json.to_string());
            let fields = JsonBody::scan(text.clone()).map_err(|error| error.message)?;
            (text, Some(Arc::new(fields)))
        }
    };
    Ok(HttpRequestPayload {
        method: request.method,
        headers: request.headers.into_iter().collect(),
        body,
        json,
        adapters: NamedAdapter::list(request.adapter.map(Into::into)),
        ..HttpRequestPayload::new(request.uri, None)
    })
}

fn response_to_json(response: &HttpResponse) -> Value {
    match response {
        HttpResponse::Header { name, value } => json!({ "header": { *name: value } }),
        HttpResponse::Body {
            content_type,
            bytes,
        } => {
            json!({ "body": bytes_to_json(bytes), "content_type": content_type })
        }
        HttpResponse::Event(text) => json!({ "event": bytes_to_json(text.as_bytes()) }),
        HttpResponse::NamedEvent { name, data } => {
            json!({ "event": bytes_to_json(data.as_bytes()), "name": name })
        }
        HttpResponse::Done => json!("done"),
        HttpResponse::End => json!("end"),
    }
}

fn response_from_json(value: &Value) -> Result<HttpResponse, String> {
    match value {
        Value::String(word) if word == "done" => Ok(HttpResponse::Done),
        Value::String(word) if word == "end" => Ok(HttpResponse::End),
        Value::Object(fields) if fields.contains_key("event") => {
            Ok(HttpResponse::Event(fields["event"].to_string()))
        }
        Value::Object(fields) if fields.contains_key("body") => Ok(HttpResponse::Body {
            content_type: "application/json",
            bytes: fields["body"].to_string().into(),
        }),
        other => Err(format!(
            "{other} is not a response: expected an object with `body` or `event`, or \"done\""
        )),
    }
}
