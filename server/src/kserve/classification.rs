//! The classification extension, which returns the classes with the highest values of an output, as
//! strings `<value>:<class>`, or `<value>:<class>:<label>` if the class has a label.

use graphmill_calculators::tensor::{Datatype, Tensor};

use super::{ParameterMap, refuse_parameters, take_count, wrong};
use crate::errors::Result;

/// Parameter of an output that requests classes.
const CLASSES: &str = "classification";

/// An output that a request names.
pub(crate) struct WantedOutput {
    pub(crate) name: String,
    /// Maximum number of classes; 0 returns the tensor unchanged.
    pub(crate) classes: usize,
}

impl WantedOutput {
    /// Reads the output at a place of a request. Its other parameters must have been removed.
    pub(crate) fn read(
        position: usize,
        name: String,
        mut parameters: ParameterMap,
    ) -> Result<Self> {
        let place = format!("outputs[{position}]");
        let classes = take_count(&mut parameters, &place, CLASSES, "classes")?.unwrap_or_default();
        refuse_parameters(&place, &parameters)?;
        Ok(Self { name, classes })
    }

    /// Returns the tensor, or its classes if they are wanted. `labels` names the classes.
    pub(crate) fn take(&self, tensor: &Tensor, labels: &[String]) -> Result<Tensor> {
        if self.classes == 0 {
            return Ok(tensor.clone());
        }
        classify(tensor, self.classes, labels)
            .map_err(|why| wrong(format!("outputs.{}", self.name), why))
    }
}

/// Returns the classes with the highest values of each row, highest first. A tensor of one
/// dimension is one row; otherwise dimension 0 counts the rows.
fn classify(tensor: &Tensor, classes: usize, labels: &[String]) -> Result<Tensor, String> {
    let values = values(tensor)?;
    let (rows, mut shape) = match tensor.shape() {
        [rows, _, ..] => (*rows, vec![*rows]),
        _ => (1, Vec::new()),
    };
    let each = values.len().checked_div(rows).unwrap_or_default();
    let count = classes.min(each);
    let mut texts = Vec::with_capacity(count * rows);
    for row in values.chunks(each.max(1)) {
        let mut order: Vec<usize> = (0..row.len()).collect();
        // Equal values are in the order of their classes. NaN comes last.
        order.sort_by(|a, b| {
            let (a, b) = (row[*a].0, row[*b].0);
            a.is_nan().cmp(&b.is_nan()).then(b.total_cmp(&a))
        });
        let best = order.into_iter().take(count);
        texts.extend(best.map(|class| match labels.get(class) {
            Some(label) => format!("{}:{class}:{label}", row[class].1),
            None => format!("{}:{class}", row[class].1),
        }));
    }
    shape.push(count);
    let data = Tensor::from_strings(texts).into_data();
    Tensor::new(Datatype::Bytes, shape, data).map_err(|error| error.to_string())
}

/// Returns the elements as numbers and as strings.
#[expect(clippy::cast_lossless, reason = "it is for all datatypes")]
fn values(tensor: &Tensor) -> Result<Vec<(f64, String)>, String> {
    macro_rules! read {
        ($type:ty, $text:literal) => {{
            let (elements, _) = tensor.data().as_chunks::<{ size_of::<$type>() }>();
            let elements = elements.iter().map(|it| <$type>::from_le_bytes(*it));
            elements.map(|it| (it as f64, format!($text, it))).collect()
        }};
    }
    Ok(match tensor.datatype() {
        Datatype::Fp32 => read!(f32, "{:.6}"),
        Datatype::Fp64 => read!(f64, "{:.6}"),
        Datatype::Int8 => read!(i8, "{}"),
        Datatype::Int16 => read!(i16, "{}"),
        Datatype::Int32 => read!(i32, "{}"),
        Datatype::Int64 => read!(i64, "{}"),
        Datatype::Uint8 => read!(u8, "{}"),
        Datatype::Uint16 => read!(u16, "{}"),
        Datatype::Uint32 => read!(u32, "{}"),
        Datatype::Uint64 => read!(u64, "{}"),
        other @ (Datatype::Bool | Datatype::Fp16 | Datatype::Bf16 | Datatype::Bytes) => {
            let why = format!("`{CLASSES}` is for numbers, but the tensor is {other}");
            return Err(why);
        }
    })
}
