//! Models that are damaged at random: the server refuses each or serves it, and lives.
//!
//! `GRAPHMILL_FUZZ_MODELS` is how many are made, `GRAPHMILL_FUZZ_SEED` what they are made from; the
//! same seed makes the same models.

use std::{env, fmt::Write as _, fs};

use graphmill_testkit::gguf::{Gguf, LIST, TEXT, Tensor, text};

use crate::models::server::{Graphs, tiny_model};

/// Models, unless the environment says otherwise: a few seconds.
const USUAL: u64 = 24;
/// Models of one server.
const BATCH: u64 = 48;

/// A stream of numbers that a seed determines (`SplitMix64`).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    fn one_of<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }
}

/// Numbers at the ends of what programs expect.
const EXTREMES: [u64; 16] = [
    0,
    1,
    2,
    3,
    7,
    31,
    255,
    1_024,
    65_535,
    100_000,
    1 << 20,
    1 << 30,
    (1 << 31) - 1,
    1 << 31,
    u32::MAX as u64,
    u64::MAX,
];
const REALS: [f32; 10] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    1e-38,
    1e38,
    f32::MAX,
    f32::NAN,
    f32::INFINITY,
    f32::NEG_INFINITY,
];
/// Keys that the model has not.
const OTHER_KEYS: [&str; 18] = [
    "llama.expert_count",
    "llama.expert_used_count",
    "llama.attention.sliding_window",
    "llama.attention.key_length",
    "llama.attention.value_length",
    "llama.rope.scaling.factor",
    "llama.rope.scaling.original_context_length",
    "llama.attention.causal",
    "llama.attention.scale",
    "llama.residual_scale",
    "llama.logit_scale",
    "llama.leading_dense_block_count",
    "llama.nextn_predict_layers",
    "llama.expert_feed_forward_length",
    "llama.pooling_type",
    "split.count",
    "split.no",
    "general.alignment",
];
/// Architectures of all kinds.
const ARCHITECTURES: [&str; 36] = [
    "falcon",
    "gpt2",
    "gptj",
    "gptneox",
    "mpt",
    "baichuan",
    "starcoder",
    "refact",
    "bert",
    "nomic-bert",
    "jina-bert-v2",
    "bloom",
    "stablelm",
    "qwen",
    "qwen2",
    "qwen2moe",
    "qwen3",
    "qwen3moe",
    "qwen3next",
    "phi2",
    "phi3",
    "plamo",
    "orion",
    "minicpm",
    "gemma",
    "gemma2",
    "gemma3",
    "gemma3n",
    "mamba",
    "mamba2",
    "command-r",
    "deepseek2",
    "t5",
    "rwkv6",
    "granite",
    "chatglm",
];
const TOKENIZERS: [&str; 8] = [
    "none", "llama", "bert", "gpt2", "t5", "rwkv", "plamo2", "no_vocab",
];

/// Bytes for a value of this type.
fn extreme(kind: u32, random: &mut Random) -> Vec<u8> {
    let whole = random.one_of(&EXTREMES).to_le_bytes();
    match kind {
        0 | 1 | 7 => whole[..1].to_vec(),
        2 | 3 => whole[..2].to_vec(),
        4 | 5 => whole[..4].to_vec(),
        6 => random.one_of(&REALS).to_le_bytes().to_vec(),
        12 => f64::from(random.one_of(&REALS)).to_le_bytes().to_vec(),
        TEXT => text(
            &random
                .one_of(&["", "x", "llama", "\u{0}\u{1f600}", "{{", "%n%s%n"])
                .repeat(1 + random.below(40)),
        ),
        LIST => {
            let mut value = (random.below(13) as u32).to_le_bytes().to_vec();
            value.extend(random.one_of(&EXTREMES).to_le_bytes());
            value
        }
        _ => whole.to_vec(),
    }
}

/// Changes a model; the key or the tensor with this number where there is one for each.
fn change(model: &mut Gguf, number: usize, random: &mut Random) -> String {
    // Each key once, then whatever comes.
    let kind = if number < model.entries.len() {
        0
    } else {
        random.below(14)
    };
    let at = if number < model.entries.len() {
        number
    } else {
        random.below(model.entries.len())
    };
    let name = model.entries[at].key.clone();
    match kind {
        0 => {
            let entry = &mut model.entries[at];
            entry.value = extreme(entry.kind, random);
            format!(
                "`{name}` is {:?}",
                &entry.value[..entry.value.len().min(20)]
            )
        }
        1 => {
            let entry = &mut model.entries[at];
            entry.kind = random.below(14) as u32;
            format!("`{name}` has type {}", entry.kind)
        }
        2 => {
            let entry = &mut model.entries[at];
            entry.kind = random.below(13) as u32;
            entry.value = extreme(entry.kind, random);
            format!(
                "`{name}` has type {} and {:?}",
                entry.kind,
                &entry.value[..entry.value.len().min(20)]
            )
        }
        3 => {
            model.remove(&name);
            format!("no `{name}`")
        }
        4 => {
            let key = random.one_of(&OTHER_KEYS);
            let kind = random.one_of(&[4, 4, 4, 2, 5, 6, 7]);
            let value = extreme(kind, random);
            model.set(key, kind, value.clone());
            format!("`{key}` is {value:?}")
        }
        5 => {
            // Tokens and merges in which some are gone, empty or much longer.
            let key = random.one_of(&["tokenizer.ggml.tokens", "tokenizer.ggml.merges"]);
            let mut texts = model.texts(key);
            for _ in 0..=random.below(200) {
                let at = random.below(texts.len());
                texts[at] = random
                    .one_of(&["", " ", "\u{fffd}", "a b c", "<0x0A>"])
                    .to_owned()
                    + &at.to_string();
            }
            texts.truncate(random.below(texts.len() * 2));
            model.set_texts(key, &texts);
            format!("{} of `{key}`", texts.len())
        }
        6 => {
            let architecture = random.one_of(&ARCHITECTURES);
            model.rename(architecture);
            format!("architecture `{architecture}`")
        }
        7 => {
            let tokenizer = random.one_of(&TOKENIZERS);
            model.set_text("tokenizer.ggml.model", tokenizer);
            format!("tokenizer `{tokenizer}`")
        }
        8 => {
            let count = Some(random.one_of(&EXTREMES));
            if random.below(2) == 0 {
                model.entry_count = count;
            } else {
                model.tensor_count = count;
            }
            format!(
                "counts {:?} and {:?}",
                model.entry_count, model.tensor_count
            )
        }
        9 => {
            // Weights of which some are no numbers.
            let at = random.below(model.data.len() - 4_096);
            let byte = random.one_of(&[0x00, 0x7f, 0xff]);
            model.data[at..at + 4_096].fill(byte);
            format!("weights at {at} are {byte}")
        }
        _ => change_tensor(model, random),
    }
}

fn change_tensor(model: &mut Gguf, random: &mut Random) -> String {
    let at = random.below(model.tensors.len());
    let tensor: &mut Tensor = &mut model.tensors[at];
    let name = tensor.name.clone();
    match random.below(6) {
        0 => {
            let dimension = random.below(tensor.dimensions.len());
            tensor.dimensions[dimension] = random.one_of(&EXTREMES);
            format!("`{name}` has shape {:?}", tensor.dimensions)
        }
        1 => {
            tensor.dimensions.push(random.one_of(&EXTREMES));
            format!("`{name}` has shape {:?}", tensor.dimensions)
        }
        2 => {
            tensor.kind = random.below(45) as u32;
            format!("`{name}` has type {}", tensor.kind)
        }
        3 => {
            tensor.offset = random.one_of(&EXTREMES);
            format!("`{name}` is at {}", tensor.offset)
        }
        4 => {
            let other = random.one_of(&["", "output.weight", "blk.99.x", "rope_freqs.weight"]);
            tensor.name = String::from(other);
            format!("`{name}` is `{}`", tensor.name)
        }
        _ => {
            model.tensors.remove(at);
            format!("no `{name}`")
        }
    }
}

/// A damaged model, and what is wrong with it.
fn damaged(model: &Gguf, number: u64, seed: u64) -> (Vec<u8>, String) {
    let mut random = Random(seed ^ number.wrapping_mul(0x2545_f491_4f6c_dd1d));
    let mut changed = model.clone();
    let mut what = change(&mut changed, number as usize, &mut random);
    if number as usize >= model.entries.len() && random.below(3) == 0 {
        what += " and ";
        what += &change(&mut changed, usize::MAX, &mut random);
    }
    let mut bytes = changed.bytes();
    let header = changed.header().len();
    match random.below(12) {
        0 if number as usize >= model.entries.len() => {
            let end = random.below(bytes.len());
            bytes.truncate(end);
            let _ = write!(what, ", cut at {end}");
        }
        1 if number as usize >= model.entries.len() => {
            for _ in 0..=random.below(8) {
                let at = random.below(header.min(bytes.len()));
                bytes[at] = random.next() as u8;
                let _ = write!(what, ", byte {at} is {}", bytes[at]);
            }
        }
        _ => {}
    }
    (bytes, what)
}

fn number(name: &str, usual: u64) -> u64 {
    let given = env::var(name).ok();
    given.map_or(usual, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("`{name}` is `{text}`, expected a number"))
    })
}

#[tokio::test]
async fn no_header_ends_the_server() {
    let good = tiny_model();
    let model = Gguf::parse(&good).expect("a model");
    let (count, seed) = (
        number("GRAPHMILL_FUZZ_MODELS", USUAL),
        number("GRAPHMILL_FUZZ_SEED", 1),
    );
    let from = number("GRAPHMILL_FUZZ_FROM", 0);
    let (mut refused, mut asked) = (0, 0);
    for first in (from..from + count).step_by(BATCH as usize) {
        let mut graphs = Graphs::new();
        fs::write(graphs.add("good", ""), &good).expect("writable");
        let mut made = Vec::new();
        for index in first..(first + BATCH).min(from + count) {
            let (bytes, what) = damaged(&model, index, seed);
            fs::write(graphs.add(&index.to_string(), ""), bytes).expect("writable");
            made.push(format!("{index}: {what}"));
        }
        eprintln!("seed {seed}\n{}", made.join("\n"));
        let mut served = graphs.serve(&[]);
        for (name, failure) in served.failures().await {
            if failure.is_some() {
                refused += 1;
            } else {
                asked += 1;
                eprintln!("asking {name}");
                served.ask(&name).await;
            }
        }
        let (status, body) = served.ask("good").await;
        assert_eq!(status, 200, "{body}");
        assert!(served.lives(), "{}", served.last_words());
    }
    eprintln!("{count} models: {refused} refused, {asked} served and asked");
}
