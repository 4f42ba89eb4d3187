//! Projectors with random weights.

use std::path::{Path, PathBuf};

use crate::gguf::{BOOL, F32, Gguf, LIST, list};
use crate::weights::{Weights, matrix, ones};

/// Positions that an image takes, unless they depend on its size: those of a square.
pub const POSITIONS: u64 = 16;
/// Positions that each half a minute of a sound takes.
pub const SOUND_POSITIONS: u64 = 15;
const WIDTH: u64 = 16;
const HEADS: u32 = 2;
const FEED_FORWARD: u64 = 24;
const LAYERS: u32 = 2;
/// Numbers that stand for the pitches of a sound at a moment.
const PITCHES: u64 = 16;
/// Moments of half a minute, after every other is left out.
const MOMENTS: u64 = 1500;

/// The numbers of an embedding of the model in this repository.
pub const MODEL_WIDTH: u64 = 192;

/// Media that a projector reads, and the form of its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A position for each patch of a square, as `LLaVA` has it.
    Square,
    /// A position for each four patches, in lines and columns, as many as the image has: as Qwen2-VL
    /// has it.
    Grid,
    /// A position for each four patches of a square, which see each other: as Gemma 3 has it.
    Ahead,
    /// Sound alone, as Ultravox reads it.
    Sound,
    /// Images as `Square` reads them, and sound.
    Both,
}

/// Name of the projector of sounds in libmtmd.
const SOUND: &str = "ultravox";

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Square | Self::Both => "mlp",
            Self::Grid => "qwen2vl_merger",
            Self::Ahead => "gemma3",
            Self::Sound => SOUND,
        }
    }

    fn reads_images(self) -> bool {
        self != Self::Sound
    }

    fn reads_sound(self) -> bool {
        matches!(self, Self::Sound | Self::Both)
    }

    /// Pixels of a side of a patch, and of an image.
    fn pixels(self) -> (u64, u64) {
        match self {
            Self::Square | Self::Both | Self::Sound => (8, 32),
            Self::Grid => (4, 64),
            Self::Ahead => (8, 64),
        }
    }

    /// Returns the weights that turn the encoder's output into embeddings of the model.
    fn merger(self, width: u64, size: f32) -> Vec<Weights> {
        match self {
            Self::Sound => Vec::new(),
            Self::Square | Self::Both => vec![
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
pub fn make(folder: &Path, kind: Kind, width: u64, size: f32) -> PathBuf {
    let mut file = Gguf::default();
    file.set_text("general.architecture", "clip");
    if kind == Kind::Both {
        file.set_text("clip.vision.projector_type", kind.name());
        file.set_text("clip.audio.projector_type", SOUND);
    } else {
        file.set_text("clip.projector_type", kind.name());
    }
    file.set("clip.use_gelu", BOOL, [1]);
    let mut tensors = Vec::new();
    if kind.reads_images() {
        images(&mut file, &mut tensors, kind, width, size);
    }
    if kind.reads_sound() {
        sounds(&mut file, &mut tensors, width, size);
    }
    let path = folder.join("mmproj.gguf");
    file.add(&tensors);
    std::fs::write(&path, file.bytes()).expect("a file in it");
    path
}

/// Adds the encoder of images.
fn images(file: &mut Gguf, tensors: &mut Vec<Weights>, kind: Kind, width: u64, size: f32) {
    let (of_patch, image) = kind.pixels();
    file.set("clip.has_vision_encoder", BOOL, [1]);
    let numbers = [
        ("image_size", image as u32),
        ("patch_size", of_patch as u32),
        ("projector.scale_factor", 2),
    ];
    encoder(file, "vision", width, &numbers);
    for name in ["image_mean", "image_std"] {
        let halves = list(F32, &[0.5_f32.to_le_bytes(); 3]);
        file.set(&format!("clip.vision.{name}"), LIST, halves);
    }
    tensors.extend(kind.merger(width, size));
    let pixels = [of_patch, of_patch, 3, WIDTH];
    tensors.push(matrix("v.patch_embd.weight", &pixels, 1.0));
    if kind == Kind::Grid {
        tensors.push(matrix("v.patch_embd.weight.1", &pixels, 1.0));
    } else {
        let patches = (image / of_patch).pow(2);
        tensors.push(matrix("v.position_embd.weight", &[WIDTH, patches], 1.0));
    }
    layers(tensors, "v", true);
}

/// Adds the encoder of sounds.
fn sounds(file: &mut Gguf, tensors: &mut Vec<Weights>, width: u64, size: f32) {
    let stacked = MOMENTS / SOUND_POSITIONS;
    file.set("clip.has_audio_encoder", BOOL, [1]);
    let numbers = [
        ("num_mel_bins", PITCHES as u32),
        ("projector.stack_factor", stacked as u32),
    ];
    encoder(file, "audio", width, &numbers);
    for (number, inputs) in [(1, PITCHES), (2, WIDTH)] {
        let name = |part: &str| format!("a.conv1d.{number}.{part}");
        tensors.push(matrix(&name("weight"), &[3, inputs, WIDTH], 1.0));
        tensors.push(matrix(&name("bias"), &[1, WIDTH], 0.1));
    }
    let positions = matrix("a.position_embd.weight", &[WIDTH, MOMENTS], 1.0);
    tensors.push(positions);
    layers(tensors, "a", false);
    tensors.push(ones("mm.a.norm_pre.weight", stacked * WIDTH));
    let gated = [stacked * WIDTH, 2 * WIDTH];
    tensors.push(matrix("mm.a.mlp.1.weight", &gated, 1.0));
    tensors.push(ones("mm.a.norm_mid.weight", WIDTH));
    tensors.push(matrix("mm.a.mlp.2.weight", &[WIDTH, width], size));
}

/// Sets the metadata of an encoder: those that all share, and `more`.
fn encoder(file: &mut Gguf, name: &str, width: u64, more: &[(&str, u32)]) {
    let common = [
        ("embedding_length", WIDTH as u32),
        ("feed_forward_length", FEED_FORWARD as u32),
        ("block_count", LAYERS),
        ("projection_dim", width as u32),
        ("attention.head_count", HEADS),
    ];
    for (key, number) in common.iter().chain(more) {
        file.set_u32(&format!("clip.{name}.{key}"), *number);
    }
    let epsilon = format!("clip.{name}.attention.layer_norm_epsilon");
    file.set_f32(&epsilon, 1e-5);
}

/// The layers of an encoder.
fn layers(tensors: &mut Vec<Weights>, prefix: &str, keys_have_bias: bool) {
    for layer in 0..LAYERS {
        let name = |part: &str| format!("{prefix}.blk.{layer}.{part}");
        for part in ["attn_q", "attn_k", "attn_v", "attn_out"] {
            tensors.push(matrix(
                &name(&format!("{part}.weight")),
                &[WIDTH, WIDTH],
                1.0,
            ));
            if keys_have_bias || part != "attn_k" {
                tensors.push(bias(&name(&format!("{part}.bias")), WIDTH));
            }
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
}

/// Describes a vector of small random numbers.
fn bias(name: &str, length: u64) -> Weights {
    matrix(name, &[length], 0.1)
}
