use super::super::options::{Batching, InputDescription};
use super::*;

fn info(ragged: RaggedPolicy) -> BatcherInfo {
    BatcherInfo {
        model: String::new(),
        batching: Batching {
            ragged,
            pad_value: PadValue(-1.0),
            ..Batching::with_max_batch_size(8)
        },
        inputs: vec![],
    }
}

fn ints(shape: &[usize], values: &[i16]) -> Tensor {
    let bytes: Vec<u8> = values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    Tensor::new(Datatype::Int16, shape, bytes).expect("as many as the shape says")
}

fn values(tensor: &Tensor) -> Vec<i16> {
    let values = tensor.data().chunks(2);
    values
        .map(|it| i16::from_le_bytes([it[0], it[1]]))
        .collect()
}

fn refusal(info: &BatcherInfo, inputs: &[Tensor]) -> String {
    info.check(inputs).expect_err("refused").message
}

#[test]
fn a_request_is_refused_with_the_names_and_shapes() {
    let mut all = info(RaggedPolicy::Separate);
    let tensor = |shape: &[usize]| ints(shape, &vec![0; elements(shape).expect("few")]);
    assert_eq!(
        refusal(&all, &[tensor(&[2, 3]), tensor(&[1])]),
        "input `1`: the shape is [1], but that of `0` is [2, 3]: dimension 0 has to be the same"
    );
    assert_eq!(
        refusal(&all, &[tensor(&[9])]),
        "input `0`: the request has 9 rows, and a batch at most 8 (max_batch_size)"
    );
    assert!(refusal(&all, &[tensor(&[])]).contains("a scalar has no dimension 0"));
    assert!(refusal(&all, &[tensor(&[0, 4])]).contains("[0, 4]: it has no row"));
    assert!(refusal(&all, &[]).contains("takes 1 tensors, but there are 0"));
    all.inputs = vec![InputDescription {
        name: "pixels".to_owned(),
        datatype: Some(Datatype::Int16),
        shape: vec![-1, 4],
    }];
    assert_eq!(
        refusal(&all, &[tensor(&[1, 5])]),
        "input `pixels`: the shape is [1, 5], but the model takes [-1, 4]"
    );
    assert_eq!(
        refusal(&all, &[Tensor::from_strings(["a"])]),
        "input `pixels`: the tensor is BYTES, but the model takes INT16"
    );
    assert!(refusal(&all, &[tensor(&[4])]).contains("the shape is [4]"));
    assert!(all.check(&[tensor(&[8, 4])]).is_ok());
}

#[test]
fn what_is_joined_comes_apart_again() {
    let all = info(RaggedPolicy::Separate);
    let a = [
        ints(&[2, 2], &[1, 2, 3, 4]),
        Tensor::from_strings(["a", "bc"]),
    ];
    let b = [ints(&[1, 2], &[5, 6]), Tensor::from_strings([""])];
    assert_eq!(
        all.check(&a).expect("good").1,
        all.check(&b).expect("good").1
    );
    let joined = all.join(&[&a, &b]).expect("of one kind");
    assert_eq!(joined[0].shape(), [3, 2]);
    assert_eq!(values(&joined[0]), [1, 2, 3, 4, 5, 6]);
    assert_eq!(joined[1], Tensor::from_strings(["a", "bc", ""]));
    let apart = split(&joined, &[2, 1]).expect("three rows");
    assert_eq!(apart, [a.to_vec(), b.to_vec()]);
}

#[test]
fn an_output_has_the_rows_of_the_batch() {
    for shape in [&[][..], &[1], &[2, 3]] {
        let output = ints(shape, &vec![0; elements(shape).expect("few")]);
        let error = split(&[output], &[2, 1]).expect_err("not three rows");
        assert!(error.message.contains("the 3 rows of the batch"), "{error}");
    }
}

#[test]
fn different_lengths_are_of_different_kinds_unless_they_are_padded() {
    let kind = |ragged, tensor: Tensor| info(ragged).check(&[tensor]).expect("good").1;
    let (long, short) = (|| ints(&[1, 2], &[1, 2]), || ints(&[1, 1], &[3]));
    assert_ne!(
        kind(RaggedPolicy::Separate, long()),
        kind(RaggedPolicy::Separate, short())
    );
    assert_eq!(
        kind(RaggedPolicy::Pad, long()),
        kind(RaggedPolicy::Pad, short())
    );
    let flat = ints(&[1], &[3]);
    assert_ne!(
        kind(RaggedPolicy::Pad, long()),
        kind(RaggedPolicy::Pad, flat)
    );
}

#[test]
fn shorter_tensors_are_padded_at_their_ends() {
    let all = info(RaggedPolicy::Pad);
    let parts = [
        [ints(&[1, 2, 1], &[1, 2])],
        [ints(&[2, 1, 3], &[3, 4, 5, 6, 7, 8])],
        [ints(&[1, 0, 3], &[])],
    ];
    let joined = all.join(&[&parts[0], &parts[1], &parts[2]]).expect("alike");
    assert_eq!(joined[0].shape(), [4, 2, 3]);
    let expected = [
        [1, -1, -1, 2, -1, -1],
        [3, 4, 5, -1, -1, -1],
        [6, 7, 8, -1, -1, -1],
        [-1; 6],
    ];
    assert_eq!(values(&joined[0]), expected.concat());
}

#[test]
fn padding_is_bounded() {
    let all = info(RaggedPolicy::Pad);
    let wide = [ints(&[1, 1, 1000], &[0; 1000])];
    let high = [ints(&[1, 1000, 1], &[0; 1000])];
    let error = all.join(&[&wide, &high]).expect_err("a million");
    assert!(error.message.contains("too different"), "{error}");
}

#[test]
fn the_pad_value_is_one_of_the_datatype() {
    for (datatype, value, fits) in [
        (Datatype::Uint8, -1.0, false),
        (Datatype::Uint8, 255.0, true),
        (Datatype::Int32, 0.5, false),
        (Datatype::Fp16, 0.0, true),
        (Datatype::Fp16, 1.0, false),
        (Datatype::Bool, 1.0, true),
        (Datatype::Bool, 2.0, false),
        (Datatype::Fp64, 0.5, true),
    ] {
        let bytes = pad_bytes(datatype, PadValue(value));
        assert_eq!(bytes.is_ok(), fits, "{datatype} {value}");
        assert!(bytes.is_ok_and(|it| Some(it.len()) == datatype.size()) || !fits);
    }
}
