//! Requests as rows of a batch: checking requests, concatenating their tensors, and splitting the
//! results.

use graphmill_engine::{Error, Result};

use super::measure::BatcherInfo;
use super::options::{PadValue, RaggedPolicy};
use crate::tensor::model::fits;
use crate::tensor::{Datatype, Tensor, elements, shown};

/// Maximum size of a padded batch, as a multiple of the data in it. Two requests that are long in
/// different dimensions would make a batch that is long in both.
const MAX_PADDING: usize = 16;

/// Kind of a request. Requests of the same kind can be computed together: each input has the same
/// datatype, and the same lengths in all dimensions that must be equal.
pub(super) type RequestKind = Vec<(Datatype, Vec<usize>)>;

impl BatcherInfo {
    /// Returns the rows of a request, and its kind.
    ///
    /// # Errors
    /// One of the tensors is not what the model takes. The error names it.
    pub(super) fn check(&self, inputs: &[Tensor]) -> Result<(usize, RequestKind)> {
        if inputs.is_empty() || (!self.inputs.is_empty() && self.inputs.len() != inputs.len()) {
            let (expected, found) = (self.inputs.len().max(1), inputs.len());
            return Err(Error::invalid(format!(
                "the model takes {expected} tensors, but there are {found}"
            )));
        }
        let mut kind = RequestKind::with_capacity(inputs.len());
        let mut rows = None;
        for (at, tensor) in inputs.iter().enumerate() {
            self.check_one(at, tensor)?;
            let Some((&own, rest)) = tensor.shape().split_first() else {
                let why = "a scalar has no dimension 0 to be batched along";
                return Err(self.wrong(at, why));
            };
            let (first, first_rows) = *rows.get_or_insert((at, own));
            if own != first_rows {
                return Err(self.wrong(
                    at,
                    format_args!(
                        "the shape is {}, but that of `{}` is {}: dimension 0 has to be the same",
                        shown(tensor.shape()),
                        self.name(first),
                        shown(inputs[first].shape())
                    ),
                ));
            }
            let padded =
                self.batching.ragged == RaggedPolicy::Pad && tensor.datatype() != Datatype::Bytes;
            let lengths = if padded {
                pad_bytes(tensor.datatype(), self.batching.pad_value)
                    .map_err(|why| self.wrong(at, why))?;
                vec![0; rest.len()]
            } else {
                rest.to_vec()
            };
            kind.push((tensor.datatype(), lengths));
        }
        let (first, rows) = rows.unwrap_or_default();
        if rows == 0 {
            let shape = shown(inputs[first].shape());
            return Err(self.wrong(first, format_args!("the shape is {shape}: it has no rows")));
        }
        let most = self.batching.max_batch_size;
        if rows > most as usize {
            let why = format_args!(
                "the request has {rows} rows, and a batch at most {most} (max_batch_size)"
            );
            return Err(self.wrong(first, why));
        }
        Ok((rows, kind))
    }

    fn check_one(&self, at: usize, tensor: &Tensor) -> Result<()> {
        let Some(wanted) = self.inputs.get(at) else {
            return Ok(());
        };
        if let Some(datatype) = wanted.datatype.filter(|it| *it != tensor.datatype()) {
            let found = tensor.datatype();
            return Err(self.wrong(
                at,
                format_args!("the tensor is {found}, but the model takes {datatype}"),
            ));
        }
        let shape = tensor.shape();
        if wanted.shape.is_empty() || fits(&wanted.shape, shape) {
            return Ok(());
        }
        Err(self.wrong(
            at,
            format_args!(
                "the shape is {}, but the model takes {}",
                shown(shape),
                shown(&wanted.shape)
            ),
        ))
    }

    fn name(&self, at: usize) -> String {
        match self.inputs.get(at) {
            Some(input) if !input.name.is_empty() => input.name.clone(),
            _ => at.to_string(),
        }
    }

    fn wrong(&self, at: usize, why: impl std::fmt::Display) -> Error {
        let name = self.name(at);
        Error::invalid(format!("input `{name}`: {why}"))
            .with_field(name)
            .with_code("invalid_value")
    }

    /// Joins the tensors of several requests of one kind, input by input.
    ///
    /// # Errors
    /// Their lengths are too different to be padded.
    pub(super) fn join(&self, requests: &[&[Tensor]]) -> Result<Vec<Tensor>> {
        let inputs = requests.first().map_or(0, |request| request.len());
        (0..inputs)
            .map(|at| {
                let parts: Vec<&Tensor> = requests.iter().map(|request| &request[at]).collect();
                self.join_one(&parts)
            })
            .collect()
    }

    fn join_one(&self, parts: &[&Tensor]) -> Result<Tensor> {
        let first = parts[0];
        let mut shape = first.shape().to_vec();
        shape[0] = parts.iter().map(|part| part.shape()[0]).sum();
        let mut ragged = false;
        for part in &parts[1..] {
            for (length, own) in shape[1..].iter_mut().zip(&part.shape()[1..]) {
                ragged |= length != own;
                *length = (*length).max(*own);
            }
        }
        let bytes = if ragged {
            self.padded(parts, &shape)?
        } else {
            let mut bytes = Vec::with_capacity(parts.iter().map(|part| part.data().len()).sum());
            for part in parts {
                bytes.extend_from_slice(part.data());
            }
            bytes
        };
        Tensor::new(first.datatype(), shape, bytes).map_err(broken)
    }

    /// Puts the elements of all parts into one shape, whose length in every dimension is the
    /// longest of the parts.
    fn padded(&self, parts: &[&Tensor], shape: &[usize]) -> Result<Vec<u8>> {
        let element =
            pad_bytes(parts[0].datatype(), self.batching.pad_value).map_err(Error::internal)?;
        let held: usize = parts.iter().map(|part| part.data().len()).sum();
        let wanted = elements(shape).map_err(broken)?;
        let bytes = wanted.saturating_mul(element.len());
        if bytes > held.saturating_mul(MAX_PADDING) {
            return Err(Error::invalid("the shapes are too different to be padded"));
        }
        let mut out = element.repeat(wanted);
        let mut row = 0;
        for part in parts {
            place(&mut out, shape, row, part, element.len());
            row += part.shape()[0];
        }
        Ok(out)
    }
}

/// Copies a part to the rows from `row` on, run by run along its last dimension.
fn place(out: &mut [u8], shape: &[usize], row: usize, part: &Tensor, size: usize) {
    let own = part.shape();
    if part.data().is_empty() {
        return;
    }
    let last = own.len() - 1;
    let run = if last == 0 { 1 } else { own[last] };
    // Position at which the run begins: an index for each dimension but the last.
    let mut index = vec![0; last.max(1)];
    for source in part.data().chunks(run * size) {
        let mut target = index[0] + row;
        for (length, at) in shape[1..].iter().zip(&index[1..]) {
            target = target * length + at;
        }
        if last > 0 {
            target *= shape[last];
        }
        out[target * size..][..source.len()].copy_from_slice(source);
        for dimension in (0..index.len()).rev() {
            index[dimension] += 1;
            if index[dimension] < own[dimension] {
                break;
            }
            index[dimension] = 0;
        }
    }
}

/// Returns the bytes of a padding element.
fn pad_bytes(datatype: Datatype, PadValue(value): PadValue) -> Result<Vec<u8>, String> {
    let no_value = || format!("`pad_value` {value} is no {datatype}");
    let whole = (value.fract() == 0.0).then_some(value as i128);
    Ok(match datatype {
        Datatype::Bool if matches!(whole, Some(0 | 1)) => vec![u8::from(whole == Some(1))],
        Datatype::Fp16 | Datatype::Bf16 if value == 0.0 => vec![0; 2],
        Datatype::Fp32 => (value as f32).to_le_bytes().to_vec(),
        Datatype::Fp64 => value.to_le_bytes().to_vec(),
        datatype => {
            let integer = whole.and_then(|whole| datatype.integer(whole));
            let (bytes, size) = integer.ok_or_else(no_value)?;
            bytes[..size].to_vec()
        }
    })
}

/// Divides the outputs of a batch among its requests, which have these numbers of rows.
///
/// # Errors
/// An output does not have a row for each row of the batch.
pub(super) fn split(outputs: &[Tensor], rows: &[usize]) -> Result<Vec<Vec<Tensor>>> {
    let total: usize = rows.iter().sum();
    let mut requests: Vec<Vec<Tensor>> = Vec::new();
    requests.resize_with(rows.len(), || Vec::with_capacity(outputs.len()));
    for (at, output) in outputs.iter().enumerate() {
        if output.shape().first() != Some(&total) {
            return Err(Error::internal(format!(
                "output {at} of the model has the shape {}, but dimension 0 has to be the {total} rows of the batch",
                shown(output.shape())
            )));
        }
        let of_row = elements(&output.shape()[1..]).map_err(broken)?;
        let mut sizes = output.strings().map(|string| string.len() + 4);
        let mut start = 0;
        for (request, rows) in requests.iter_mut().zip(rows) {
            let bytes = match output.datatype().size() {
                Some(size) => rows * of_row * size,
                None => sizes.by_ref().take(rows * of_row).sum(),
            };
            let data = output.data().slice(start..start + bytes);
            start += bytes;
            let mut shape = output.shape().to_vec();
            shape[0] = *rows;
            request.push(Tensor::new(output.datatype(), shape, data).map_err(broken)?);
        }
    }
    Ok(requests)
}

fn broken(error: crate::tensor::TensorError) -> Error {
    Error::internal("the tensors of a batch do not fit together").with_source(error)
}

#[cfg(test)]
mod tests;
