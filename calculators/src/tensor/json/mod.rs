//! JSON form of a tensor's elements: one array with all of them, or nested arrays that follow the
//! shape. FP16, BF16 and numbers that are not finite have no such form.

mod read;
mod write;

pub use read::{data_from_json, tensor_from_json};
pub use write::data_to_json;

use graphmill_engine::register_payload;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Datatype, Tensor, shape_of};

fn no_json(datatype: Datatype) -> String {
    format!("{datatype} has no form in JSON: send and ask for binary data")
}

register_payload!(Tensor as "tensor", to_json, from_json);

fn to_json(tensor: &Tensor) -> Value {
    let data = data_to_json(tensor).and_then(|data| {
        serde_json::from_str::<Value>(data.get()).map_err(|error| error.to_string())
    });
    json!({
        "datatype": tensor.datatype(),
        "shape": tensor.shape(),
        "data": data.unwrap_or_else(Value::from),
    })
}

/// A tensor as JSON in files of tools.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonTensor {
    datatype: Datatype,
    shape: Vec<i64>,
    data: Value,
}

fn from_json(value: &Value) -> Result<Tensor, String> {
    let read = JsonTensor::deserialize(value).map_err(|error| error.to_string())?;
    let shape = shape_of(&read.shape).map_err(|error| error.to_string())?;
    let data = serde_json::value::to_raw_value(&read.data).map_err(|error| error.to_string())?;
    let data = data_from_json(read.datatype, &shape, &data)?;
    Tensor::new(read.datatype, shape, data).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    fn read(datatype: Datatype, shape: &[usize], json: &str) -> Result<Tensor, String> {
        let json = RawValue::from_string(json.to_owned()).expect("JSON");
        let data = data_from_json(datatype, shape, &json)?;
        Ok(Tensor::new(datatype, shape, data).expect("as many elements as the shape has"))
    }

    #[test]
    fn arrays_are_flat_or_as_the_shape_says() {
        let flat = read(Datatype::Int16, &[2, 2], "[1, -2, 3, 4]").expect("flat");
        let nested = read(Datatype::Int16, &[2, 2], "[[1, -2], [3, 4]]").expect("nested");
        assert_eq!(flat, nested);
        assert_eq!(&**flat.data(), [1, 0, 254, 255, 3, 0, 4, 0]);
        for (json, why) in [
            ("[1, 2, 3]", "has 4 elements, but there are 3"),
            ("[1, 2, 3, 4, 5]", "but there are more"),
            ("[[1, 2, 3], [4]]", "an array has 3 elements where"),
            ("[[1, 2], 3, 4]", "neither all in one array"),
            ("[[[1, 2]], [3, 4]]", "nested deeper"),
            (
                "[[1, 2], [3, 40000]]",
                "element 3 is 40000, which is no INT16",
            ),
            ("[1, 2, 3, 4.5]", "element 3 is 4.5, which is no INT16"),
            (
                "[1, 2, 3, \"4\"]",
                "element 3 is a string, which is no INT16",
            ),
            ("[1, 2, 3, null]", "expected an element of INT16"),
            ("1", "neither all in one array"),
            ("{}", "expected an array"),
        ] {
            let error = read(Datatype::Int16, &[2, 2], json).expect_err(json);
            assert!(error.contains(why), "{json}: {error}");
        }
    }

    #[test]
    fn every_datatype_that_json_has_comes_back() {
        for (datatype, json) in [
            (Datatype::Bool, "[true,false]"),
            (Datatype::Uint8, "[0,255]"),
            (Datatype::Uint64, "[0,18446744073709551615]"),
            (
                Datatype::Int64,
                "[-9223372036854775808,9223372036854775807]",
            ),
            (Datatype::Fp32, "[0.1,-3.0]"),
            (Datatype::Fp64, "[0.1,1e300]"),
            (Datatype::Bytes, r#"["a\"b","é"]"#),
        ] {
            let tensor = read(datatype, &[2], json).expect(json);
            assert_eq!(data_to_json(&tensor).expect(json).get(), json);
        }
    }

    #[test]
    fn what_json_cannot_say_is_refused() {
        assert!(read(Datatype::Fp16, &[1], "[1]").is_err());
        assert!(read(Datatype::Fp32, &[1], "[1e300]").is_err());
        let infinite = Tensor::scalar(Datatype::Fp32, &f32::INFINITY.to_le_bytes());
        let error = data_to_json(&infinite).expect_err("no form");
        assert!(error.contains("inf has no form in JSON"), "{error}");
    }
}
