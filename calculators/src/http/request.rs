//! `OpenAIRequestCalculator`: reads and checks a request of the OpenAI dialect.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use graphmill_engine::{Calculator, Contract, Cx, Error, Flow, In, OpenCx, Out, Result, register};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{
    fields::{Fields, invalid, missing, wrong_type},
    input, params,
};
use crate::payload::{Endpoint, GenerationParams, HttpRequestPayload, TextRequest};

/// What a graph sets for requests that leave it open.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OpenAIRequestOptions {
    /// Temperature of sampling; 1 when not set here.
    pub temperature: Option<f32>,
    /// Share of the probability that the likeliest tokens kept must reach; 1 (all) when not set here.
    pub top_p: Option<f32>,
    /// Number of likeliest tokens kept; -1 (all) when not set here.
    pub top_k: Option<i32>,
    /// Least probability of a kept token, relative to the likeliest; 0 when not set here.
    pub min_p: Option<f32>,
    /// Penalty of tokens that are there already; 1 (none) when not set here.
    pub repetition_penalty: Option<f32>,
    /// Most tokens of an answer; up to the end of the context when not set here.
    pub max_tokens: Option<u32>,
}

/// Reads the body of `chat/completions` and `completions` and refuses, with the field's name, what is wrong in it or what this
/// graph cannot do.
///
/// Emits the request and its generation parameters at the payload's timestamp.
///
/// ```pbtxt
/// input_stream: "HTTP_REQUEST_PAYLOAD:input"
/// output_stream: "REQUEST:request"
/// output_stream: "PARAMS:params"
/// node {
///   calculator: "OpenAIRequestCalculator"
///   input_stream: "HTTP_REQUEST_PAYLOAD:input"
///   output_stream: "REQUEST:request"
///   output_stream: "PARAMS:params"
///   node_options: { [type.googleapis.com/graphmill.OpenAIRequestCalculatorOptions] { temperature: 0.7 max_tokens: 512 } }
/// }
/// ```
pub struct OpenAIRequest {
    defaults: OpenAIRequestOptions,
}

/// The ports of [`OpenAIRequest`].
#[derive(Copy, Clone, Debug)]
pub struct OpenAIRequestPorts {
    payload: In<HttpRequestPayload>,
    request: Out<TextRequest>,
    params: Out<GenerationParams>,
}

impl Calculator for OpenAIRequest {
    const NAME: &'static str = "OpenAIRequestCalculator";
    const DOC: &'static str =
        "Reads and checks a request of OpenAI's chat/completions and completions endpoints.";
    type Options = OpenAIRequestOptions;
    type Ports = OpenAIRequestPorts;

    fn contract(c: &mut Contract, _: &OpenAIRequestOptions) -> OpenAIRequestPorts {
        OpenAIRequestPorts {
            payload: c.input("HTTP_REQUEST_PAYLOAD"),
            request: c.output("REQUEST"),
            params: c.output("PARAMS"),
        }
    }

    fn open(
        options: &OpenAIRequestOptions,
        _: OpenAIRequestPorts,
        _: &mut OpenCx<'_>,
    ) -> Result<Self> {
        Ok(Self {
            defaults: options.clone(),
        })
    }

    fn process(&mut self, io: OpenAIRequestPorts, cx: &mut Cx<'_>) -> Result<Flow> {
        let Some(payload) = cx.get(io.payload) else {
            return Ok(Flow::Continue);
        };
        let (request, params) = read(payload, &self.defaults, &cx.run().id.0)?;
        cx.emit(io.request, request);
        cx.emit(io.params, params);
        Ok(Flow::Continue)
    }
}
register!(OpenAIRequest);

/// Reads a request; `id` is the request's own.
fn read(
    payload: &HttpRequestPayload,
    defaults: &OpenAIRequestOptions,
    id: &str,
) -> Result<(TextRequest, GenerationParams)> {
    let endpoint = endpoint(&payload.uri)?;
    let body = match payload.json.as_deref() {
        Some(Value::Object(body)) => Fields(body),
        Some(_) => return Err(Error::invalid("the body must be a JSON object")),
        None => {
            return Err(Error::invalid(
                "the body must be JSON, sent with `content-type: application/json`",
            ));
        }
    };
    let model = match body.get("model") {
        Some(Value::String(model)) => model.as_str(),
        Some(other) => return Err(wrong_type("model", "a string", other)),
        None => return Err(missing("model")),
    };
    let stream = body.bool("stream")?.unwrap_or(false);
    let include_usage = include_usage(body, stream)?;
    let params = params::read(body, defaults)?;
    let (input, prefix) = match endpoint {
        Endpoint::Chat => (input::chat(body)?, "chatcmpl"),
        Endpoint::Completions => (input::prompts(body)?, "cmpl"),
    };
    let request = TextRequest {
        id: format!("{prefix}-{id}").into(),
        created: seconds_since_1970(),
        model: Arc::from(model),
        endpoint,
        input,
        n: params.n,
        stream,
        include_usage,
    };
    Ok((request, params))
}

fn endpoint(uri: &str) -> Result<Endpoint> {
    let path = uri.split('?').next().unwrap_or_default();
    if path.ends_with("/chat/completions") {
        Ok(Endpoint::Chat)
    } else if path.ends_with("/completions") {
        Ok(Endpoint::Completions)
    } else {
        let message =
            format!("this graph serves `chat/completions` and `completions`, not `{path}`");
        Err(Error::not_found(message).with_code("unknown_endpoint"))
    }
}

fn include_usage(body: Fields<'_>, stream: bool) -> Result<bool> {
    let Some(options) = body.object("stream_options")? else {
        return Ok(false);
    };
    if !stream {
        return Err(invalid("stream_options", "needs `stream: true`"));
    }
    let mut include_usage = false;
    for (name, value) in options {
        let path = format!("stream_options.{name}");
        match (name.as_str(), value) {
            ("include_usage", Value::Bool(include)) => include_usage = *include,
            (_, Value::Null)
            | ("include_obfuscation", Value::Bool(_))
            | ("continuous_usage_stats", Value::Bool(false)) => {}
            ("include_usage", other) => return Err(wrong_type(path, "a boolean", other)),
            _ => {
                return Err(invalid(path, "is not supported; `include_usage` is")
                    .with_code("unsupported_parameter"));
            }
        }
    }
    Ok(include_usage)
}

fn seconds_since_1970() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests;
