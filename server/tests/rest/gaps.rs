//! A model that was trained to fill gaps gets what is before and behind one, marked with its tokens
//! for that.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::rest::support::{CHAT, Setup, TestServer, read};

/// Tokens of the model that stand in for those that mark a gap: what the text before begins with,
/// the text behind, and the gap; and for those before the names of a repository and of its files.
const MARKS: [u32; 5] = [300, 301, 302, 303, 304];

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
    for (name, token) in ["pre", "suf", "mid", "rep", "sep"].into_iter().zip(MARKS) {
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

async fn server() -> TestServer {
    let graph = CHAT.replace("../model.script.json", "../model.gguf");
    let setup = Setup::new().graph("chat", &graph);
    fs::write(setup.path().join("model.gguf"), model()).expect("writable");
    setup.start().await
}

/// The tokens of texts, each behind its mark.
async fn marked(server: &TestServer, parts: &[(u32, &str)]) -> Vec<Value> {
    let mut all = Vec::new();
    for (mark, text) in parts {
        all.push(json!(mark));
        let request = json!({ "model": "chat", "prompt": text, "add_special_tokens": false });
        let answer = asked(server, "/v3/tokenize", &request).await;
        all.extend(answer["tokens"].as_array().expect("tokens").clone());
    }
    all
}

#[tokio::test]
async fn a_suffix_is_what_comes_behind_the_gap() {
    let server = server().await;
    let [before, after, gap, ..] = MARKS;
    let parts = [(before, "the quick brown"), (after, " jumps"), (gap, "")];
    let expected = marked(&server, &parts).await;

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

#[tokio::test]
async fn infill_shows_other_files_and_the_text_around_the_gap() {
    let server = server().await;
    let [before, after, gap, repository, file] = MARKS;
    // A request of llama.vim.
    let request = json!({
        "input_prefix": "the quick\n", "prompt": "brown", "input_suffix": " jumps\n", "n_predict": 4, "n_indent": 0,
        "input_extra": [{ "text": "a fox", "time": 1.5, "filename": "fox.txt" }, { "text": "a dog" }], "temperature": 0,
        "top_k": 40, "top_p": 0.99, "stream": false, "samplers": ["top_k", "top_p", "infill"], "cache_prompt": true,
        "t_max_prompt_ms": 500, "t_max_predict_ms": 1000, "response_fields": ["content", "tokens_evaluated", "timings/prompt_n", "truncated"],
    });
    let parts = [
        (repository, "myproject\n"),
        (file, "fox.txt\n"),
        (file, "tmp\n"),
        (file, "filename\n"),
        (before, "the quick\nbrown"),
        (after, " jumps\n"),
        (gap, ""),
    ];
    let explained = asked(&server, "/infill?explain=1", &request).await;
    let tokens = explained["prompts"][0]["token_ids"]
        .as_array()
        .expect("tokens")
        .clone();
    let marks = |tokens: &[Value]| -> Vec<u64> {
        let numbers = tokens.iter().filter_map(Value::as_u64);
        numbers
            .filter(|token| MARKS.contains(&(*token as u32)))
            .collect()
    };
    let expected = marked(&server, &parts).await;
    assert_eq!(marks(&tokens), marks(&expected), "{explained}");
    let end = tokens
        .iter()
        .rposition(|token| *token == file)
        .expect("the file with the gap");
    let of_gap = marked(&server, &parts[3..]).await;
    assert_eq!(tokens[end..], of_gap, "{explained}");

    let reply = read(server.post("/infill", request.to_string())).await;
    let ignored = reply.header("x-ignored-fields").expect("a header");
    assert_eq!(
        ignored,
        "n_indent, samplers, t_max_prompt_ms, t_max_predict_ms"
    );
    let filled = reply.json();
    assert_eq!(filled["tokens_evaluated"], tokens.len(), "{filled}");
    assert!(
        filled["timings/prompt_n"].is_u64() && filled["truncated"].is_boolean(),
        "{filled}"
    );
    let same = json!({ "prompt": tokens, "n_predict": 4, "temperature": 0 });
    let same = asked(&server, "/completion", &same).await;
    assert_eq!(filled["content"], same["content"]);

    // What llama.vscode sends ahead of a request, so that its context is computed.
    let ahead = json!({
        "input_prefix": "", "input_suffix": "", "input_extra": [{ "text": "a fox", "filename": "fox.txt" }], "prompt": "",
        "n_predict": 0, "samplers": [], "cache_prompt": true, "t_max_prompt_ms": 500, "t_max_predict_ms": 1,
    });
    let answer = asked(&server, "/infill", &ahead).await;
    assert_eq!(
        (&answer["content"], &answer["tokens_predicted"]),
        (&json!(""), &json!(0))
    );
}
