//! A projector of the kind `mlp` with random weights: images of one size, a position for each patch.

use std::path::{Path, PathBuf};

use crate::random_model::{F32, LIST, Tensor, U32, entry, file, matrix, ones, text_entry};

/// Positions that an image takes: those of a square.
pub(crate) const POSITIONS: u64 = 16;
const PATCH: u64 = 8;
const IMAGE: u64 = 32;
const WIDTH: u64 = 16;
const HEADS: u32 = 2;
const FEED_FORWARD: u64 = 24;
const LAYERS: u32 = 2;
const BOOL: u32 = 7;

/// The numbers of an embedding of the model in this repository.
pub(crate) const MODEL_WIDTH: u64 = 192;

/// Writes a projector for models whose embeddings have so many numbers, which are about this large.
pub(crate) fn make(folder: &Path, width: u64, size: f32) -> PathBuf {
    let mut entries = Vec::new();
    text_entry(&mut entries, "general.architecture", "clip");
    text_entry(&mut entries, "clip.projector_type", "mlp");
    for name in ["clip.has_vision_encoder", "clip.use_gelu"] {
        entries.push(entry(name, BOOL, [1]));
    }
    for (name, number) in [
        ("image_size", IMAGE as u32),
        ("patch_size", PATCH as u32),
        ("embedding_length", WIDTH as u32),
        ("feed_forward_length", FEED_FORWARD as u32),
        ("block_count", LAYERS),
        ("projection_dim", width as u32),
        ("attention.head_count", HEADS),
    ] {
        entries.push(entry(
            &format!("clip.vision.{name}"),
            U32,
            number.to_le_bytes(),
        ));
    }
    let epsilon = "clip.vision.attention.layer_norm_epsilon";
    entries.push(entry(epsilon, F32, 1e-5_f32.to_le_bytes()));
    for name in ["image_mean", "image_std"] {
        let mut value = F32.to_le_bytes().to_vec();
        value.extend(3_u64.to_le_bytes());
        value.extend([0.5_f32; 3].iter().flat_map(|number| number.to_le_bytes()));
        entries.push(entry(&format!("clip.vision.{name}"), LIST, value));
    }
    let mut tensors = vec![
        matrix("v.patch_embd.weight", &[PATCH, PATCH, 3, WIDTH], 1.0),
        matrix("v.position_embd.weight", &[WIDTH, POSITIONS], 1.0),
        matrix("mm.0.weight", &[WIDTH, width], 1.0),
        bias("mm.0.bias", width),
        matrix("mm.2.weight", &[width, width], size),
        bias("mm.2.bias", width),
    ];
    for layer in 0..LAYERS {
        let name = |part: &str| format!("v.blk.{layer}.{part}");
        for part in ["attn_q", "attn_k", "attn_v", "attn_out"] {
            tensors.push(matrix(
                &name(&format!("{part}.weight")),
                &[WIDTH, WIDTH],
                1.0,
            ));
        }
        for part in ["ln1", "ln2"] {
            tensors.push(ones(&name(&format!("{part}.weight")), WIDTH));
            tensors.push(bias(&name(&format!("{part}.bias")), WIDTH));
        }
        let (up, down) = (name("ffn_up.weight"), name("ffn_down.weight"));
        tensors.push(matrix(&up, &[WIDTH, FEED_FORWARD], 1.0));
        tensors.push(matrix(&down, &[FEED_FORWARD, WIDTH], 1.0));
    }
    let path = folder.join("mmproj.gguf");
    std::fs::write(&path, file(&entries, &tensors)).expect("a file in it");
    path
}

/// Small numbers.
fn bias(name: &str, length: u64) -> Tensor {
    matrix(name, &[length], 0.1)
}
