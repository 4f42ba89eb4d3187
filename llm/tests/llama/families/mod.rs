//! Small models of several families, with random weights and the vocabulary of the model in this
//! repository.

use std::fs;
use std::path::{Path, PathBuf};

use graphmill_llm::KvType;
use graphmill_testkit::gguf::{BOOL, Gguf, LIST, U32, list};
use graphmill_testkit::weights::{EMBEDDINGS, Fill, Weights, matrix, ones};

mod parts;

use parts::{
    Part, compressed_attention, delta_net, experts, hyper_connection, latent_attention, recurrent,
};

use crate::llama::support::model;

pub(crate) const WIDTH: u64 = 64;
const HEAD: u64 = 16;
const HEADS: u64 = 4;
const KV_HEADS: u64 = 2;
const FEED_FORWARD: u64 = 96;
const LAYERS: u64 = 4;
/// How much larger than what a layer adds the embedding of a token is, in models that draft.
const LAST_TOKEN: f32 = 60.0;
pub(crate) const LAYERS_THAT_DRAFTS_PAY_FOR: u64 = 24;
/// Numbers of the latent vector that a cell of [`Family::Indexed`] has.
const LATENT: u64 = 32;
/// Numbers of a key that depend on its position there.
const TURNED: u64 = 8;
/// With few heads, many cells would have the same score, 0.
const INDEXER_HEADS: u64 = 16;
const INDEXER_KEY: u64 = 64;
const EXPERTS: u64 = 4;
const EXPERT_WIDTH: u64 = 32;
/// Hidden states that layers of [`Family::Compressed`] have of a token.
const STREAMS: u64 = 4;
/// Tokens of one of its cells, in each layer; 0: it has none but those of a window.
const COMPRESSED: [u32; LAYERS as usize] = [0, 4, 0, 4];
/// Tokens that a sliding window sees.
pub(crate) const WINDOW: u32 = 24;

/// A family of models, by what it keeps of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// A cell for each token in every other layer, the cells of a window in the others.
    Window,
    /// A cell with the positions of images in every layer.
    Image,
    /// Two cells in every layer: a key that is also the value, and the key of an indexer, which
    /// chooses the cells that are looked at.
    Indexed,
    /// The cells of a window in every layer, and a cell for every four tokens in every other one.
    Compressed,
    /// A cell for each token in every other layer, the last tokens in the others.
    Hybrid,
    /// A cell with the positions of images in every other layer, a matrix in the others.
    ImageHybrid,
    /// A matrix in every layer.
    Recurrent,
}

/// Returns a file of nothing but the vocabulary of the repository's model.
pub(crate) fn vocabulary() -> Gguf {
    let mut file = Gguf::parse(&fs::read(model()).expect("readable")).expect("a model");
    file.keep_vocabulary();
    file
}

impl Family {
    /// Those that go on from checkpoints.
    pub(crate) const ALL: [Self; 5] = [
        Self::Window,
        Self::Compressed,
        Self::Hybrid,
        Self::ImageHybrid,
        Self::Recurrent,
    ];

    /// Whether its sequences can give up their last tokens, as drafts need it.
    pub(crate) fn goes_back(self) -> bool {
        self != Self::Recurrent
    }

    /// The type of its cells. A key that is rounded otherwise in another batch makes an indexer choose
    /// other cells.
    pub(crate) fn kv_type(self) -> KvType {
        match self {
            Self::Indexed | Self::Compressed => KvType::F32,
            _ => KvType::F16,
        }
    }

    fn architecture(self) -> &'static str {
        match self {
            Self::Window => "gemma3",
            Self::Image => "qwen2vl",
            Self::Indexed => "deepseek32",
            Self::Compressed => "deepseek4",
            Self::Hybrid => "lfm2",
            Self::ImageHybrid => "qwen35",
            Self::Recurrent => "mamba",
        }
    }

    /// Writes a model of the family into `folder`.
    pub(crate) fn make(self, folder: &Path) -> PathBuf {
        self.make_with(folder, LAYERS, None)
    }

    /// Writes a model whose tokens can be drafted from this, with so many layers that it pays. With
    /// `mtp`, it has a layer that drafts.
    pub(crate) fn make_drafted(folder: &Path, from: DraftsFrom, mtp: bool) -> PathBuf {
        let layers = LAYERS_THAT_DRAFTS_PAY_FOR;
        Self::ImageHybrid.make_with(folder, layers, Some((from, mtp)))
    }

    fn make_with(self, folder: &Path, layers: u64, drafts: Option<(DraftsFrom, bool)>) -> PathBuf {
        let mtp = drafts.and_then(|(from, mtp)| mtp.then_some(from));
        let mtp_layers = u64::from(mtp.is_some());
        let mut file = vocabulary();
        let tokens = [WIDTH, file.tokens()];
        let mut tensors = vec![ones(self.output_norm(), WIDTH)];
        // So that texts of the family go around in circles.
        let mut size = if self == Self::Compressed { 12.0 } else { 3.0 };
        if let Some((from, mtp)) = drafts {
            size = LAST_TOKEN * (WIDTH as f32).sqrt();
            tensors.push(from.head("output.weight".to_owned(), 1));
            if mtp && from == DraftsFrom::Hidden {
                let own = format!("blk.{layers}.nextn.shared_head_head.weight");
                tensors.push(from.head(own, 2));
            }
        }
        tensors.push(matrix(EMBEDDINGS, &tokens, size));
        let architecture = self.architecture();
        file.set_text("general.architecture", architecture);
        let [key, value, turned] = match self {
            Self::Indexed => [LATENT + TURNED, LATENT, TURNED],
            Self::Compressed => [LATENT, LATENT, TURNED],
            _ => [HEAD; 3],
        };
        let common = [
            ("context_length", 1024),
            ("embedding_length", WIDTH as u32),
            ("block_count", (layers + mtp_layers) as u32),
            ("nextn_predict_layers", mtp_layers as u32),
            ("feed_forward_length", FEED_FORWARD as u32),
            ("attention.head_count", HEADS as u32),
            ("attention.key_length", key as u32),
            ("attention.value_length", value as u32),
            ("rope.dimension_count", turned as u32),
            ("vocab_size", file.tokens() as u32),
        ];
        for (name, number) in common.iter().chain(self.numbers()) {
            file.set_u32(&format!("{architecture}.{name}"), *number);
        }
        for (name, numbers) in self.lists() {
            let numbers: Vec<_> = numbers.iter().map(|number| number.to_le_bytes()).collect();
            let name = format!("{architecture}.{name}");
            file.set(&name, LIST, list(U32, &numbers));
        }
        for (name, number) in self.floats() {
            file.set_f32(&format!("{architecture}.{name}"), number);
        }
        if self == Self::Compressed {
            let name = format!("{architecture}.expert_weights_norm");
            file.set(&name, BOOL, [1]);
            tensors.extend([
                matrix("output.weight", &tokens, 3.0),
                matrix("output_hc_fn.weight", &[STREAMS * WIDTH, STREAMS], 1.0),
                ones("output_hc_base.weight", STREAMS),
                ones("output_hc_scale.weight", 1),
            ]);
        }
        for layer in 0..layers + mtp_layers {
            let mut parts = self.layer(layer);
            if layer == layers
                && let Some(mtp) = mtp
            {
                // It attends.
                parts = self.layer(1);
                parts.extend(mtp.parts());
            }
            for (part, shape, fill) in parts {
                tensors.push(Weights {
                    name: format!("blk.{layer}.{part}"),
                    shape,
                    fill,
                });
            }
        }
        let path = folder.join(format!("{architecture}.gguf"));
        file.add(&tensors);
        fs::write(&path, file.bytes()).expect("writable");
        path
    }

    fn output_norm(self) -> &'static str {
        match self {
            Self::Hybrid => "token_embd_norm.weight",
            _ => "output_norm.weight",
        }
    }

    fn numbers(self) -> &'static [(&'static str, u32)] {
        match self {
            Self::Window => &[
                ("attention.head_count_kv", KV_HEADS as u32),
                ("attention.sliding_window", WINDOW),
                ("attention.sliding_window_pattern", 2),
            ],
            Self::Image => &[("attention.head_count_kv", KV_HEADS as u32)],
            Self::Indexed => &[
                ("leading_dense_block_count", LAYERS as u32),
                ("expert_count", EXPERTS as u32),
                ("expert_used_count", 2),
                ("expert_feed_forward_length", EXPERT_WIDTH as u32),
                ("expert_shared_count", 1),
                ("expert_gating_func", 2),
                ("attention.head_count_kv", 1),
                ("attention.q_lora_rank", LATENT as u32),
                ("attention.kv_lora_rank", LATENT as u32),
                ("attention.key_length_mla", (HEAD + TURNED) as u32),
                ("attention.value_length_mla", HEAD as u32),
                ("attention.indexer.head_count", INDEXER_HEADS as u32),
                ("attention.indexer.key_length", INDEXER_KEY as u32),
                // So many that one cell for another changes little: of two with nearly equal scores,
                // the order in which floats are added decides.
                ("attention.indexer.top_k", 64),
            ],
            Self::Compressed => &[
                ("attention.sliding_window", WINDOW),
                ("attention.head_count_kv", 1),
                ("attention.q_lora_rank", LATENT as u32),
                ("attention.output_group_count", 2),
                ("attention.output_lora_rank", LATENT as u32),
                ("attention.indexer.head_count", INDEXER_HEADS as u32),
                ("attention.indexer.key_length", INDEXER_KEY as u32),
                // All cells: a choice of some would jump with the last bit of a number.
                ("attention.indexer.top_k", 1024),
                ("hyper_connection.count", STREAMS as u32),
                ("hyper_connection.sinkhorn_iterations", 2),
                ("hash_layer_count", 0),
                ("expert_count", EXPERTS as u32),
                // All, as above.
                ("expert_used_count", EXPERTS as u32),
                ("expert_feed_forward_length", EXPERT_WIDTH as u32),
                ("expert_shared_count", 1),
                ("expert_gating_func", 4),
            ],
            Self::Hybrid => &[("shortconv.l_cache", 3)],
            Self::ImageHybrid => &[
                ("attention.head_count_kv", KV_HEADS as u32),
                ("full_attention_interval", 2),
                ("ssm.conv_kernel", 4),
                ("ssm.state_size", 16),
                ("ssm.group_count", 2),
                ("ssm.time_step_rank", 4),
                ("ssm.inner_size", 64),
            ],
            Self::Recurrent => &[
                ("ssm.conv_kernel", 4),
                ("ssm.state_size", 8),
                ("ssm.time_step_rank", 4),
                ("ssm.inner_size", 2 * WIDTH as u32),
            ],
        }
    }

    fn floats(self) -> Vec<(&'static str, f32)> {
        let mut floats = vec![("attention.layer_norm_rms_epsilon", 1e-6)];
        if self == Self::Compressed {
            floats.extend([
                ("hyper_connection.epsilon", 1e-6),
                ("attention.compress_rope_freq_base", 10_000.0),
                ("expert_weights_scale", 1.0),
                ("swiglu_clamp_exp", 7.0),
            ]);
        }
        floats
    }

    fn lists(self) -> &'static [(&'static str, &'static [u32])] {
        match self {
            Self::Hybrid => &[("attention.head_count_kv", &[0, 2, 0, 2])],
            Self::Image | Self::ImageHybrid => &[("rope.dimension_sections", &[2, 3, 3, 0])],
            Self::Compressed => &[("attention.compress_ratios", &COMPRESSED)],
            Self::Window | Self::Indexed | Self::Recurrent => &[],
        }
    }

    fn layer(self, layer: u64) -> Vec<Part> {
        let attends = layer % 2 == 1;
        let mut parts = vec![("attn_norm.weight", vec![WIDTH], Fill::Ones)];
        if self == Self::Recurrent {
            parts.extend(recurrent());
            return parts;
        }
        if self == Self::Compressed {
            let ratio = COMPRESSED[layer as usize];
            parts.extend(compressed_attention(ratio.into()));
            parts.extend(hyper_connection(STREAMS));
            parts.extend(experts());
            return parts;
        }
        let queries = HEADS * HEAD;
        let keys = KV_HEADS * HEAD;
        let attention = |gates| {
            [
                ("attn_q.weight", vec![WIDTH, queries * gates], Fill::Matrix),
                ("attn_k.weight", vec![WIDTH, keys], Fill::Matrix),
                ("attn_v.weight", vec![WIDTH, keys], Fill::Matrix),
                ("attn_output.weight", vec![queries, WIDTH], Fill::Matrix),
                ("attn_q_norm.weight", vec![HEAD], Fill::Ones),
                ("attn_k_norm.weight", vec![HEAD], Fill::Ones),
            ]
        };
        let after = ("post_attention_norm.weight", vec![WIDTH], Fill::Ones);
        match self {
            Self::Window => {
                parts.extend(attention(1));
                parts.extend([after, ("post_ffw_norm.weight", vec![WIDTH], Fill::Ones)]);
            }
            Self::Image => parts.extend(attention(1).into_iter().take(4)),
            Self::Indexed => parts.extend(latent_attention()),
            Self::Hybrid if attends => parts.extend(attention(1)),
            Self::ImageHybrid if attends => {
                parts.extend(attention(2));
                parts.push(after);
            }
            Self::Hybrid => parts.extend([
                ("shortconv.conv.weight", vec![3, WIDTH], Fill::Matrix),
                (
                    "shortconv.in_proj.weight",
                    vec![WIDTH, 3 * WIDTH],
                    Fill::Matrix,
                ),
                (
                    "shortconv.out_proj.weight",
                    vec![WIDTH, WIDTH],
                    Fill::Matrix,
                ),
            ]),
            Self::ImageHybrid => {
                parts.extend(delta_net());
                parts.push(after);
            }
            Self::Compressed | Self::Recurrent => {}
        }
        if self != Self::ImageHybrid {
            parts.push(("ffn_norm.weight", vec![WIDTH], Fill::Ones));
        }
        parts.extend([
            ("ffn_gate.weight", vec![WIDTH, FEED_FORWARD], Fill::Matrix),
            ("ffn_up.weight", vec![WIDTH, FEED_FORWARD], Fill::Matrix),
            ("ffn_down.weight", vec![FEED_FORWARD, WIDTH], Fill::Matrix),
        ]);
        parts
    }
}

/// What tokens can be drafted from. What comes next depends more on the last token than on those
/// before it, so that drafts are often right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DraftsFrom {
    /// The token.
    Token,
    /// The hidden state before it, which says what the token was before. Tokens follow each other
    /// as in the vocabulary.
    Hidden,
}

impl DraftsFrom {
    /// What makes logits. With `Hidden`, those of a token are the embedding of the one that is so many
    /// `places` before it.
    pub(crate) fn head(self, name: String, places: u64) -> Weights {
        let deviation = 3.0 / (WIDTH as f32).sqrt();
        Weights {
            name,
            shape: vec![WIDTH, vocabulary().tokens()],
            fill: match self {
                Self::Token => Fill::Random(deviation),
                Self::Hidden => Fill::Earlier(places, deviation),
            },
        }
    }

    /// What an MTP layer has beside the parts of one that attends.
    fn parts(self) -> [Part; 3] {
        // The token is first, and the hidden state behind it.
        let from = if self == Self::Token { 0 } else { WIDTH };
        [
            (
                "nextn.eh_proj.weight",
                vec![2 * WIDTH, WIDTH],
                Fill::Part(from, LAST_TOKEN),
            ),
            ("nextn.enorm.weight", vec![WIDTH], Fill::Ones),
            ("nextn.hnorm.weight", vec![WIDTH], Fill::Ones),
        ]
    }
}
