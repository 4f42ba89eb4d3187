//! `TextToRequestCalculator`: converts a text to the request that an HTTP client would send.

use std::sync::Arc;

use bytes::Bytes;
use graphmill_dialects::bodies::{CHAT, COMPLETIONS};
use graphmill_engine::{
    Calculator, Contract, Cx, Error, Flow, In, OpenCx, Out, Packet, Payload, Result, Side, codec,
    register,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::payload::{HttpRequestPayload, JsonBody};

/// Options of a `TextToRequestCalculator` node.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TextRequestOptions {
    /// Uses the text as a prompt to be continued. By default it is the user's message in a
    /// conversation.
    pub is_prompt: bool,
}

/// Converts a text to a request for `OpenAIRequestCalculator`: a user's message, or a prompt.
///
/// Side packets set fields of the request, which that node checks. So clients of `KServe`'s
/// protocol can set them as parameters.
///
/// ```pbtxt
/// input_stream: "TEXT:text"
/// input_side_packet: "max_tokens"
/// output_stream: "HTTP_REQUEST_PAYLOAD:request"
/// node {
///   calculator: "TextToRequestCalculator"
///   input_stream: "TEXT:text"
///   input_side_packet: "MAX_TOKENS:max_tokens"
///   output_stream: "HTTP_REQUEST_PAYLOAD:request"
/// }
/// ```
pub struct TextRequestNode {
    is_prompt: bool,
    /// Fields that side packets set.
    fields: Map<String, Value>,
}

/// Tags of side packets, with the fields that they set.
const FIELDS: [(&str, &str); 6] = [
    ("MAX_TOKENS", "max_tokens"),
    ("TEMPERATURE", "temperature"),
    ("TOP_P", "top_p"),
    ("TOP_K", "top_k"),
    ("SEED", "seed"),
    ("STOP", "stop"),
];

impl Calculator for TextRequestNode {
    const NAME: &'static str = "TextToRequestCalculator";
    const DOC: &'static str = "Converts a text to the request that an HTTP client would send.";
    type Options = TextRequestOptions;
    /// The ports for the text, the request, and the side packets.
    type Ports = (
        In<String>,
        Out<HttpRequestPayload>,
        [Side<dyn Payload>; FIELDS.len()],
    );

    fn contract(c: &mut Contract, _: &TextRequestOptions) -> Self::Ports {
        let (text, request) = (c.input("TEXT"), c.output("HTTP_REQUEST_PAYLOAD"));
        (text, request, FIELDS.map(|(tag, _)| c.optional_side(tag)))
    }

    fn open(
        options: &TextRequestOptions,
        (_, _, sides): Self::Ports,
        cx: &mut OpenCx<'_>,
    ) -> Result<Self> {
        let mut fields = Map::new();
        for ((_, name), side) in FIELDS.into_iter().zip(sides) {
            if let Some(packet) = cx.side_packet(side) {
                fields.insert(name.to_owned(), value(name, packet)?);
            }
        }
        Ok(Self {
            is_prompt: options.is_prompt,
            fields,
        })
    }

    fn process(&mut self, (text, output, _): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(text) = cx.get(text) {
            let mut body = self.fields.clone();
            body.insert("model".to_owned(), "text".into());
            let endpoint = if self.is_prompt {
                body.insert("prompt".to_owned(), json!(text));
                COMPLETIONS
            } else {
                let said = json!([{ "role": "user", "content": text }]);
                body.insert("messages".to_owned(), said);
                CHAT
            };
            let body = Bytes::from(Value::Object(body).to_string());
            let request = HttpRequestPayload {
                json: Some(Arc::new(JsonBody::scan(body.clone())?)),
                body,
                ..HttpRequestPayload::new(format!("/v3/{endpoint}"), None)
            };
            cx.emit(output, request);
        }
        Ok(Flow::Continue)
    }
}
register!(TextRequestNode);

/// Converts a side packet to JSON.
fn value(name: &str, packet: &Packet) -> Result<Value> {
    let value = codec::encode(packet).filter(|value| value.is_number() || value.is_string());
    value.ok_or_else(|| {
        Error::invalid(format!("`{name}` must be a number or a text")).with_field(name.to_owned())
    })
}
