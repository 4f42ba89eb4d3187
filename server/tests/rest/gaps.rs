//! A model that was trained to fill gaps gets what is before and behind one, marked with its tokens
//! for that.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::rest::support::{CHAT, Setup, TestServer, read};

/// Tokens of the model that stand in for those that mark a gap: what the text before begins with,
/// the text behind, and the gap.
const MARKS: [u32; 3] = [300, 301, 302];

/// The model of this repository, with tokens that mark a gap.
fn model() -> Vec<u8> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../demos/tiny_chat/model.gguf");
    let mut bytes = fs::read(file).expect("the model");
    // A GGUF file begins with its format, its version and the number of its tensors; the number of
    // its metadata values follows, then these.
    let (count, values) = (16..24, 24);
    let string = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    let (number, text) = (4_u32.to_le_bytes(), 8_u32.to_le_bytes());
    let mut added = Vec::new();
    for (name, token) in ["pre", "suf", "mid"].into_iter().zip(MARKS) {
        added.extend(string(&format!("tokenizer.ggml.fim_{name}_token_id")));
        added.extend([number, token.to_le_bytes()].concat());
    }
    // Tensors begin at multiples of 32 bytes, so what is added has to be one.
    added.extend([string("test.padding"), text.into()].concat());
    let padding = 32 - (added.len() + 8) % 32;
    added.extend(string(&"-".repeat(padding)));
    let before = u64::from_le_bytes(bytes[count.clone()].try_into().expect("eight bytes"));
    bytes.splice(count, (before + MARKS.len() as u64 + 1).to_le_bytes());
    bytes.splice(values..values, added);
    bytes
}

async fn asked(server: &TestServer, path: &str, request: &Value) -> Value {
    let reply = read(server.post(path, request.to_string())).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

#[tokio::test]
async fn a_suffix_is_what_comes_behind_the_gap() {
    let graph = CHAT.replace("../model.script.json", "../model.gguf");
    let setup = Setup::new().graph("chat", &graph);
    fs::write(setup.path().join("model.gguf"), model()).expect("writable");
    let server = setup.start().await;
    let tokens = async |text: &str| {
        let request = json!({ "model": "chat", "prompt": text, "add_special_tokens": false });
        let answer = asked(&server, "/v3/tokenize", &request).await;
        answer["tokens"].as_array().expect("tokens").clone()
    };
    let mut expected = vec![json!(MARKS[0])];
    expected.extend(tokens("the quick brown").await);
    expected.push(json!(MARKS[1]));
    expected.extend(tokens(" jumps").await);
    expected.push(json!(MARKS[2]));

    let request = json!({
        "model": "chat", "prompt": "the quick brown", "suffix": " jumps", "max_tokens": 4, "temperature": 0,
    });
    let explained = asked(&server, "/v3/completions?explain=1", &request).await;
    assert_eq!(
        explained["prompts"][0]["token_ids"],
        json!(expected),
        "{explained}"
    );
    let filled = asked(&server, "/v3/completions", &request).await;
    assert_eq!(filled["usage"]["prompt_tokens"], expected.len());
    let same = json!({ "model": "chat", "prompt": expected, "max_tokens": 4, "temperature": 0 });
    let same = asked(&server, "/v3/completions", &same).await;
    assert_eq!(filled["choices"], same["choices"]);
}
