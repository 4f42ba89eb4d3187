//! The JSON of a request for a run, and the tensors behind it.

use bytes::Bytes;
use graphmill_calculators::payload::without_mark;
use graphmill_calculators::tensor::{Datatype, Tensor, data_from_json, shape_of};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

use super::binary::{Behind, LENGTH};
use crate::{
    errors::{Cause, Failure},
    kserve::{BINARY_OUTPUT, Parameter, Parameters, check_of_tensor, wrong},
    run::Tensors,
};

/// The bytes of a tensor behind the JSON.
const BINARY_SIZE: &str = "binary_data_size";

/// Asks for an output behind the JSON.
const BINARY: &str = "binary_data";

/// Most inputs and most outputs that a request names: a graph has fewer.
const MAX_TENSORS: usize = 1_024;

/// A request as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written<'a> {
    /// As the path has them, if at all: some clients send both.
    model_name: Option<String>,
    model_version: Option<String>,
    id: Option<String>,
    parameters: Option<BTreeMap<String, Parameter>>,
    #[serde(borrow)]
    inputs: Vec<WrittenInput<'a>>,
    outputs: Option<Vec<WrittenOutput>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenInput<'a> {
    name: String,
    datatype: String,
    shape: Vec<i64>,
    parameters: Option<BTreeMap<String, Parameter>>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenOutput {
    name: String,
    parameters: Option<BTreeMap<String, Parameter>>,
}

/// A request for a run.
pub(super) struct InferRequest {
    /// The graph and its version, if the body names them.
    pub(super) graph: Option<String>,
    pub(super) version: Option<String>,
    pub(super) id: Option<String>,
    pub(super) parameters: Parameters,
    pub(super) inputs: Tensors,
    /// The outputs that are wanted, all if empty; and whether each is wanted behind the JSON, where
    /// the request says so.
    pub(super) outputs: Vec<(String, Option<bool>)>,
}

impl InferRequest {
    /// Reads a body. `json`: how much of it is JSON, where tensors follow.
    pub(super) fn read(body: &Bytes, json: Option<usize>) -> Result<Self, Failure> {
        let (json, mut behind) = match json {
            // The whole body is the one tensor, which only a model that says what it is could take.
            Some(0) => {
                let why = "a body without JSON names no input: send the JSON and its length";
                return Err(Failure::new(Cause::BadRequest, why).of_field(LENGTH));
            }
            Some(length) if length > body.len() => {
                let bytes = body.len();
                let why = format!("`{LENGTH}` is {length}, but the body has {bytes} bytes");
                return Err(Failure::new(Cause::BadRequest, why).of_field(LENGTH));
            }
            Some(length) => (body.slice(..length), Behind::new(body.slice(length..))),
            None => (body.clone(), Behind::new(Bytes::new())),
        };
        let written: Written<'_> =
            serde_json::from_slice(without_mark(&json)).map_err(|error| {
                let why = format!("the body is no inference request: {error}");
                let is_json = error.is_data();
                let code = if is_json {
                    "invalid_value"
                } else {
                    "invalid_json"
                };
                Failure::new(Cause::BadRequest, why).with_code(code)
            })?;
        let wanted = written.outputs.unwrap_or_default();
        if written.inputs.len().max(wanted.len()) > MAX_TENSORS {
            let why = format!("a request has at most {MAX_TENSORS} inputs and outputs");
            return Err(Failure::new(Cause::BadRequest, why).of_field("inputs"));
        }
        let mut inputs = Tensors::with_capacity(written.inputs.len());
        for (position, input) in written.inputs.into_iter().enumerate() {
            inputs.push(input.read(position, &mut behind)?);
        }
        behind.ends()?;
        let wanted = wanted.into_iter().enumerate();
        let outputs = wanted.map(|(position, output)| output.read(position));
        let parameters = written.parameters.unwrap_or_default().into_iter();
        Ok(Self {
            graph: written.model_name,
            version: written.model_version,
            id: written.id,
            parameters: parameters.collect(),
            inputs,
            outputs: outputs.collect::<Result<_, _>>()?,
        })
    }

    /// Whether the request asks for all outputs behind the JSON.
    pub(super) fn is_binary(&self) -> bool {
        let mut parameters = self.parameters.iter();
        parameters.any(|(name, value)| name == BINARY_OUTPUT && *value == Parameter::Bool(true))
    }
}

impl WrittenInput<'_> {
    fn read(self, position: usize, behind: &mut Behind) -> Result<(String, Tensor), Failure> {
        let place = format!("inputs[{position}]");
        let at = |field: &str| format!("{place}.{field}");
        let mut size = None;
        for (name, value) in self.parameters.unwrap_or_default() {
            match (name.as_str(), value) {
                (BINARY_SIZE, Parameter::Int(bytes)) if bytes >= 0 => size = Some(bytes),
                (BINARY_SIZE, _) => {
                    let field = at(&format!("parameters.{BINARY_SIZE}"));
                    return Err(wrong(field, "it is a number of bytes"));
                }
                (name, value) => check_of_tensor(&place, name, &value)?,
            }
        }
        let datatype: Result<Datatype, _> = self.datatype.parse();
        let datatype = datatype.map_err(|why| wrong(at("datatype"), why))?;
        let shape = shape_of(&self.shape).map_err(|why| wrong(at("shape"), why))?;
        let data = match (self.data, size) {
            (Some(json), None) => {
                data_from_json(datatype, &shape, json).map_err(|why| wrong(at("data"), why))?
            }
            (None, Some(size)) => behind
                .take(size as u64)
                .map_err(|why| wrong(place.clone(), why))?,
            (data, _) => {
                let they = data.map_or("is neither `data` nor", |_| "are both `data` and");
                return Err(wrong(
                    place,
                    format_args!("there {they} `parameters.{BINARY_SIZE}`"),
                ));
            }
        };
        let tensor = Tensor::new(datatype, shape, data).map_err(|why| wrong(place, why))?;
        Ok((self.name, tensor))
    }
}

impl WrittenOutput {
    fn read(self, position: usize) -> Result<(String, Option<bool>), Failure> {
        let place = format!("outputs[{position}]");
        let mut binary = None;
        for (name, value) in self.parameters.unwrap_or_default() {
            match (name.as_str(), value) {
                (BINARY, Parameter::Bool(wanted)) => binary = Some(wanted),
                // Clients send it without wanting any.
                ("classification", Parameter::Int(0)) => {}
                (name, value) => check_of_tensor(&place, name, &value)?,
            }
        }
        Ok((self.name, binary))
    }
}
