//! Attention by the CPU kernels where texts are embedded: tokens see all of their text and nothing
//! of others.

use std::path::{Path, PathBuf};
use std::sync::mpsc;

use graphmill_kernels::Kernels;
use graphmill_llm::embed::{EmbeddingEngine, EmbeddingRequest, EmbeddingSpec, EmbeddingTask};
use graphmill_llm::{LoadError, PluginConfig, Token};
use graphmill_testkit::gguf::{Gguf, Tensor};

/// The shape of the repository's model of this kind, whose metadata is used.
const WIDTH: u64 = 128;
const WIDER: u64 = 384;
const LAYERS: u64 = 3;
const VOCABULARY: u64 = 3072;
const LENGTH: u64 = 512;
/// ggml's numbers of 32 and 16 bits.
const F32: u32 = 0;
const BF16: u32 = 30;

/// A model like the repository's, with matrices of 16 bits, where this processor has kernels for
/// them.
fn model(folder: &Path) -> Option<PathBuf> {
    if Kernels::detect().is_none() {
        eprintln!("skipped: there are no kernels for this processor");
        return None;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../demos/tiny_embed/embed.gguf");
    assert!(path.exists(), "`{}` is missing", path.display());
    let mut file = Gguf::parse(&std::fs::read(path).expect("readable")).expect("a model");
    file.tensors.clear();
    file.data.clear();
    let mut bits = 0x9e37_79b9_u32;
    let mut put = |name: String, shape: &[u64], kind: u32| {
        let offset = file.data.len() as u64;
        for _ in 0..shape.iter().product() {
            bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let unit = bits as f32 / u32::MAX as f32 - 0.5;
            let number = if name.ends_with("norm.weight") {
                1.0
            } else {
                0.6 * unit
            };
            let skipped = if kind == F32 { 0 } else { 2 };
            file.data.extend(&number.to_le_bytes()[skipped..]);
        }
        file.tensors.push(Tensor {
            name,
            dimensions: shape.to_vec(),
            kind,
            offset,
        });
    };
    put("token_embd.weight".into(), &[WIDTH, VOCABULARY], BF16);
    put("position_embd.weight".into(), &[WIDTH, LENGTH], F32);
    put("token_types.weight".into(), &[WIDTH, 1], F32);
    let mut norms = vec!["token_embd_norm".to_owned()];
    for layer in 0..LAYERS {
        for (name, from, to) in [
            ("attn_q", WIDTH, WIDTH),
            ("attn_k", WIDTH, WIDTH),
            ("attn_v", WIDTH, WIDTH),
            ("attn_output", WIDTH, WIDTH),
            ("ffn_up", WIDTH, WIDER),
            ("ffn_down", WIDER, WIDTH),
        ] {
            put(format!("blk.{layer}.{name}.weight"), &[from, to], BF16);
            put(format!("blk.{layer}.{name}.bias"), &[to], F32);
        }
        norms.push(format!("blk.{layer}.attn_output_norm"));
        norms.push(format!("blk.{layer}.layer_output_norm"));
    }
    for norm in norms {
        put(format!("{norm}.weight"), &[WIDTH], F32);
        put(format!("{norm}.bias"), &[WIDTH], F32);
    }
    let path = folder.join("embed.gguf");
    std::fs::write(&path, file.bytes()).expect("it is written");
    Some(path)
}

/// An engine, unless the environment has turned the kernels off.
fn engine(model: &Path, config: &str) -> Option<EmbeddingEngine> {
    let loaded = EmbeddingEngine::load(EmbeddingSpec {
        plugin_config: PluginConfig::from_json(config).expect("good knobs"),
        ..EmbeddingSpec::new(model, EmbeddingTask::Embed(None))
    });
    match loaded {
        Ok(engine) => Some(engine),
        Err(LoadError::Spec { field, message }) if field == "cpu_kernels" => {
            eprintln!("skipped: `{field}` {message}");
            None
        }
        Err(error) => panic!("the model loads: {error}"),
    }
}

fn embed(engine: &EmbeddingEngine, texts: Vec<Vec<Token>>) -> Vec<Vec<f32>> {
    let (sender, outcome) = mpsc::channel();
    let request = EmbeddingRequest::new(texts, move |result| {
        sender.send(result).expect("the test listens");
    });
    let _handle = engine.submit(request).expect("it is taken");
    outcome.recv().expect("an outcome").expect("numbers")
}

fn fused(engine: &EmbeddingEngine) -> bool {
    let compute = engine.info().backend.compute.clone();
    compute.expect("llama.cpp").flash_attention
}

#[test]
fn texts_have_the_vectors_of_plain_attention_alone_and_among_many() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(model) = model(folder.path()) else {
        return;
    };
    let Some(ours) = engine(&model, r#"{"cpu_kernels": "on"}"#) else {
        return;
    };
    assert_eq!(
        fused(&ours),
        Kernels::detect().is_some_and(|kernels| kernels.attends()),
        "chosen where it is a kernel's"
    );
    let plain = r#"{"cpu_kernels": "on", "flash_attention": "off"}"#;
    let plain = engine(&model, plain).expect("as above");
    assert!(!fused(&plain));

    let text = |index: i32| (0..3 + index * 37).map(move |place| 10 + (place * 7 + index) % 3000);
    let texts: Vec<Vec<Token>> = (0..10).map(|index| text(index).collect()).collect();
    let together = embed(&ours, texts.clone());
    let expected = embed(&plain, texts.clone());
    let dot = |a: &[f32], b: &[f32]| -> f32 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
    let cosine = |a: &[f32], b: &[f32]| dot(a, b) / (dot(a, a) * dot(b, b)).sqrt();
    for (index, text) in texts.into_iter().enumerate() {
        let alone = embed(&ours, vec![text]).remove(0);
        let [to_plain, to_alone] =
            [&expected[index], &alone].map(|of| cosine(&together[index], of));
        assert!(
            to_plain > 0.99999,
            "text {index}: {to_plain} of plain attention"
        );
        assert!(
            to_alone > 0.99999,
            "text {index}: {to_alone} of itself alone"
        );
    }
}
