//! The shapes of models.

/// The number and sizes of a model's layers, and the size of its vocabulary.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Name on the command line and in file names.
    pub name: &'static str,
    pub(super) architecture: &'static str,
    pub(super) layers: u32,
    pub(super) width: u32,
    pub(super) feed_forward: u32,
    /// Feed-forward networks of a layer; 0 for one that all tokens take.
    pub(super) experts: u32,
    /// Number of experts that compute a token.
    pub(super) experts_of_a_token: u32,
    pub(super) heads: u32,
    pub(super) kv_heads: u32,
    pub(super) head_width: u32,
    pub(super) context: u32,
    pub(super) rope_base: f32,
    pub(super) epsilon: f32,
    pub(super) vocabulary: usize,
    /// The layers with attention, where the others have a short convolution, and so a state for each
    /// sequence; none where all have attention.
    pub(super) attention_layers: Option<&'static [u32]>,
    /// Gives the output weights of its own instead of those of the embedding.
    pub(super) own_output: bool,
}

const TINY: Shape = Shape {
    name: "tiny",
    architecture: "llama",
    layers: 4,
    width: 256,
    feed_forward: 768,
    experts: 0,
    experts_of_a_token: 0,
    heads: 4,
    kv_heads: 2,
    head_width: 64,
    context: 8192,
    rope_base: 1e4,
    epsilon: 1e-5,
    vocabulary: 32_000,
    attention_layers: None,
    own_output: true,
};

const QWEN: Shape = Shape {
    name: "0.5b",
    architecture: "qwen2",
    layers: 24,
    width: 896,
    feed_forward: 4864,
    heads: 14,
    context: 32_768,
    rope_base: 1e6,
    epsilon: 1e-6,
    vocabulary: 151_936,
    own_output: false,
    ..TINY
};

/// All shapes. `0.5b` and `1.5b` are those of Qwen2.5. `hybrid` is that of LFM2 with 350 million
/// weights: six of its layers have attention, ten a short convolution. `moe` has 64 small experts
/// in each of twelve layers, of which eight compute a token.
pub const SHAPES: [Shape; 6] = [
    TINY,
    Shape {
        name: "tiny-moe",
        experts: 4,
        experts_of_a_token: 2,
        ..TINY
    },
    Shape {
        name: "moe",
        layers: 12,
        width: 1024,
        feed_forward: 512,
        experts: 64,
        experts_of_a_token: 8,
        heads: 16,
        kv_heads: 4,
        context: 32_768,
        own_output: false,
        ..TINY
    },
    QWEN,
    Shape {
        name: "1.5b",
        layers: 28,
        width: 1536,
        feed_forward: 8960,
        heads: 12,
        head_width: 128,
        ..QWEN
    },
    Shape {
        name: "hybrid",
        architecture: "lfm2",
        layers: 16,
        width: 1024,
        feed_forward: 4608,
        heads: 16,
        kv_heads: 8,
        context: 32_768,
        rope_base: 1e6,
        vocabulary: 65_536,
        attention_layers: Some(&[2, 5, 8, 10, 12, 14]),
        own_output: false,
        ..TINY
    },
];

impl Shape {
    /// Returns `true` if the layer has attention.
    pub(super) fn has_attention(&self, layer: u32) -> bool {
        self.attention_layers
            .is_none_or(|layers| layers.contains(&layer))
    }
}
