//! Models that somebody damaged, each in one way.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use graphmill_testkit::gguf::{F32, Gguf, I32, LIST, TEXT, U32, U64, list, text};

use crate::models::server::{Graphs, tiny_model};
use crate::serving::CHAT;

/// What is to become of a model.
enum Fate {
    /// It is refused, with these words.
    Refused(&'static str),
    /// It is served or refused; the server lives in either case.
    Any,
}

use Fate::{Any, Refused};

type Change = fn(&mut Gguf);
type Make = fn(&Path, &Gguf);

/// Changes of a good file.
const CHANGES: &[(&str, Fate, Change)] = &[
    ("no layers", Refused("block_count` is 0"), |m| {
        m.set_u32("llama.block_count", 0);
    }),
    ("too many layers", Refused("block_count` is 100000"), |m| {
        m.set_u32("llama.block_count", 100_000);
    }),
    ("more layers than it has", Refused("not found"), |m| {
        m.set_u32("llama.block_count", 7);
    }),
    ("layers as a text", Refused("block_count"), |m| {
        m.set_text("llama.block_count", "six");
    }),
    ("layers are negative", Refused("block_count"), |m| {
        m.set("llama.block_count", I32, (-1_i32).to_le_bytes());
    }),
    ("equal tokens", Refused("twice"), |m| {
        let mut tokens = m.texts("tokenizer.ggml.tokens");
        let again = tokens[8].clone();
        tokens[7] = again;
        m.set_texts("tokenizer.ggml.tokens", &tokens);
    }),
    (
        "too many experts",
        Refused("expert_count` is 100000"),
        |m| m.set_u32("llama.expert_count", 100_000),
    ),
    (
        "experts in use alone",
        Refused("expert_used_count` is 2"),
        |m| m.set_u32("llama.expert_used_count", 2),
    ),
    (
        "more experts in use than there are",
        Refused("expert_used_count` is 9"),
        |m| {
            m.set_u32("llama.expert_count", 8);
            m.set_u32("llama.expert_used_count", 9);
        },
    ),
    (
        "experts that are not in the file",
        Refused("not found"),
        |m| {
            m.set_u32("llama.expert_count", 8);
            m.set_u32("llama.expert_used_count", 2);
        },
    ),
    (
        "unknown scaling",
        Refused("rope.scaling.type` is `sideways`"),
        |m| m.set_text("llama.rope.scaling.type", "sideways"),
    ),
    (
        "NaN epsilon",
        Refused("layer_norm_rms_epsilon` is NaN"),
        |m| m.set_f32("llama.attention.layer_norm_rms_epsilon", f32::NAN),
    ),
    ("negative epsilon", Refused(""), |m| {
        m.set_f32("llama.attention.layer_norm_rms_epsilon", -1.0);
    }),
    ("infinite epsilon", Refused("is inf"), |m| {
        m.set_f32("llama.attention.layer_norm_rms_epsilon", f32::INFINITY);
    }),
    ("vocabulary of another size", Any, |m| {
        m.set_u32("llama.vocab_size", 7);
    }),
    ("few token types", Refused("toktypes"), |m| {
        m.set(
            "tokenizer.ggml.token_type",
            LIST,
            list(I32, &[1_i32.to_le_bytes()]),
        );
    }),
    ("scores are NaN", Refused("has NaN at 0"), |m| {
        m.set(
            "tokenizer.ggml.scores",
            LIST,
            list(F32, &[f32::NAN.to_le_bytes(); 2048]),
        );
    }),
    ("few scores", Refused("scores"), |m| {
        m.set(
            "tokenizer.ggml.scores",
            LIST,
            list(F32, &[1_f32.to_le_bytes()]),
        );
    }),
    ("begin token out of range", Any, |m| {
        m.set_u32("tokenizer.ggml.bos_token_id", 1 << 30);
    }),
    ("end token out of range", Any, |m| {
        m.set_u32("tokenizer.ggml.eos_token_id", u32::MAX);
    }),
    ("no context", Refused("context_length` is 0"), |m| {
        m.set_u32("llama.context_length", 0);
    }),
    (
        "endless context",
        Refused("context_length` is 4294967295"),
        |m| m.set_u32("llama.context_length", u32::MAX),
    ),
    ("context beyond 32 bits", Refused("context_length"), |m| {
        m.set("llama.context_length", U64, (1_u64 << 32).to_le_bytes());
    }),
    ("no width", Refused("embedding_length` is 0"), |m| {
        m.set_u32("llama.embedding_length", 0);
    }),
    ("width that heads do not divide", Refused(""), |m| {
        m.set_u32("llama.embedding_length", 191);
    }),
    ("huge width", Refused("embedding_length"), |m| {
        m.set_u32("llama.embedding_length", u32::MAX);
    }),
    ("no heads", Refused(""), |m| {
        m.set_u32("llama.attention.head_count", 0);
    }),
    ("heads that do not divide", Refused(""), |m| {
        m.set_u32("llama.attention.head_count", 7);
    }),
    ("no key heads", Refused(""), |m| {
        m.set_u32("llama.attention.head_count_kv", 0);
    }),
    ("more key heads than heads", Refused(""), |m| {
        m.set_u32("llama.attention.head_count_kv", 12);
    }),
    ("heads of too few layers", Refused("head_count_kv"), |m| {
        m.set(
            "llama.attention.head_count_kv",
            LIST,
            list(U32, &[6_u32.to_le_bytes(); 2]),
        );
    }),
    ("odd rotation", Refused(""), |m| {
        m.set_u32("llama.rope.dimension_count", 31);
    }),
    ("no rotation", Any, |m| {
        m.set_u32("llama.rope.dimension_count", 0);
    }),
    ("huge rotation", Refused(""), |m| {
        m.set_u32("llama.rope.dimension_count", 1 << 20);
    }),
    ("frequency 0", Any, |m| {
        m.set_f32("llama.rope.freq_base", 0.0);
    }),
    ("frequency NaN", Refused("freq_base` is NaN"), |m| {
        m.set_f32("llama.rope.freq_base", f32::NAN);
    }),
    ("frequency infinite", Refused("freq_base` is inf"), |m| {
        m.set_f32("llama.rope.freq_base", f32::INFINITY);
    }),
    ("alignment 0", Refused("alignment"), |m| {
        m.set_u32("general.alignment", 0);
    }),
    ("alignment 3", Refused("alignment"), |m| {
        m.set_u32("general.alignment", 3);
    }),
    ("alignment 2^31", Refused(""), |m| {
        m.set_u32("general.alignment", 1 << 31);
    }),
    (
        "tensor count",
        Refused("announces 1099511627776 tensors"),
        |m| m.tensor_count = Some(1 << 40),
    ),
    ("one tensor more", Refused(""), |m| {
        m.tensor_count = Some(m.tensors.len() as u64 + 1);
    }),
    ("entry count", Refused("announces"), |m| {
        m.entry_count = Some(1 << 40);
    }),
    ("one entry more", Refused(""), |m| {
        m.entry_count = Some(m.entries.len() as u64 + 1);
    }),
    ("endless text", Refused("general.name"), |m| {
        m.set("general.name", TEXT, (u64::MAX).to_le_bytes());
    }),
    ("long text", Refused("general.name"), |m| {
        m.set("general.name", TEXT, (1_u64 << 33).to_le_bytes());
    }),
    ("list of lists", Refused("list of lists"), |m| {
        let mut value = LIST.to_le_bytes().to_vec();
        value.extend(1_u64.to_le_bytes());
        m.set("general.tags", LIST, value);
    }),
    ("endless list", Refused("general.tags"), |m| {
        let mut value = TEXT.to_le_bytes().to_vec();
        value.extend(u64::MAX.to_le_bytes());
        m.set("general.tags", LIST, value);
    }),
    ("key twice", Refused("general.name` occurs twice"), |m| {
        let entry = m.entry("general.name").clone();
        m.entries.push(entry);
    }),
    ("empty key", Refused(""), |m| m.set("", TEXT, text("x"))),
    ("type of a value", Refused("unknown type 77"), |m| {
        m.entry("general.name").kind = 77;
    }),
    ("architecture", Refused("sideways"), |m| {
        m.set_text("general.architecture", "sideways");
    }),
    ("no architecture", Refused("architecture"), |m| {
        m.remove("general.architecture");
    }),
    (
        "tensor behind the end",
        Refused("blk.3.ffn_up.weight"),
        |m| m.tensor("blk.3.ffn_up.weight").offset = 1 << 40,
    ),
    (
        "tensors on each other",
        Refused("blk.3.ffn_up.weight"),
        |m| m.tensor("blk.3.ffn_up.weight").offset = 0,
    ),
    (
        "unknown type of a tensor",
        Refused("blk.3.ffn_up.weight"),
        |m| m.tensor("blk.3.ffn_up.weight").kind = 99,
    ),
    (
        "type of a tensor that is gone",
        Refused("blk.3.ffn_up.weight"),
        |m| m.tensor("blk.3.ffn_up.weight").kind = 4,
    ),
    ("shape of a tensor", Refused(""), |m| {
        m.tensor("blk.3.ffn_up.weight").dimensions = vec![512, 192];
    }),
    ("empty tensor", Refused(""), |m| {
        m.tensor("output_norm.weight").dimensions = vec![0];
    }),
    ("many dimensions", Refused(""), |m| {
        m.tensor("output_norm.weight").dimensions = vec![1; 9];
    }),
    ("huge tensor", Refused(""), |m| {
        m.tensor("output_norm.weight").dimensions = vec![1 << 62, 1 << 62];
    }),
    ("tensor is missing", Refused("output_norm.weight"), |m| {
        m.tensors
            .retain(|tensor| tensor.name != "output_norm.weight");
    }),
    ("tensor twice", Refused("output_norm.weight"), |m| {
        let tensor = m.tensor("output_norm.weight").clone();
        m.tensors.push(tensor);
    }),
    ("no tensors", Refused(""), |m| m.tensors.clear()),
    ("unknown tokenizer", Refused("sideways"), |m| {
        m.set_text("tokenizer.ggml.model", "sideways");
    }),
    ("no tokenizer", Refused("token"), |m| {
        m.entries
            .retain(|entry| !entry.key.starts_with("tokenizer."));
    }),
    ("tokenizer without a vocabulary", Any, |m| {
        m.set_text("tokenizer.ggml.model", "none");
    }),
    ("tokenizer of another kind", Any, |m| {
        m.set_text("tokenizer.ggml.model", "llama");
    }),
    ("tokenizer of BERT", Any, |m| {
        m.set_text("tokenizer.ggml.model", "bert");
    }),
    ("tokenizer of T5", Any, |m| {
        m.set_text("tokenizer.ggml.model", "t5");
    }),
    ("tokenizer of RWKV", Any, |m| {
        m.set_text("tokenizer.ggml.model", "rwkv");
    }),
    ("no tokens", Refused(""), |m| {
        m.set_texts("tokenizer.ggml.tokens", &[]);
    }),
    ("few tokens", Refused(""), |m| {
        let tokens = m.texts("tokenizer.ggml.tokens");
        m.set_texts("tokenizer.ggml.tokens", &tokens[..10]);
    }),
    ("merges", Any, |m| {
        m.set_texts(
            "tokenizer.ggml.merges",
            &["x".to_owned(), " ".to_owned(), String::new()],
        );
    }),
    ("no merges", Any, |m| m.remove("tokenizer.ggml.merges")),
    ("broken template", Any, |m| {
        m.set_text("tokenizer.chat_template", "{% if %}{{");
    }),
    ("huge template", Refused("tokenizer.chat_template"), |m| {
        m.set_text("tokenizer.chat_template", &"x".repeat(17 << 20));
    }),
    ("version 1", Refused("version is 1"), |m| m.version = 1),
    ("version of the other byte order", Refused("version"), |m| {
        m.version = 3_u32.swap_bytes();
    }),
    ("dream", Refused("diffusion model"), |m| m.rename("dream")),
    ("llada", Refused("diffusion model"), |m| m.rename("llada")),
    ("llada-moe", Refused("diffusion model"), |m| {
        m.rename("llada-moe");
    }),
    ("rnd1", Refused("diffusion model"), |m| m.rename("rnd1")),
    ("an adapter", Refused(""), |m| {
        m.set_text("general.type", "adapter");
        m.set_text("adapter.type", "lora");
        m.rename("clip");
    }),
    ("a part of a split model", Refused("split"), |m| {
        m.set("split.count", 2, 3_u16.to_le_bytes());
        m.set("split.no", 2, 0_u16.to_le_bytes());
    }),
    ("weights that are no numbers", Refused("NaN"), |m| {
        let extent = m.extents()["output_norm.weight"].clone();
        for number in m.data[extent].as_chunks_mut::<4>().0 {
            *number = f32::NAN.to_le_bytes();
        }
    }),
];

/// Files that are no models at all.
const FILES: &[(&str, Fate, Make)] = &[
    ("empty", Refused("magic number"), |path, _| put(path, b"")),
    ("a text", Refused("not a GGUF file"), |path, _| {
        put(path, b"once upon a time there was no model");
    }),
    (
        "cut in the magic number",
        Refused("magic number"),
        |path, _| {
            put(path, b"GGU");
        },
    ),
    ("cut in the counts", Refused(""), |path, model| {
        put(path, &model.bytes()[..20]);
    }),
    ("cut in the metadata", Refused(""), |path, model| {
        put(path, &model.bytes()[..2_000]);
    }),
    ("cut in the tensors", Refused(""), |path, model| {
        put(path, &model.bytes()[..model.header().len() - 100]);
    }),
    ("cut before the data", Refused(""), |path, model| {
        put(path, &model.header());
    }),
    ("cut in the data", Refused(""), |path, model| {
        let bytes = model.bytes();
        put(path, &bytes[..bytes.len() - 1]);
    }),
    ("a folder", Refused("holds no `.gguf` file"), |path, _| {
        fs::create_dir(path).expect("writable");
    }),
    ("a pipe", Refused("it is a pipe"), |path, _| {
        let made = Command::new("mkfifo").arg(path).status();
        assert!(made.expect("mkfifo runs").success());
    }),
    ("a device", Refused("it is a device"), |path, _| {
        symlink("/dev/zero", path).expect("writable");
    }),
    ("links to themselves", Refused(""), |path, _| {
        symlink(path, path).expect("writable");
    }),
    ("a link to nothing", Refused("does not exist"), |path, _| {
        symlink("/there/is/nothing", path).expect("writable");
    }),
    ("nobody may read", Any, |path, model| {
        put(path, &model.bytes());
        fs::set_permissions(path, fs::Permissions::from_mode(0o0)).expect("ours");
    }),
];

fn put(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).expect("writable");
}

#[tokio::test]
async fn each_has_a_diagnostic_and_the_others_are_served() {
    let good = tiny_model();
    let model = Gguf::parse(&good).expect("a model");
    let mut graphs = Graphs::new();
    let mut fates = Vec::new();
    fs::write(graphs.add("good", ""), &good).expect("writable");
    for (name, fate, change) in CHANGES {
        let mut changed = model.clone();
        change(&mut changed);
        put(&graphs.add(name, ""), &changed.bytes());
        fates.push((*name, fate));
    }
    for (name, fate, make) in FILES {
        make(&graphs.add(name, ""), &model);
        fates.push((*name, fate));
    }
    assert!(fates.len() > 40);
    let mut served = graphs.serve(&[]);
    let mut wrong = Vec::new();
    let failures = served.failures().await;
    for (name, fate) in fates {
        let (_, failure) = failures
            .iter()
            .find(|(other, _)| other == name)
            .expect("listed");
        match (fate, failure) {
            (Refused(words), Some(reason)) if reason.contains(words) => {}
            (Any, Some(_)) => {}
            (Any, None) => {
                served.ask(name).await;
                let chat = serde_json::json!({ "model": name, "max_tokens": 2, "messages": [{ "role": "user", "content": "Größe 你好" }] });
                served.post("/v3/chat/completions", &chat).await;
            }
            (Refused(words), failure) => {
                wrong.push(format!("{name}: expected `{words}`, not {failure:?}"));
            }
        }
        if let Some(reason) = failure {
            let named = reason.contains(".gguf") || reason.contains("model");
            assert!(named && reason.contains("graph.pbtxt:"), "{name}: {reason}");
            eprintln!(
                "{name}: {}",
                reason.rsplit("model.gguf`").next().unwrap_or_default()
            );
        } else {
            eprintln!("{name}: is served");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let (status, body) = served.ask("good").await;
    assert_eq!(status, 200, "{body}");
    assert!(served.lives());
    #[cfg(target_os = "linux")]
    assert_eq!(served.children(), "");
}

#[test]
fn describe_survives_what_llama_cpp_does_not() {
    let model = Gguf::parse(&tiny_model()).expect("a model");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let graph = folder.path().join("graph.pbtxt");
    let few = "max_num_seqs: 1 max_num_batched_tokens: 64";
    let text = CHAT
        .replace("../model.script.json", "model.gguf")
        .replace("max_num_seqs: 4", few);
    fs::write(&graph, text).expect("writable");
    // What is refused in the words of llama.cpp, or of none if it crashes.
    let changes = CHANGES
        .iter()
        .filter(|(_, fate, _)| matches!(fate, Refused("")));
    for (name, _, change) in changes {
        let mut damaged = model.clone();
        change(&mut damaged);
        put(&folder.path().join("model.gguf"), &damaged.bytes());
        let described = Command::new(env!("CARGO_BIN_EXE_graphmill"))
            .arg("describe")
            .arg(&graph)
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&described.stderr);
        assert_eq!(described.status.code(), Some(1), "{name}: {said}");
        assert!(said.contains("model.gguf`"), "{name}: {said}");
    }
}
