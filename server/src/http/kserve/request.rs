//! The JSON of a request for a run, and the binary tensors after it, as in the binary tensor data
//! extension.

use axum::http::{HeaderMap, HeaderName};
use bytes::Bytes;
use graphmill_calculators::tensor::{Tensor, data_from_json};
use graphmill_engine::shortened;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    errors::{Cause, Failure, Result},
    http::request::read_json,
    kserve::{
        ParameterMap, RunRequest, WantedOutput, proto::infer_parameter::ParameterChoice, read_type,
        refuse_parameters, take_count, wrong,
    },
};

/// Header with the length of the JSON part of a body, in bytes.
pub(super) const LENGTH: HeaderName = HeaderName::from_static("inference-header-content-length");

/// Parameter with the size of a binary tensor, in bytes.
const BINARY_SIZE: &str = "binary_data_size";

/// Parameter that requests an output in binary form.
const BINARY: &str = "binary_data";

/// Maximum number of inputs, and of outputs, that a request names. Graphs have fewer.
const MAX_TENSORS: usize = 1_024;

/// The JSON of a request, as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct InferRequestBody<'a> {
    /// Name of the graph, which must be the one in the path. Some clients send both.
    model_name: Option<String>,
    model_version: Option<String>,
    id: Option<String>,
    parameters: Option<ParameterMap>,
    #[serde(borrow)]
    inputs: Vec<InferInput<'a>>,
    outputs: Option<Vec<Output>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct InferInput<'a> {
    name: String,
    datatype: String,
    shape: Vec<i64>,
    parameters: Option<ParameterMap>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct Output {
    name: String,
    parameters: Option<ParameterMap>,
}

/// A request for a run, with parsed tensors.
pub(super) struct InferRequest {
    pub(super) id: Option<String>,
    pub(super) run: RunRequest,
    /// For each named output: true to send it in binary form, false for JSON, `None` for the
    /// default.
    pub(super) behind: Vec<Option<bool>>,
}

/// Reads the length of the JSON part of a body, if tensors follow it.
pub(super) fn json_length(headers: &HeaderMap) -> Result<Option<usize>> {
    let read = |text: &str| text.trim().parse().ok();
    let length = headers.get(LENGTH).map(|value| {
        let length = value.to_str().ok().and_then(read);
        length.ok_or_else(|| refuse_length("is not a number of bytes"))
    });
    length.transpose()
}

fn refuse_length(why: &str) -> Failure {
    Failure::new(Cause::BadRequest, format!("`{LENGTH}` {why}"))
        .with_field(LENGTH.as_str().to_owned())
}

impl InferRequest {
    /// Reads a body for a graph and a version, which is empty if the path has none. `json` is the
    /// length of the JSON part, if tensors follow it.
    pub(super) fn read(
        (graph, version): (String, String),
        body: &Bytes,
        json: Option<usize>,
    ) -> Result<Self> {
        let (bytes, length) = (body.len(), json.unwrap_or(body.len()));
        if json == Some(0) {
            // The whole body would be a single tensor, whose type only the model could define.
            let why = "is 0: expected the length of the JSON, which names the inputs";
            return Err(refuse_length(why));
        }
        if length > bytes {
            let why = format!("is {length}, but the body has {bytes} bytes");
            return Err(refuse_length(&why));
        }
        let mut behind = body.slice(length..);
        let written: InferRequestBody<'_> =
            read_json(&body[..length], "the body is not an inference request")?;
        if written.model_name.is_some_and(|name| name != graph) {
            let why = format!("the path names the graph `{}`", shortened(&graph, 100));
            return Err(wrong("model_name", why));
        }
        let wanted = written.outputs.unwrap_or_default();
        if written.inputs.len().max(wanted.len()) > MAX_TENSORS {
            let why = format!("at most {MAX_TENSORS} inputs and {MAX_TENSORS} outputs are allowed");
            return Err(Failure::new(Cause::BadRequest, why).with_field("inputs"));
        }
        let inputs = written.inputs.into_iter().enumerate();
        let inputs = inputs.map(|(position, input)| input.read(position, &mut behind));
        let inputs = inputs.collect::<Result<_, _>>()?;
        if !behind.is_empty() {
            let left = behind.len();
            let why = format!("the body has {left} bytes after the last tensor of its inputs");
            return Err(Failure::new(Cause::BadRequest, why).with_field("inputs"));
        }
        let wanted = wanted.into_iter().enumerate();
        let wanted = wanted.map(|(position, output)| output.read(position));
        let wanted: Vec<_> = wanted.collect::<Result<_, _>>()?;
        let (outputs, behind) = wanted.into_iter().unzip();
        let run = RunRequest {
            graph,
            version: match written.model_version {
                Some(inside) if version.is_empty() => inside,
                _ => version,
            },
            parameters: written.parameters.unwrap_or_default(),
            inputs,
            outputs,
        };
        Ok(Self {
            id: written.id,
            run,
            behind,
        })
    }
}

impl InferInput<'_> {
    fn read(self, position: usize, behind: &mut Bytes) -> Result<(String, Tensor)> {
        let place = format!("inputs[{position}]");
        let mut parameters = self.parameters.unwrap_or_default();
        let size = take_count(&mut parameters, &place, BINARY_SIZE, "bytes")?;
        refuse_parameters(&place, &parameters)?;
        let (datatype, shape) = read_type(&place, &self.datatype, &self.shape)?;
        let data = match (self.data, size) {
            (Some(json), None) => data_from_json(datatype, &shape, json)
                .map_err(|why| wrong(format!("{place}.data"), why))?,
            (None, Some(size)) if size <= behind.len() => behind.split_to(size),
            (None, Some(size)) => {
                let left = behind.len();
                let why = format!("the tensor has {size} bytes, but {left} are left of the body");
                return Err(wrong(place, why));
            }
            (data, _) => {
                let they = data.map_or("is neither `data` nor", |_| "are both `data` and");
                let why = format!("there {they} `parameters.{BINARY_SIZE}`");
                return Err(wrong(place, why));
            }
        };
        let tensor = Tensor::new(datatype, shape, data).map_err(|why| wrong(place, why))?;
        Ok((self.name, tensor))
    }
}

impl Output {
    fn read(self, position: usize) -> Result<(WantedOutput, Option<bool>)> {
        use ParameterChoice::BoolParam;

        let mut parameters = self.parameters.unwrap_or_default();
        let binary = match parameters.get(BINARY).map(|it| &it.parameter_choice) {
            Some(Some(BoolParam(wanted))) => Some(*wanted),
            _ => None,
        };
        if binary.is_some() {
            parameters.remove(BINARY);
        }
        Ok((WantedOutput::read(position, self.name, parameters)?, binary))
    }
}
