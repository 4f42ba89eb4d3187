//! Models with the shapes of real ones and random weights: they have the same cost, but their text
//! makes no sense.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    thread::available_parallelism,
};

mod shapes;
mod vocab;

pub use shapes::{SHAPES, Shape};

use graphmill_llm::weights::{self, Quantizing, TYPES};
use graphmill_testkit::gguf::{ALIGNMENT, Gguf, I32, LIST, Tensor, list};

use crate::load::{random::Random, words::WORDS};

/// ggml's numbers of the types that are written: 32-bit floats, and their upper halves.
const F32: u32 = 0;
const BF16: u32 = 30;
/// Number of BF16 in `general.file_type`.
const BF16_FILE: u32 = 32;

/// The deviation of logits: high enough that a few tokens stand out.
const LOGIT_DEVIATION: f32 = 3.0;
const CHAT_TEMPLATE: &str = "tokenizer.chat_template";
/// A template that leaves messages as they are. Replies of these models begin with a space; a
/// template that takes it away makes other tokens of them, which a server has to compute again.
const CHATML: &str = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}{% endfor %}\
    {% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
/// Factor on the embeddings of the tokens that the model is not to generate.
const SILENT: f32 = 0.1;
/// Number of tokens that a short convolution sees.
const CONVOLVED: u32 = 3;
/// Number of different tokens that a looping model generates.
const LOOP_TOKENS: usize = 64;
/// Description of a model that can be made.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// Shape of its layers and its vocabulary.
    pub shape: Shape,
    /// The types of its matrices, by a name in [`TYPES`].
    pub kind: &'static str,
    /// Makes its greedy text run in a short circle, for drafts from the text itself. It computes as
    /// much as otherwise.
    pub loops: bool,
    /// Seed of its random weights.
    pub seed: u64,
}

impl Recipe {
    /// Returns the name of the model's file.
    pub fn file_name(&self) -> String {
        let kind = self.kind.to_lowercase();
        let loops = if self.loops { "-loops" } else { "" };
        format!("{}-{kind}{loops}-{}.gguf", self.shape.name, self.seed)
    }

    /// Makes the model in `folder` unless it is there, with the vocabulary of the GGUF file
    /// `vocabulary`.
    ///
    /// # Errors
    ///
    /// If the vocabulary cannot be read or extended, or the model cannot be written.
    pub fn make(&self, folder: &Path, vocabulary: &Path) -> io::Result<PathBuf> {
        let path = folder.join(self.file_name());
        if path.exists() {
            return Ok(path);
        }
        let number = TYPES.iter().find(|(name, _)| *name == self.kind);
        let (_, number) = number.ok_or_else(|| io::Error::other("there is no such type"))?;
        fs::create_dir_all(folder)?;
        let exact = path.with_extension("exact");
        self.write(&exact, vocabulary)?;
        // Under its own name only when it is complete.
        let unfinished = path.with_extension("unfinished");
        let quantizing = Quantizing {
            number: *number,
            threads: available_parallelism()?.get() as u32,
            again: false,
        };
        weights::quantize(&exact, &unfinished, &quantizing).map_err(io::Error::other)?;
        fs::remove_file(exact)?;
        fs::rename(&unfinished, &path)?;
        Ok(path)
    }

    fn write(&self, path: &Path, vocabulary: &Path) -> io::Result<()> {
        let mut file = Gguf::parse(&fs::read(vocabulary)?)?;
        file.keep_vocabulary();
        file.set_text(CHAT_TEMPLATE, CHATML);
        let silent = vocab::extend(&mut file, self.shape.vocabulary, &WORDS, self.seed)?;
        self.describe(&mut file);
        let plan = self.tensors();
        let mut offset = 0;
        for planned in &plan {
            file.tensors.push(Tensor {
                name: planned.name.clone(),
                dimensions: planned.shape.clone(),
                kind: planned.kind,
                offset,
            });
            offset += planned.bytes().next_multiple_of(ALIGNMENT as u64);
        }
        let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
        out.write_all(&file.header())?;
        for planned in &plan {
            self.fill(planned, silent, &mut out)?;
            let bytes = planned.bytes() as usize;
            let missing = bytes.next_multiple_of(ALIGNMENT) - bytes;
            out.write_all(&[0; ALIGNMENT][..missing])?;
        }
        out.flush()
    }

    /// Says in a file what the model is.
    fn describe(&self, file: &mut Gguf) {
        let shape = &self.shape;
        let architecture = shape.architecture;
        let name = format!("random-{}", self.file_name().trim_end_matches(".gguf"));
        file.set_text("general.architecture", architecture);
        file.set_text("general.name", &name);
        file.set_u32("general.file_type", BF16_FILE);
        let mut numbers = vec![
            ("context_length", shape.context),
            ("embedding_length", shape.width),
            ("block_count", shape.layers),
            ("feed_forward_length", shape.feed_forward),
            ("attention.head_count", shape.heads),
            ("rope.dimension_count", shape.head_width),
            ("vocab_size", shape.vocabulary as u32),
        ];
        if shape.experts > 0 {
            numbers.push(("expert_count", shape.experts));
            numbers.push(("expert_used_count", shape.experts_of_a_token));
        }
        if shape.attention_layers.is_some() {
            numbers.push(("shortconv.l_cache", CONVOLVED));
        }
        for (name, number) in numbers {
            file.set_u32(&format!("{architecture}.{name}"), number);
        }
        let kv_heads = format!("{architecture}.attention.head_count_kv");
        if shape.attention_layers.is_none() {
            file.set_u32(&kv_heads, shape.kv_heads);
        } else {
            let heads = |layer| u32::from(shape.has_attention(layer)) * shape.kv_heads;
            let heads = (0..shape.layers).map(|layer| heads(layer).to_le_bytes());
            file.set(&kv_heads, LIST, list(I32, &heads.collect::<Vec<_>>()));
        }
        let epsilon = format!("{architecture}.attention.layer_norm_rms_epsilon");
        file.set_f32(&epsilon, shape.epsilon);
        file.set_f32(&format!("{architecture}.rope.freq_base"), shape.rope_base);
    }

    fn tensors(&self) -> Vec<TensorPlan> {
        let shape = &self.shape;
        let (width, feed_forward) = (u64::from(shape.width), u64::from(shape.feed_forward));
        let query = u64::from(shape.heads * shape.head_width);
        let key = u64::from(shape.kv_heads * shape.head_width);
        let rows = shape.vocabulary as u64;
        let scaled = |gain: f32, from: u64| Fill::Random(gain / (from as f32).sqrt());
        let matrix = |name: String, from: u64, to: u64, gain: f32| {
            TensorPlan::new(name, &[from, to], BF16, scaled(gain, from))
        };
        let vector = |name, length, fill| TensorPlan::new(name, &[length], F32, fill);
        let embedding = |name: &str| {
            let fill = Fill::Embedding(LOGIT_DEVIATION / (width as f32).sqrt());
            TensorPlan::new(name.to_owned(), &[width, rows], BF16, fill)
        };
        let mut tensors = vec![embedding("token_embd.weight")];
        for layer in 0..shape.layers {
            let name = |part: &str| format!("blk.{layer}.{part}");
            // Without attention the next token follows from the last one alone, so the text soon
            // repeats itself.
            let attention = if self.loops { 0.0 } else { 1.0 };
            tensors.push(vector(name("attn_norm.weight"), width, Fill::Ones));
            if shape.has_attention(layer) {
                tensors.extend([
                    matrix(name("attn_q.weight"), width, query, 1.0),
                    matrix(name("attn_k.weight"), width, key, 1.0),
                    matrix(name("attn_v.weight"), width, key, 1.0),
                    matrix(name("attn_output.weight"), query, width, attention),
                ]);
            } else {
                let (from, to) = ("shortconv.in_proj.weight", "shortconv.out_proj.weight");
                let (kernel, shape) = ("shortconv.conv.weight", [u64::from(CONVOLVED), width]);
                tensors.extend([
                    matrix(name(from), width, 3 * width, 1.0),
                    TensorPlan::new(name(kernel), &shape, F32, Fill::Random(1.0)),
                    matrix(name(to), width, width, attention),
                ]);
            }
            if shape.attention_layers.is_some() && shape.has_attention(layer) {
                let head = u64::from(shape.head_width);
                tensors.extend([
                    vector(name("attn_q_norm.weight"), head, Fill::Ones),
                    vector(name("attn_k_norm.weight"), head, Fill::Ones),
                ]);
            }
            tensors.push(vector(name("ffn_norm.weight"), width, Fill::Ones));
            let networks = [
                ("gate", width, feed_forward, 1.0),
                ("up", width, feed_forward, 1.0),
                ("down", feed_forward, width, 2.0),
            ];
            tensors.extend(networks.map(|(part, from, to, gain)| {
                let one = matrix(name(&format!("ffn_{part}.weight")), from, to, gain);
                if shape.experts == 0 {
                    return one;
                }
                TensorPlan {
                    name: name(&format!("ffn_{part}_exps.weight")),
                    shape: vec![from, to, u64::from(shape.experts)],
                    ..one
                }
            }));
            if shape.experts > 0 {
                let gate = [width, u64::from(shape.experts)];
                let name = name("ffn_gate_inp.weight");
                tensors.push(TensorPlan::new(name, &gate, F32, scaled(1.0, width)));
            }
            if shape.architecture == "qwen2" {
                let bias = Fill::Random(0.1);
                tensors.extend([
                    vector(name("attn_q.bias"), query, bias),
                    vector(name("attn_k.bias"), key, bias),
                    vector(name("attn_v.bias"), key, bias),
                ]);
            }
        }
        let last = match shape.attention_layers {
            Some(_) => "token_embd_norm.weight",
            None => "output_norm.weight",
        };
        tensors.push(vector(last.to_owned(), width, Fill::Ones));
        if shape.own_output {
            tensors.push(embedding("output.weight"));
        }
        tensors
    }

    /// Writes a tensor. The first `silent` tokens are those that the model reads but does not
    /// generate.
    fn fill(&self, planned: &TensorPlan, silent: usize, out: &mut impl Write) -> io::Result<()> {
        let mut random = Random::named(self.seed, &planned.name);
        let count: u64 = planned.shape.iter().product();
        let mut numbers = |count: u64, deviation: Option<f32>| {
            (0..count).try_for_each(|_| {
                let number = deviation.map_or(1.0, |deviation| deviation * random.weight());
                // The upper half of a 32-bit float is a 16-bit one.
                let skipped = if planned.kind == F32 { 0 } else { 2 };
                out.write_all(&number.to_le_bytes()[skipped..])
            })
        };
        match planned.fill {
            Fill::Ones => numbers(count, None),
            Fill::Random(deviation) => numbers(count, Some(deviation)),
            Fill::Embedding(deviation) => {
                let spoken = self.shape.vocabulary - silent;
                let most = if self.loops { LOOP_TOKENS } else { spoken };
                let loud = spoken.min(most);
                let mut rows = |count: usize, deviation| {
                    numbers(planned.shape[0] * count as u64, Some(deviation))
                };
                rows(silent, SILENT * deviation)?;
                rows(loud, deviation)?;
                rows(spoken - loud, SILENT * deviation)
            }
        }
    }
}

/// A tensor that is going to be written.
struct TensorPlan {
    name: String,
    shape: Vec<u64>,
    kind: u32,
    fill: Fill,
}

/// Numbers that a tensor is filled with.
#[derive(Clone, Copy)]
enum Fill {
    Ones,
    /// Random numbers of a deviation.
    Random(f32),
    /// Random rows of a deviation, weaker for tokens that the model is not to generate.
    Embedding(f32),
}

impl TensorPlan {
    fn new(name: String, shape: &[u64], kind: u32, fill: Fill) -> Self {
        let shape = shape.to_vec();
        Self {
            name,
            shape,
            kind,
            fill,
        }
    }

    fn bytes(&self) -> u64 {
        self.shape.iter().product::<u64>() * if self.kind == F32 { 4 } else { 2 }
    }
}
