//! ONNX models in graphs.

use std::path::Path;
use std::sync::Arc;

use graphmill_engine::testing::{Harness, check};
use graphmill_engine::{Environment, Files, Registry};
use proptest::prelude::*;
use prost::Message as _;
use tempfile::TempDir;
use tract_onnx::pb::{
    GraphProto, ModelProto, NodeProto, OperatorSetIdProto, StringStringEntryProto, TensorProto,
    TensorShapeProto, TypeProto, ValueInfoProto,
    tensor_proto::DataType,
    tensor_shape_proto::{Dimension, dimension},
    type_proto,
};

use graphmill_calculators::onnx::{OnnxModel, Runtime};
use graphmill_calculators::tensor::{Datatype, Tensor, TensorModel as _};

use crate::shared::shared;

/// An input or output; `None` is a dimension without a length or name.
fn info(name: &str, datatype: DataType, dimensions: &[Option<dimension::Value>]) -> ValueInfoProto {
    let dim = dimensions.iter().map(|value| Dimension {
        value: value.clone(),
        ..Dimension::default()
    });
    let shape = TensorShapeProto { dim: dim.collect() };
    let tensor = type_proto::Tensor {
        elem_type: datatype as i32,
        shape: Some(shape),
    };
    ValueInfoProto {
        name: name.to_owned(),
        r#type: Some(TypeProto {
            value: Some(type_proto::Value::TensorType(tensor)),
            ..TypeProto::default()
        }),
        ..ValueInfoProto::default()
    }
}

fn of_length(length: i64) -> dimension::Value {
    dimension::Value::DimValue(length)
}

fn node(op: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    NodeProto {
        op_type: op.to_owned(),
        input: inputs.iter().map(|&it| it.to_owned()).collect(),
        output: outputs.iter().map(|&it| it.to_owned()).collect(),
        ..NodeProto::default()
    }
}

fn model(graph: GraphProto) -> Vec<u8> {
    let model = ModelProto {
        ir_version: 8,
        opset_import: vec![OperatorSetIdProto {
            version: 17,
            ..OperatorSetIdProto::default()
        }],
        graph: Some(graph),
        ..ModelProto::default()
    };
    model.encode_to_vec()
}

/// `sum = a + b`, for any number of rows of two.
fn sum() -> Vec<u8> {
    let rows = Some(dimension::Value::DimParam("rows".to_owned()));
    let shape = [rows, Some(of_length(2))];
    model(GraphProto {
        node: vec![node("Add", &["a", "b"], &["sum"])],
        input: ["a", "b"]
            .map(|name| info(name, DataType::Float, &shape))
            .to_vec(),
        output: vec![info("sum", DataType::Float, &shape)],
        ..GraphProto::default()
    })
}

/// A model that gives back what it gets.
fn same(datatype: DataType) -> Vec<u8> {
    model(GraphProto {
        node: vec![node("Identity", &["x"], &["y"])],
        input: vec![info("x", datatype, &[None])],
        output: vec![info("y", datatype, &[None])],
        ..GraphProto::default()
    })
}

/// Zeros of a shape, added to what comes in.
fn zeros(shape: TensorProto) -> Vec<u8> {
    model(GraphProto {
        node: vec![
            node("ConstantOfShape", &["shape"], &["zeros"]),
            node("Add", &["x", "zeros"], &["y"]),
        ],
        initializer: vec![shape],
        input: vec![info("x", DataType::Float, &[Some(of_length(1))])],
        output: vec![info("y", DataType::Float, &[None])],
        ..GraphProto::default()
    })
}

/// As [`zeros`], of a shape that the model multiplies.
fn zeros_of_a_product(factor: i64) -> Vec<u8> {
    model(GraphProto {
        node: vec![
            node("Mul", &["a", "b"], &["shape"]),
            node("ConstantOfShape", &["shape"], &["zeros"]),
            node("Add", &["x", "zeros"], &["y"]),
        ],
        initializer: vec![
            integers("a", &[1], &[factor]),
            integers("b", &[1], &[factor]),
        ],
        input: vec![info("x", DataType::Float, &[Some(of_length(1))])],
        output: vec![info("y", DataType::Float, &[None])],
        ..GraphProto::default()
    })
}

fn integers(name: &str, dims: &[i64], data: &[i64]) -> TensorProto {
    TensorProto {
        name: name.to_owned(),
        data_type: DataType::Int64 as i32,
        dims: dims.to_vec(),
        int64_data: data.to_vec(),
        ..TensorProto::default()
    }
}

fn floats(shape: &[usize], values: &[f32]) -> Tensor {
    let data: Vec<u8> = values.iter().flat_map(|it| it.to_le_bytes()).collect();
    Tensor::new(Datatype::Fp32, shape, data).expect("a tensor")
}

/// A folder with a file in it.
fn folder(path: &str, bytes: &[u8]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(path);
    std::fs::create_dir_all(path.parent().expect("a parent")).expect("writable");
    std::fs::write(path, bytes).expect("writable");
    folder
}

fn environment(folder: &Path) -> Environment {
    Environment::new(Registry::global()).with_files(Files::new(folder))
}

const SUM: &str = r#"
input_stream: "a"
input_stream: "b"
output_stream: "out"
node {
  calculator: "OnnxInferenceCalculator"
  input_side_packet: "SESSION:sum"
  input_stream: "A:a"
  input_stream: "B:b"
  output_stream: "SUM:out"
  node_options {
    [type.googleapis.com/graphmill.OnnxInferenceCalculatorOptions] { model_path: "model.onnx" }
  }
}
"#;

const OVMS: &str = r#"
input_stream: "in1"
input_stream: "in2"
output_stream: "out"
node {
  calculator: "OpenVINOModelServerSessionCalculator"
  output_side_packet: "SESSION:session"
  node_options: {
    [type.googleapis.com / mediapipe.OpenVINOModelServerSessionCalculatorOptions]: {
      servable_name: "add"
      servable_version: "1"
    }
  }
}
node {
  calculator: "OpenVINOInferenceCalculator"
  input_side_packet: "SESSION:session"
  input_stream: "INPUT1:in1"
  input_stream: "INPUT2:in2"
  output_stream: "OVTENSOR:out"
  node_options: {
    [type.googleapis.com / mediapipe.OpenVINOInferenceCalculatorOptions]: {
      tag_to_input_tensor_names { key: "INPUT1" value: "a" }
      tag_to_input_tensor_names { key: "INPUT2" value: "b" }
      tag_to_output_tensor_names { key: "OVTENSOR" value: "sum" }
    }
  }
}
"#;

#[test]
fn a_graph_runs_a_model_beside_it() {
    let folder = folder("model.onnx", &sum());
    let mut h = Harness::new(SUM, environment(folder.path()));
    for rows in [1, 3] {
        let time = rows as i64;
        h.push("a", time, floats(&[rows, 2], &vec![1.0; rows * 2]));
        h.push("b", time, floats(&[rows, 2], &vec![0.5; rows * 2]));
    }
    h.expect(
        "out",
        [
            (1, floats(&[1, 2], &[1.5; 2])),
            (3, floats(&[3, 2], &[1.5; 6])),
        ],
    );
}

#[test]
fn graphs_of_ovms_find_the_model_in_a_folder() {
    let beside = folder("add/1/model.onnx", &sum());
    let mut h = Harness::new(OVMS, environment(beside.path()));
    h.push("in1", 0, floats(&[1, 2], &[1.0, 2.0]));
    h.push("in2", 0, floats(&[1, 2], &[3.0, 4.0]));
    h.expect("out", [(0, floats(&[1, 2], &[4.0, 6.0]))]);

    let newest = OVMS.replace("servable_version: \"1\"", "");
    assert_eq!(check(&newest, &environment(beside.path())), "");
    for (file, wrong, why) in [
        ("add/2/model.onnx", OVMS, "has no version 1"),
        (
            "add/1/model.xml",
            OVMS,
            "OpenVINO's format, which is not supported",
        ),
        ("other/1/model.onnx", OVMS, "cannot read the model"),
    ] {
        let beside = folder(file, &sum());
        let found = check(wrong, &environment(beside.path()));
        assert!(found.contains(why), "{file}:\n{found}");
    }
}

/// The graphs of OVMS's own tests with a model: none has anything that is refused.
#[test]
fn graphs_of_ovms_compile() {
    let folder = shared().join("corpus/ovms/src/test/mediapipe");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        eprintln!("skipped: there is no {}", folder.display());
        return;
    };
    let environment = Environment::new(Registry::global()).without_loading();
    let mut found = 0;
    for entry in entries {
        let path = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        if text.contains("OpenVINOInferenceCalculator") {
            assert_eq!(check(&text, &environment), "", "{}", path.display());
            found += 1;
        }
    }
    assert!(found > 5, "{found}");
}

#[test]
fn options_that_mean_nothing_here_are_refused() {
    let beside = folder("add/1/model.onnx", &sum());
    for (from, to, why) in [
        (
            "servable_version: \"1\"",
            "servable_version: \"latest\"",
            "expected a number",
        ),
        (
            "servable_version: \"1\"",
            "service_url: \"localhost:9000\"",
            "`service_url` is not supported",
        ),
        (
            "servable_version: \"1\"",
            "server_config: \"config.json\"",
            "`server_config` is not supported",
        ),
        ("servable_name: \"add\"", "", "servable_name"),
        (
            "tag_to_input_tensor_names { key: \"INPUT2\"",
            "tag_to_input_tensor_names { key: \"INPUT3\"",
            "no input stream with the tag `INPUT3`",
        ),
        (
            "tag_to_input_tensor_names { key: \"INPUT2\"",
            "input_order_list: \"a\" tag_to_input_tensor_names { key: \"INPUT2\"",
            "`input_order_list` is not supported",
        ),
        ("INPUT2", "OVTENSORS", "carry several tensors"),
    ] {
        let found = check(&OVMS.replace(from, to), &environment(beside.path()));
        assert!(found.contains(why), "{to}:\n{found}");
    }
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let beside = folder("model.onnx", &sum());
    let good = floats(&[1, 2], &[0.0; 2]);
    for (a, b, why) in [
        (
            floats(&[1, 3], &[0.0; 3]),
            good.clone(),
            "input `a` takes the shape [-1, 2], but the tensor's is [1, 3]",
        ),
        (
            floats(&[2], &[0.0; 2]),
            good.clone(),
            "input `a` takes the shape [-1, 2], but the tensor's is [2]",
        ),
        (
            good.clone(),
            Tensor::from_strings(["x"]),
            "input `b` takes FP32, but the tensor is BYTES",
        ),
        (
            good.clone(),
            floats(&[2, 2], &[0.0; 4]),
            "the dimension `rows` is 1 of the model's input `a`, but 2 of `b`",
        ),
    ] {
        let mut h = Harness::new(SUM, environment(beside.path()));
        h.push("a", 0, a).push("b", 0, b);
        let error = h.error().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn streams_that_the_model_does_not_have_are_told_when_the_graph_is_loaded() {
    let beside = folder("model.onnx", &sum());
    for (from, to, why) in [
        (
            "input_stream: \"B:b\"",
            "input_stream: \"C:b\"",
            "cannot use resource `sum`: the model has no input `C`, but `a`, `b`",
        ),
        (
            "  input_stream: \"B:b\"",
            "",
            "no stream feeds the model's input `b`",
        ),
        (
            "model_path: \"model.onnx\"",
            "model_path: \"model.onnx\" tag_to_input_tensor_names { key: \"A\" value: \"b\" }",
            "two streams feed the model's input `b`",
        ),
        (
            "model_path: \"model.onnx\"",
            "model_path: \"model.onnx\" tag_to_output_tensor_names { key: \"SUM\" value: \"difference\" }",
            "the model has no output `difference`, but `sum`",
        ),
    ] {
        let found = check(&SUM.replace(from, to), &environment(beside.path()));
        assert!(found.contains(why), "{found}");
    }
    // At the option, where one says so.
    let wrong = OVMS.replace("value: \"b\"", "value: \"c\"");
    let beside = folder("add/1/model.onnx", &sum());
    let found = check(&wrong, &environment(beside.path()));
    assert!(
        found.contains("the model has no input `c`, but `a`, `b`")
            && found.contains("tag_to_input_tensor_names { key: \"INPUT2\""),
        "{found}"
    );
}

#[test]
fn tensors_of_every_datatype_come_back() {
    let of = |datatype, bytes: &[u8]| {
        let length = bytes.len() / datatype_size(datatype);
        Tensor::new(datatype, [length], bytes.to_vec()).expect("a tensor")
    };
    for (onnx, datatype) in [
        (DataType::Uint8, Datatype::Uint8),
        (DataType::Uint16, Datatype::Uint16),
        (DataType::Uint32, Datatype::Uint32),
        (DataType::Uint64, Datatype::Uint64),
        (DataType::Int8, Datatype::Int8),
        (DataType::Int16, Datatype::Int16),
        (DataType::Int32, Datatype::Int32),
        (DataType::Int64, Datatype::Int64),
        (DataType::Float16, Datatype::Fp16),
        (DataType::Float, Datatype::Fp32),
        (DataType::Double, Datatype::Fp64),
    ] {
        let tensor = of(
            datatype,
            &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16],
        );
        let model = OnnxModel::from_bytes(&same(onnx), Runtime::Tract).expect("a model");
        let outputs = model.run(vec![tensor.clone()]).expect("it runs");
        assert_eq!(outputs, [tensor], "{datatype}");
    }
    for (onnx, tensor) in [
        (DataType::Bool, of(Datatype::Bool, &[0, 1, 1])),
        (DataType::String, Tensor::from_strings(["a", "", "über"])),
    ] {
        let model = OnnxModel::from_bytes(&same(onnx), Runtime::Tract).expect("a model");
        let outputs = model.run(vec![tensor.clone()]).expect("it runs");
        assert_eq!(outputs, [tensor]);
    }
}

fn datatype_size(datatype: Datatype) -> usize {
    datatype.size().expect("a size")
}

#[test]
fn a_model_is_shared_and_loaded_again_when_its_file_is_another() {
    let beside = folder("model.onnx", &sum());
    let environment = environment(beside.path());
    let model = |h: &Harness| Arc::clone(&h.plan().resources::<OnnxModel>()[0]);
    let first = Harness::new(SUM, environment.clone());
    let second = Harness::new(SUM, environment.clone());
    assert!(Arc::ptr_eq(&model(&first), &model(&second)));

    let new = beside.path().join("new");
    std::fs::write(&new, sum()).expect("writable");
    std::fs::rename(new, beside.path().join("model.onnx")).expect("writable");
    let third = Harness::new(SUM, environment);
    assert!(!Arc::ptr_eq(&model(&first), &model(&third)));
}

#[test]
fn a_file_that_cannot_be_used_is_told_where_the_graph_names_it() {
    let one = [Some(of_length(1))];
    let with_tensor = |tensor: TensorProto| {
        model(GraphProto {
            node: vec![node("Add", &["x", "t"], &["y"])],
            initializer: vec![tensor],
            input: vec![info("x", DataType::Int64, &one)],
            output: vec![info("y", DataType::Int64, &one)],
            ..GraphProto::default()
        })
    };
    let external = TensorProto {
        data_location: Some(1),
        external_data: vec![StringStringEntryProto {
            key: "location".to_owned(),
            value: "/etc/passwd".to_owned(),
        }],
        ..integers("t", &[1], &[])
    };
    let mut unknown_op = GraphProto {
        node: vec![node("Frobnicate", &["x"], &["y"])],
        input: vec![info("x", DataType::Float, &one)],
        output: vec![info("y", DataType::Float, &one)],
        ..GraphProto::default()
    };
    let unknown = model(unknown_op.clone());
    unknown_op.node[0] = node("Identity", &["z"], &["y"]);
    for (bytes, why) in [
        (b"GGUF".to_vec(), "not an ONNX file"),
        (Vec::new(), "no graph"),
        (sum()[..30].to_vec(), "not an ONNX file"),
        (unknown, "Frobnicate"),
        (model(unknown_op), "z"),
        (
            with_tensor(integers("t", &[1 << 40], &[])),
            "more than the file holds",
        ),
        (
            with_tensor(integers("t", &[1 << 40, 1 << 40], &[])),
            "more than the file holds",
        ),
        (
            with_tensor(integers("t", &[-1], &[])),
            "more than the file holds",
        ),
        (with_tensor(integers("t", &[3], &[1])), "t"),
        (with_tensor(external), "in another file"),
        (
            zeros(integers("shape", &[1], &[1 << 40])),
            "elements are allowed",
        ),
        (
            zeros(integers("shape", &[2], &[1 << 40, 1 << 40])),
            "elements are allowed",
        ),
        (zeros_of_a_product(1 << 32), "more than can be counted"),
        (zeros_of_a_product(i64::MIN), "more than can be counted"),
    ] {
        let beside = folder("model.onnx", &bytes);
        let found = check(SUM, &environment(beside.path()));
        assert!(
            found.contains("cannot load resource `sum`") && found.contains(why),
            "{why}:\n{found}"
        );
        assert!(found.contains("model_path: \"model.onnx\""), "{found}");
    }
    let found = check(SUM, &environment(Path::new("/nowhere")));
    assert!(found.contains("cannot read the model"), "{found}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Damaged models are refused or do something, and bring nobody down.
    #[test]
    fn damaged_models_bring_nobody_down(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let mut bytes = sum();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(model) = OnnxModel::from_bytes(&bytes, Runtime::Tract) {
            let inputs = model.inputs().iter().map(|_| floats(&[1, 2], &[0.0; 2]));
            let _ = model.run(inputs.collect());
        }
    }
}
