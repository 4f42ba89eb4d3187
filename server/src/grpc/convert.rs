//! Messages of the protocol to what the server knows, and back.

use std::collections::HashMap;

use bytes::{BufMut as _, Bytes, BytesMut};
use graphmill_calculators::tensor::{Datatype, Tensor, shape_of};
use graphmill_engine::shortened;

use super::proto::{
    self, DataType, InferParameter, InferTensorContents,
    infer_parameter::ParameterChoice,
    model_infer_request::{InferInputTensor, InferRequestedOutputTensor},
    model_infer_response::InferOutputTensor,
    model_metadata_response::TensorMetadata,
};
use crate::{
    errors::Failure,
    kserve::{
        GraphCounts, Label, Metadata, PLATFORM, Parameter, Parameters, Times, check_of_tensor,
        wrong,
    },
    run::Tensors,
    tensors::Port,
};

/// How much of a name an error shows.
pub(super) const SHOWN_BYTES: usize = 100;

/// The parameters of a request, in the order of their names.
pub(super) fn parameters(written: HashMap<String, InferParameter>) -> Result<Parameters, Failure> {
    let mut parameters = Parameters::with_capacity(written.len());
    for (name, parameter) in written {
        let value = match parameter.parameter_choice {
            Some(ParameterChoice::BoolParam(value)) => Parameter::Bool(value),
            Some(ParameterChoice::Int64Param(value)) => Parameter::Int(value),
            Some(ParameterChoice::StringParam(value)) => Parameter::Text(value),
            Some(ParameterChoice::DoubleParam(value)) => Parameter::Float(value),
            Some(ParameterChoice::Uint64Param(value)) => Parameter::Uint(value),
            None => {
                let name = shortened(&name, SHOWN_BYTES);
                return Err(wrong(format!("parameters.{name}"), "it has no value"));
            }
        };
        parameters.push((name, value));
    }
    // Which of several mistakes is told does not change from one time to the next.
    parameters.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(parameters)
}

/// Checks the parameters of a tensor, which change nothing.
fn check_parameters(place: &str, written: HashMap<String, InferParameter>) -> Result<(), Failure> {
    let all = parameters(written)?;
    all.iter()
        .try_for_each(|(name, value)| check_of_tensor(place, name, value))
}

/// The tensors of a request: all of them with their bytes in `raw`, or all with their contents.
pub(super) fn tensors(inputs: Vec<InferInputTensor>, raw: Vec<Bytes>) -> Result<Tensors, Failure> {
    if !raw.is_empty() && raw.len() != inputs.len() {
        let why = format!("there are {} for {} inputs", raw.len(), inputs.len());
        return Err(wrong("raw_input_contents".to_owned(), why));
    }
    let mut raw = raw.into_iter();
    let mut tensors = Tensors::with_capacity(inputs.len());
    for (position, input) in inputs.into_iter().enumerate() {
        let place = format!("inputs[{position}]");
        check_parameters(&place, input.parameters)?;
        let datatype: Datatype = input
            .datatype
            .parse()
            .map_err(|why| wrong(format!("{place}.datatype"), why))?;
        let shape = shape_of(&input.shape).map_err(|why| wrong(format!("{place}.shape"), why))?;
        let data = match (raw.next(), input.contents) {
            (Some(raw), None) => raw,
            (Some(_), Some(_)) => {
                let why = "there is data in `raw_input_contents`, too";
                return Err(wrong(format!("{place}.contents"), why));
            }
            (None, contents) => contents_of(datatype, contents.unwrap_or_default())
                .map_err(|why| wrong(format!("{place}.contents"), why))?,
        };
        let tensor = Tensor::new(datatype, shape, data).map_err(|why| wrong(place, why))?;
        tensors.push((input.name, tensor));
    }
    Ok(tensors)
}

/// The bytes of typed contents. The error says why they are not those of the datatype.
fn contents_of(datatype: Datatype, contents: InferTensorContents) -> Result<Bytes, String> {
    macro_rules! filled {
        ($($field:ident)*) => { [$((stringify!($field), !contents.$field.is_empty())),*] };
    }
    let filled = filled!(bool_contents int_contents int64_contents uint_contents uint64_contents
        fp32_contents fp64_contents bytes_contents);
    let check = |right: &str| {
        let wrong = filled
            .iter()
            .find(|(name, is_filled)| *is_filled && *name != right);
        wrong.map_or(Ok(()), |(wrong, _)| {
            Err(format!("{datatype} is in `{right}`, and not in `{wrong}`"))
        })
    };
    let mut data = BytesMut::new();
    macro_rules! written {
        ($field:ident as $type:ty) => {{
            check(stringify!($field))?;
            for value in contents.$field {
                let value =
                    <$type>::try_from(value).map_err(|_| format!("{value} is no {datatype}"))?;
                data.put_slice(&value.to_le_bytes());
            }
        }};
    }
    match datatype {
        Datatype::Bool => written!(bool_contents as u8),
        Datatype::Int8 => written!(int_contents as i8),
        Datatype::Int16 => written!(int_contents as i16),
        Datatype::Int32 => written!(int_contents as i32),
        Datatype::Int64 => written!(int64_contents as i64),
        Datatype::Uint8 => written!(uint_contents as u8),
        Datatype::Uint16 => written!(uint_contents as u16),
        Datatype::Uint32 => written!(uint_contents as u32),
        Datatype::Uint64 => written!(uint64_contents as u64),
        Datatype::Fp32 => written!(fp32_contents as f32),
        Datatype::Fp64 => written!(fp64_contents as f64),
        Datatype::Bytes => {
            check("bytes_contents")?;
            return Ok(Tensor::of_strings(contents.bytes_contents).data().clone());
        }
        Datatype::Fp16 | Datatype::Bf16 => {
            return Err(format!("{datatype} is sent in `raw_input_contents`"));
        }
    }
    Ok(data.freeze())
}

/// The names of the outputs that are wanted; all if empty.
pub(super) fn wanted(outputs: Vec<InferRequestedOutputTensor>) -> Result<Vec<String>, Failure> {
    let mut names = Vec::with_capacity(outputs.len());
    for (position, output) in outputs.into_iter().enumerate() {
        check_parameters(&format!("outputs[{position}]"), output.parameters)?;
        names.push(output.name);
    }
    Ok(names)
}

/// An answer with these tensors.
pub(super) fn answer(label: &Label, id: String, tensors: Tensors) -> proto::ModelInferResponse {
    let mut outputs = Vec::with_capacity(tensors.len());
    let mut raw_output_contents = Vec::with_capacity(tensors.len());
    for (name, tensor) in tensors {
        outputs.push(InferOutputTensor {
            name,
            datatype: tensor.datatype().name().to_owned(),
            shape: tensor.shape().iter().map(|length| *length as i64).collect(),
            parameters: HashMap::new(),
            contents: None,
        });
        raw_output_contents.push(tensor.data().clone());
    }
    proto::ModelInferResponse {
        model_name: label.name.clone(),
        model_version: label.version.clone(),
        id,
        parameters: HashMap::new(),
        outputs,
        raw_output_contents,
    }
}

/// What a graph takes and gives.
pub(super) fn metadata(metadata: Metadata) -> proto::ModelMetadataResponse {
    let tensor = |port: Port| TensorMetadata {
        datatype: port.datatype_name().to_owned(),
        name: port.name,
        shape: port.shape,
    };
    proto::ModelMetadataResponse {
        name: metadata.label.name,
        versions: vec![metadata.label.version],
        platform: PLATFORM.to_owned(),
        inputs: metadata.inputs.into_iter().map(tensor).collect(),
        outputs: metadata.outputs.into_iter().map(tensor).collect(),
    }
}

/// The same in the form of Triton's model configuration.
pub(super) fn config(metadata: Metadata) -> proto::ModelConfig {
    let input = |port: Port| proto::ModelInput {
        name: port.name,
        data_type: data_type(port.datatype).into(),
        dims: port.shape,
    };
    let output = |port: Port| proto::ModelOutput {
        name: port.name,
        data_type: data_type(port.datatype).into(),
        dims: port.shape,
    };
    proto::ModelConfig {
        name: metadata.label.name,
        platform: PLATFORM.to_owned(),
        backend: PLATFORM.to_owned(),
        max_batch_size: 0,
        input: metadata.inputs.into_iter().map(input).collect(),
        output: metadata.outputs.into_iter().map(output).collect(),
        model_transaction_policy: Some(proto::ModelTransactionPolicy { decoupled: true }),
    }
}

fn data_type(datatype: Option<Datatype>) -> DataType {
    let named = |datatype: Datatype| DataType::from_str_name(&format!("TYPE_{datatype}"));
    match datatype {
        Some(Datatype::Bytes) => DataType::TypeString,
        other => other.and_then(named).unwrap_or(DataType::TypeInvalid),
    }
}

/// What was counted of a graph.
pub(super) fn statistics(label: Label, counts: &GraphCounts) -> proto::ModelStatistics {
    let times = |times: Times| {
        Some(proto::StatisticDuration {
            count: times.count,
            ns: times.ns,
        })
    };
    let none = Times::default();
    proto::ModelStatistics {
        name: label.name,
        version: label.version,
        last_inference: counts.last,
        inference_count: counts.success.count,
        execution_count: counts.success.count,
        inference_stats: Some(proto::InferStatistics {
            success: times(counts.success),
            fail: times(counts.fail),
            queue: times(counts.queue),
            compute_input: times(counts.around()),
            compute_infer: times(counts.infer),
            compute_output: times(counts.around()),
            cache_hit: times(none),
            cache_miss: times(none),
        }),
    }
}
