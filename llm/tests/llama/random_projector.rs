//! Projectors with random weights.

use std::path::{Path, PathBuf};

use crate::random_model::{F32, LIST, Tensor, U32, entry, file, matrix, ones, text_entry};

/// Positions that an image takes, unless they depend on its size: those of a square.
pub(crate) const POSITIONS: u64 = 16;
const WIDTH: u64 = 16;
const HEADS: u32 = 2;
const FEED_FORWARD: u64 = 24;
const LAYERS: u32 = 2;
const BOOL: u32 = 7;

/// The numbers of an embedding of the model in this repository.
pub(crate) const MODEL_WIDTH: u64 = 192;

/// What a projector makes of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A position for each patch of a square, as `LLaVA` has it.
    Square,
    /// A position for each four patches, in lines and columns, as many as the image has: as Qwen2-VL
    /// has it.
    Grid,
    /// A position for each four patches of a square, which see each other: as Gemma 3 has it.
    Ahead,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Square => "mlp",
            Self::Grid => "qwen2vl_merger",
            Self::Ahead => "gemma3",
        }
    }

    /// Pixels of a side of a patch, and of an image.
    fn pixels(self) -> (u64, u64) {
        match self {
            Self::Square => (8, 32),
            Self::Grid => (4, 64),
            Self::Ahead => (8, 64),
        }
    }

    /// What makes embeddings of the model of its own.
    fn merger(self, width: u64, size: f32) -> Vec<Tensor> {
        match self {
            Self::Square => vec![
                matrix("mm.0.weight", &[WIDTH, width], 1.0),
                bias("mm.0.bias", width),
                matrix("mm.2.weight", &[width, width], size),
                bias("mm.2.bias", width),
            ],
            Self::Grid => vec![
                matrix("mm.0.weight", &[4 * WIDTH, 4 * WIDTH], 1.0),
                bias("mm.0.bias", 4 * WIDTH),
                matrix("mm.2.weight", &[4 * WIDTH, width], size),
                bias("mm.2.bias", width),
            ],
            Self::Ahead => vec![
                ones("mm.soft_emb_norm.weight", WIDTH),
                matrix("mm.input_projection.weight", &[width, WIDTH], size),
            ],
        }
    }
}

/// Writes a projector for models whose embeddings have so many numbers, which are about this large.
pub(crate) fn make(folder: &Path, kind: Kind, width: u64, size: f32) -> PathBuf {
    let (of_patch, image) = kind.pixels();
    let mut entries = Vec::new();
    text_entry(&mut entries, "general.architecture", "clip");
    text_entry(&mut entries, "clip.projector_type", kind.name());
    for name in ["clip.has_vision_encoder", "clip.use_gelu"] {
        entries.push(entry(name, BOOL, [1]));
    }
    for (name, number) in [
        ("image_size", image as u32),
        ("patch_size", of_patch as u32),
        ("embedding_length", WIDTH as u32),
        ("feed_forward_length", FEED_FORWARD as u32),
        ("block_count", LAYERS),
        ("projection_dim", width as u32),
        ("attention.head_count", HEADS),
        ("projector.scale_factor", 2),
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
    let mut tensors = kind.merger(width, size);
    let pixels = [of_patch, of_patch, 3, WIDTH];
    tensors.push(matrix("v.patch_embd.weight", &pixels, 1.0));
    if kind == Kind::Grid {
        tensors.push(matrix("v.patch_embd.weight.1", &pixels, 1.0));
    } else {
        let patches = (image / of_patch).pow(2);
        tensors.push(matrix("v.position_embd.weight", &[WIDTH, patches], 1.0));
    }
    for layer in 0..LAYERS {
        let name = |part: &str| format!("v.blk.{layer}.{part}");
        for part in ["attn_q", "attn_k", "attn_v", "attn_out"] {
            tensors.push(matrix(
                &name(&format!("{part}.weight")),
                &[WIDTH, WIDTH],
                1.0,
            ));
            tensors.push(bias(&name(&format!("{part}.bias")), WIDTH));
        }
        for part in ["ln1", "ln2"] {
            tensors.push(ones(&name(&format!("{part}.weight")), WIDTH));
            tensors.push(bias(&name(&format!("{part}.bias")), WIDTH));
        }
        let (up, down) = (name("ffn_up.weight"), name("ffn_down.weight"));
        tensors.push(matrix(&up, &[WIDTH, FEED_FORWARD], 1.0));
        tensors.push(matrix(&down, &[FEED_FORWARD, WIDTH], 1.0));
        for (part, length) in [("ffn_up", FEED_FORWARD), ("ffn_down", WIDTH)] {
            tensors.push(bias(&name(&format!("{part}.bias")), length));
        }
    }
    let path = folder.join("mmproj.gguf");
    std::fs::write(&path, file(&entries, &tensors)).expect("a file in it");
    path
}

/// Small numbers.
fn bias(name: &str, length: u64) -> Tensor {
    matrix(name, &[length], 0.1)
}
