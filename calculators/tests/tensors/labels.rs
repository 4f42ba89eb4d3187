//! Labels of scores.

use graphmill_calculators::tensor::{Datatype, Tensor};
use graphmill_engine::testing::{Harness, check};
use graphmill_engine::{Environment, Files, Registry};

fn graph(side: &str, options: &str) -> String {
    format!(
        r#"input_stream: "in" output_stream: "label" output_stream: "score"
           node {{ calculator: "TopLabelsCalculator" {side} input_stream: "SCORES:in"
             output_stream: "LABELS:label" output_stream: "SCORES:score"
             node_options {{ [type.googleapis.com/graphmill.TopLabelsCalculatorOptions] {{ {options} }} }} }}"#
    )
}

fn scores(shape: &[usize], values: &[f32]) -> Tensor {
    let data: Vec<u8> = values.iter().flat_map(|it| it.to_le_bytes()).collect();
    Tensor::new(Datatype::Fp32, shape, data).expect("a tensor")
}

fn labels(shape: &[usize], names: &[&str]) -> Tensor {
    let data = Tensor::from_strings(names).data().clone();
    Tensor::new(Datatype::Bytes, shape, data).expect("a tensor")
}

#[test]
fn the_highest_scores_have_names() {
    let mut h = Harness::global(&graph("", r#"label: ["a", "b", "c"] top_k: 2"#));
    h.push("in", 0, scores(&[3], &[0.5, 2.0, 1.0])).push(
        "in",
        1,
        scores(&[2, 3], &[3.0, f32::NAN, 1.0, 0.0, 0.0, 0.0]),
    );
    h.expect(
        "label",
        [
            (0, labels(&[2], &["b", "c"])),
            (1, labels(&[2, 2], &["a", "c", "a", "b"])),
        ],
    );
    h.expect(
        "score",
        [
            (0, scores(&[2], &[2.0, 1.0])),
            (1, scores(&[2, 2], &[3.0, 1.0, 0.0, 0.0])),
        ],
    );
}

#[test]
fn shares_add_up_to_one() {
    let mut h = Harness::global(&graph("", r#"label: ["a", "b"] softmax: true"#));
    h.push("in", 0, scores(&[2], &[7.0, 7.0]));
    h.expect("score", [(0, scores(&[1], &[0.5]))]);
}

#[test]
fn labels_come_from_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("labels.txt"), "cat\ndog\n").expect("writable");
    let environment = Environment::new(Registry::global()).with_files(Files::new(folder.path()));
    let side = r#"input_side_packet: "LABELS:labels""#;
    let text = graph(side, r#"labels_path: "labels.txt""#);
    let mut h = Harness::new(&text, environment.clone());
    h.push("in", 0, scores(&[2], &[0.0, 1.0]));
    h.expect("label", [(0, labels(&[1], &["dog"]))]);
    for (side, options, why) in [
        (side, r#"labels_path: "none.txt""#, "cannot read the labels"),
        ("", r#"labels_path: "labels.txt""#, "needs a name"),
        ("", "", "either `label` or `labels_path`"),
        ("", r#"label: "a" top_k: 0"#, "at least 1"),
    ] {
        let found = check(&graph(side, options), &environment);
        assert!(found.contains(why), "{options}:\n{found}");
    }
}

#[test]
fn other_tensors_are_refused() {
    for tensor in [
        scores(&[3], &[0.0; 3]),
        scores(&[1, 1, 2], &[0.0; 2]),
        labels(&[2], &["a", "b"]),
    ] {
        let mut h = Harness::global(&graph("", r#"label: ["a", "b"]"#));
        h.push("in", 0, tensor);
        let error = h.error().to_string();
        assert!(error.contains("expected scores of 2 labels"), "{error}");
    }
}
