//! Texts as vectors.

use graphmill_calculators::tensor::Tensor;
use graphmill_engine::testing::Harness;

fn harness(options: &str) -> Harness {
    Harness::global(&format!(
        r#"input_stream: "in" output_stream: "out"
           node {{ calculator: "TextFeaturesCalculator" input_stream: "TEXT:in" output_stream: "FEATURES:out"
             node_options {{ [type.googleapis.com/graphmill.TextFeaturesCalculatorOptions] {{ {options} }} }} }}"#
    ))
}

fn numbers(h: &mut Harness) -> (Vec<usize>, Vec<f32>) {
    let packets = h.packets("out");
    let tensor = packets[0].get::<Tensor>().expect("a tensor");
    let numbers = tensor.data().as_chunks().0.iter();
    let numbers = numbers.map(|it| f32::from_le_bytes(*it)).collect();
    (tensor.shape().to_vec(), numbers)
}

#[test]
fn words_and_their_parts_count() {
    // FNV-1a, 32 bits: "a" is 0xe40c292c, and "foobar" 0xbf9cf968.
    let mut h = harness("buckets: 16 max_part: 0");
    h.push(
        "in",
        0,
        Tensor::from_strings(["a FOOBAR, foobar!", "", "a"]),
    );
    let (shape, numbers) = numbers(&mut h);
    assert_eq!(shape, [3, 16]);
    let mut expected = vec![0.0; 48];
    expected[0xc] = 1.0 / 5.0_f32.sqrt();
    expected[0x8] = 2.0 / 5.0_f32.sqrt();
    expected[32 + 0xc] = 1.0;
    assert_eq!(numbers, expected);
}

#[test]
fn parts_are_of_characters() {
    let mut h = harness("buckets: 1048576 min_part: 3 max_part: 3");
    h.push("in", 0, "über".to_owned());
    let (_, numbers) = numbers(&mut h);
    let counted = numbers.iter().filter(|it| **it > 0.0).count();
    // the word, " üb", "übe", "ber", "er "
    assert_eq!(counted, 5);
}

#[test]
fn no_more_is_made_than_memory_allows() {
    let mut h = harness("buckets: 1048576");
    h.push("in", 0, Tensor::from_strings(vec!["x"; 17]));
    let error = h.error().to_string();
    assert!(
        error.contains("there are 17 texts, more than 16"),
        "{error}"
    );
}
