//! Example requests, for the documentation and the page.

use graphmill_calculators::tensor::Datatype;
use graphmill_dialects::{
    bodies::{CHAT, SIMILARITY},
    schema,
};
use graphmill_engine::Plan;
use serde_json::{Map, Value, json};

use super::{
    operation::{Body, Parameter},
    operations,
};
use crate::{
    offline::update::toml_value,
    servable::{Servable, request_stream},
    tensors::{self, Port},
};

/// Endpoint of the examples for request nodes of other crates.
const USUAL: &str = CHAT;

/// Maximum number of tokens in the answer to an example.
const TOKENS: u32 = 50;

/// Maximum number of elements of a tensor in an example.
const MAX_ELEMENTS: i64 = 100_000;

/// Image file in Base64: a black stroke on white.
const IMAGE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAwAAAAMCAAAAABzHgM7AAAAG0lEQVR42mP4jwQYMDkMDAgOAzLnP3U52FwAAGxGfoKqNyuUAAAAAElFTkSuQmCC";

/// Tag of inputs that take an image file.
const FILE: &str = "FILE";

/// Question that the demo model can answer.
const QUESTION: &str = "What is a side packet?";

/// Text of a graph that passes packets on.
const GRAPH: &str = "input_stream: \"in\"\noutput_stream: \"out\"\nnode { calculator: \"PassThroughCalculator\" input_stream: \"in\" output_stream: \"out\" }\n";

/// Text of a test file.
const TEST: &str = "[[case]]\nname = \"a try\"\ninput = [\n  { stream = \"in\", value = \"What is a side packet?\" },\n]\n";

/// Returns an example body with all required fields.
pub(super) fn for_body(body: Body, model: Option<&&str>) -> Value {
    let endpoint = schema::endpoint(body.endpoint());
    let has = |name: &str| endpoint.is_some_and(|endpoint| endpoint.fields.contains_key(name));
    let mut names = body.route.required.to_vec();
    if body.dialect.needs_no_model() && model.is_some() {
        names.push("model");
    }
    if body.only().is_none() && has("max_tokens") && !names.contains(&"max_tokens") {
        names.push("max_tokens");
    }
    let values = names.into_iter().map(|name| match (name, model) {
        ("model", Some(model)) => (name.to_owned(), json!(model)),
        ("inputs", _) if body.endpoint() == SIMILARITY => {
            let inputs = json!({ "source_sentence": QUESTION, "sentences": [QUESTION] });
            (name.to_owned(), inputs)
        }
        _ => (name.to_owned(), value(name)),
    });
    Value::Object(values.collect())
}

/// Returns an example body of an operation that is not answered by a graph.
pub(super) fn for_fields(fields: &[Parameter]) -> Value {
    let values = fields.iter().filter_map(|field| {
        let value = match field.name {
            "graph" => json!(GRAPH),
            "test" => json!(TEST),
            "inputs" => json!([tensor("in", "FP32", &[1, 2], &[json!(0.5), json!(0.5)])]),
            _ => return None,
        };
        Some((field.name.to_owned(), value))
    });
    Value::Object(values.collect::<Map<_, _>>())
}

/// Returns an example body for a run of a graph. `None` if its tensors are too large, or cannot be
/// written as JSON.
pub(super) fn for_run(plan: &Plan) -> Option<Value> {
    let ports = tensors::inputs(plan).into_iter();
    let tensors: Option<Vec<Value>> = ports
        .map(|port| {
            let (datatype, shape, data) = elements(plan, &port)?;
            Some(tensor(&port.name, datatype, &shape, &data))
        })
        .collect();
    Some(json!({ "inputs": tensors? }))
}

fn tensor(name: &str, datatype: &str, shape: &[i64], data: &[Value]) -> Value {
    json!({ "name": name, "datatype": datatype, "shape": shape, "data": data })
}

fn value(field: &str) -> Value {
    match field {
        "messages" => json!([{ "role": "user", "content": QUESTION }]),
        "prompt" | "text_input" => json!("Once upon a time"),
        "input" | "inputs" | "text" | "text_1" | "query" => json!(QUESTION),
        "texts" => json!([QUESTION]),
        "documents" | "text_2" => json!([
            "A side packet is a value without a timestamp.",
            "Bread is baked."
        ]),
        "tokens" => json!([1, 2, 3]),
        "max_tokens" => json!(TOKENS),
        _ => json!(""),
    }
}

/// Returns the input for `POST /v3/playground` with the text of this graph: a request, or packets.
/// Null if the input is too large, or cannot be written as JSON.
pub(super) fn trial(servable: &Servable, plan: &Plan) -> Value {
    if request_stream(plan).is_none() {
        return packets(plan).map_or(Value::Null, |test| json!({ "test": test }));
    }
    let endpoint = servable.endpoints().first().copied().unwrap_or(USUAL);
    let is_meant = |body: &Body| body.endpoint() == endpoint && body.only().is_none();
    let listed = operations(false).into_iter().filter(|it| it.listed);
    let mut asking = listed.filter_map(|it| Some((it.path, it.body.filter(is_meant)?)));
    asking.next().map_or(
        Value::Null,
        |(path, body)| json!({ "path": path, "body": for_body(body, Some(&servable.name())) }),
    )
}

/// Returns a test file with a packet for each input of a graph.
fn packets(plan: &Plan) -> Option<String> {
    let mut test = "[[case]]\nname = \"a try\"\ninput = [\n".to_owned();
    for port in tensors::inputs(plan) {
        let packet = toml_value(&packet(plan, &port)?)?;
        test.extend(["  ", &packet.to_string(), ",\n"]);
    }
    Some(test + "]\n")
}

/// Returns the packet that a tensor for an input becomes.
fn packet(plan: &Plan, port: &Port) -> Option<Value> {
    let (datatype, shape, mut data) = elements(plan, port)?;
    if !tensors::takes_tensors(plan, &port.stream) {
        return Some(json!({ "stream": port.stream, "value": data.pop()? }));
    }
    let tensor = json!({ "datatype": datatype, "shape": shape, "data": data });
    Some(json!({ "stream": port.stream, "type": "tensor", "value": tensor }))
}

/// Returns the datatype, the shape and the elements of a tensor for an input.
fn elements(plan: &Plan, port: &Port) -> Option<(&'static str, Vec<i64>, Vec<Value>)> {
    let mut nodes = plan.explain().nodes.iter();
    let is_file = nodes.any(|node| {
        let mut inputs = node.inputs.iter();
        inputs.any(|input| input.name == port.stream && input.port == FILE)
    });
    let datatype = port.datatype.unwrap_or(Datatype::Fp32);
    let element = element(datatype, is_file)?;
    let shape: Vec<i64> = port.shape.iter().map(|&side| side.max(1)).collect();
    let mut sides = shape.iter();
    let count = sides.try_fold(1_i64, |count, &side| count.checked_mul(side));
    let count = count.filter(|&count| count <= MAX_ELEMENTS)?;
    let data = vec![element; usize::try_from(count).ok()?];
    Some((datatype.name(), shape, data))
}

/// Returns an element of a tensor; `None` if it cannot be written as JSON.
fn element(datatype: Datatype, is_file: bool) -> Option<Value> {
    match datatype {
        Datatype::Bytes if is_file => Some(json!(IMAGE)),
        Datatype::Bytes => Some(json!(QUESTION)),
        Datatype::Bool => Some(json!(true)),
        Datatype::Fp32 | Datatype::Fp64 => Some(json!(0.5)),
        Datatype::Fp16 | Datatype::Bf16 => None,
        _ => Some(json!(1)),
    }
}
