//! A small EAGLE3 model for those of `families` that can be drafted. It has neither embeddings of
//! tokens nor, with `Token`, a head of its own: they are those of the model it drafts for. With
//! `Hidden`, its head says by a list which tokens its rows are.

use std::fs;
use std::path::{Path, PathBuf};

use graphmill_testkit::gguf::{LIST, U32, list};
use graphmill_testkit::weights::{Fill, Weights, ones};

use crate::llama::families::{DraftsFrom, LAYERS_THAT_DRAFTS_PAY_FOR, WIDTH, vocabulary};

const HEADS: u64 = 4;
const HEAD: u64 = WIDTH / HEADS;
/// How much more a token attends to itself than to others.
const ATTENTION: f32 = 6.0;
/// A place that no vector has: a matrix of nothing.
const NOWHERE: u64 = 1 << 32;

/// What a test changes of the model.
pub(crate) struct Eagle3 {
    pub(crate) from: DraftsFrom,
    pub(crate) context_length: u32,
    pub(crate) target_width: u32,
    pub(crate) target_layers: [u32; 3],
}

impl Eagle3 {
    /// One that drafts for the model that [`Family::make_drafted`] writes.
    ///
    /// [`Family::make_drafted`]: crate::llama::families::Family::make_drafted
    pub(crate) fn new(from: DraftsFrom) -> Self {
        let last = LAYERS_THAT_DRAFTS_PAY_FOR as u32 - 1;
        Self {
            from,
            context_length: 1024,
            target_width: WIDTH as u32,
            target_layers: [1, last / 2, last],
        }
    }

    /// Writes it into `folder`.
    pub(crate) fn make(&self, folder: &Path) -> PathBuf {
        let mut file = vocabulary();
        file.set_text("general.architecture", "eagle3");
        for (name, number) in [
            ("context_length", self.context_length),
            ("embedding_length", WIDTH as u32),
            ("block_count", 1),
            ("feed_forward_length", WIDTH as u32),
            ("attention.head_count", HEADS as u32),
            ("attention.head_count_kv", HEADS as u32),
            ("rope.dimension_count", HEAD as u32),
            ("vocab_size", file.tokens() as u32),
            ("target_hidden_size", self.target_width),
        ] {
            file.set_u32(&format!("eagle3.{name}"), number);
        }
        file.set_f32("eagle3.attention.layer_norm_rms_epsilon", 1e-6);
        let layers = self.target_layers.map(u32::to_le_bytes);
        file.set("eagle3.target_layers", LIST, list(U32, &layers));
        file.add(&self.tensors());
        let path = folder.join("eagle3.gguf");
        fs::write(&path, file.bytes()).expect("writable");
        path
    }

    fn tensors(&self) -> Vec<Weights> {
        let part = |name: &str, shape: [u64; 2], from, scale| Weights {
            name: name.to_owned(),
            shape: shape.to_vec(),
            fill: Fill::Part(from, scale),
        };
        // The token comes first in what attention sees, and the hidden state behind it. What is
        // drafted from hidden states is what the layer in the middle has of them.
        let (token, middle, hidden) = match self.from {
            DraftsFrom::Token => (0, NOWHERE, None),
            DraftsFrom::Hidden => (NOWHERE, u64::from(self.target_width), Some(2)),
        };
        let square = [WIDTH, WIDTH];
        let double = [2 * WIDTH, WIDTH];
        let target = 3 * u64::from(self.target_width);
        let mut tensors = vec![
            ones("output_norm.weight", WIDTH),
            part("fc.weight", [target, WIDTH], middle, 1.0),
            ones("blk.0.attn_norm.weight", WIDTH),
            ones("blk.0.attn_norm_2.weight", WIDTH),
            ones("blk.0.ffn_norm.weight", WIDTH),
            part("blk.0.attn_q.weight", double, 0, ATTENTION),
            part("blk.0.attn_k.weight", double, 0, ATTENTION),
            part("blk.0.attn_v.weight", double, token, 1.0),
            part("blk.0.attn_output.weight", square, 0, 1.0),
            part("blk.0.ffn_gate.weight", square, NOWHERE, 1.0),
            part("blk.0.ffn_up.weight", square, NOWHERE, 1.0),
            part("blk.0.ffn_down.weight", square, NOWHERE, 1.0),
        ];
        if let Some(places) = hidden {
            let head = self.from.head("output.weight".to_owned(), places);
            tensors.push(Weights {
                name: "d2t".to_owned(),
                shape: vec![head.shape[1]],
                fill: Fill::Places,
            });
            tensors.push(head);
        }
        tensors
    }
}
