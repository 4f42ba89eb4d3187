//! Prompts given as vectors, of completions and of TorchServe's predictions. The embeddings of a
//! text's tokens are answered as the text is.

use std::path::{Path, PathBuf};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_util::future::join_all;
use graphmill_testkit::embeddings::{WIDTH, rows};
use serde_json::{Value, json};
use tonic::Code;

use crate::rest::fields::with;
use crate::rest::support::{CHAT, Reply, Setup, TestServer, question, read};
use crate::rest::torchserve_grpc::{asked, joined, streamed};

/// Tokens that a sequence can have.
const CONTEXT: usize = 256;

fn model() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../demos/tiny_chat/model.gguf")
}

fn graph(option: &str) -> String {
    let options = format!("max_num_seqs: 4 max_context: {CONTEXT} {option}");
    CHAT.replace("../model.script.json", &model().to_string_lossy())
        .replace("max_num_seqs: 4", &options)
}

/// A server whose graph `takes` takes vectors, and whose graph `reads` does not.
async fn server() -> TestServer {
    Setup::new()
        .graph("takes", &graph("prompt_embeds: true"))
        .graph("reads", &graph(""))
        .with(|options| options.grpc = vec![([127, 0, 0, 1], 0).into()])
        .start()
        .await
}

/// A text, its embeddings, and its answer.
struct Embedded {
    text: String,
    numbers: Vec<f32>,
    answer: String,
}

impl Embedded {
    async fn new(server: &TestServer) -> Self {
        let text = "A side packet is a value without a timestamp. ".repeat(12);
        let body = json!({ "model": "takes", "text": text });
        let told = read(server.post("/tokenize", body.to_string()))
            .await
            .json();
        let tokens = told["tokens"].as_array().expect("tokens");
        let tokens = tokens.iter().filter_map(Value::as_i64);
        let tokens: Vec<i32> = tokens.map(|token| token as i32).collect();
        let answer = complete(server, &json!({ "prompt": text })).await;
        Self {
            text,
            numbers: rows(&model(), &tokens),
            answer: said(&answer),
        }
    }

    fn rows(&self) -> Value {
        self.numbers.chunks(WIDTH).collect()
    }
}

/// A file of `NumPy`.
fn npy(numbers: &[f32]) -> Vec<u8> {
    let count = numbers.len() / WIDTH;
    let header =
        format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({count}, {WIDTH}), }}\n");
    let elements = numbers.iter().flat_map(|number| number.to_le_bytes());
    let head = [&b"\x93NUMPY\x01\0"[..], &[header.len() as u8, 0]].concat();
    head.into_iter()
        .chain(header.bytes())
        .chain(elements)
        .collect()
}

async fn complete(server: &TestServer, fields: &Value) -> Reply {
    let body = json!({ "model": "takes", "temperature": 0, "max_tokens": 12, "ignore_eos": true });
    read(server.post("/v1/completions", with(body, fields).to_string())).await
}

fn said(reply: &Reply) -> String {
    assert_eq!(reply.status, 200, "{}", reply.text);
    let text = reply.json()["choices"][0]["text"].take();
    text.as_str().expect("a text").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn embeddings_are_completed_as_their_text() {
    let server = server().await;
    let embedded = Embedded::new(&server).await;
    let rows = embedded.rows();
    let bodies = [
        json!({ "prompt_embeds": rows }),
        json!({ "prompt_embeds": STANDARD.encode(npy(&embedded.numbers)), "prompt": "" }),
        json!({ "inputs_embeds": [rows], "prompt": [] }),
        json!({ "input_embeds": embedded.numbers, "prompt": null }),
        json!({ "prompt": embedded.text }),
    ];
    let replies = join_all(bodies.iter().map(|fields| complete(&server, fields))).await;
    for reply in replies {
        assert_eq!(said(&reply), embedded.answer);
        let prompt_tokens = &reply.json()["usage"]["prompt_tokens"];
        assert_eq!(*prompt_tokens, embedded.numbers.len() / WIDTH);
    }
    let reply = complete(&server, &json!({ "prompt_embeds": rows, "n": 2 })).await;
    let choices = reply.json()["choices"].take();
    for choice in choices.as_array().expect("choices") {
        assert_eq!(choice["text"], embedded.answer);
    }
    let body = json!({ "model": "takes", "prompt_embeds": rows, "max_tokens": 100, "stream": true, "ignore_eos": true });
    let running = server.post("/v1/completions", body.to_string());
    let mut running = running.send().await.expect("an answer");
    running.chunk().await.expect("no error").expect("no end");
    drop(running);
    server.until_idle().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_vectors_is_told_by_name() {
    let server = server().await;
    let row = json!([vec![0.5; WIDTH]]);
    let no_number = STANDARD.encode(npy(&[f32::NAN; WIDTH]));
    let with_row = |fields: Value| with(json!({ "prompt_embeds": row }), &fields);
    let (invalid, unsupported) = ("invalid_value", "unsupported_parameter");
    for (fields, param, code, why) in [
        (
            json!({ "prompt_embeds": [vec![0.5; 5]] }),
            "prompt_embeds",
            invalid,
            "rows of 5 numbers: the model's embeddings have 192",
        ),
        (
            json!({ "inputs_embeds": [0.5] }),
            "inputs_embeds",
            invalid,
            "1 numbers, which are no whole rows",
        ),
        (
            json!({ "prompt_embeds": no_number }),
            "prompt_embeds",
            invalid,
            "not finite",
        ),
        (
            json!({ "prompt_embeds": vec![vec![0; WIDTH]; CONTEXT] }),
            "prompt_embeds",
            "context_length_exceeded",
            "256 tokens",
        ),
        (
            with_row(json!({ "prompt": "a" })),
            "prompt_embeds",
            invalid,
            "`prompt`",
        ),
        (
            with_row(json!({ "echo": true })),
            "echo",
            invalid,
            "`prompt_embeds`",
        ),
        (
            with_row(json!({ "suffix": "a" })),
            "suffix",
            invalid,
            "text",
        ),
        (
            with_row(json!({ "prompt_logprobs": 0 })),
            "prompt_logprobs",
            invalid,
            "vectors",
        ),
        (
            json!({ "prompt_embeds": vec![vec![0; WIDTH]; 2], "truncate_prompt_tokens": 1 }),
            "truncate_prompt_tokens",
            invalid,
            "vectors",
        ),
        (
            with_row(json!({ "model": "reads" })),
            "prompt_embeds",
            unsupported,
            "`prompt_embeds: true`, which `serve --enable-prompt-embeds` sets",
        ),
    ] {
        let reply = complete(&server, &fields).await;
        let error = &reply.json()["error"];
        let found = (reply.status, &error["param"], &error["code"]);
        assert_eq!(found, (400, &json!(param), &json!(code)), "{error}");
        let message = error["message"].as_str().expect("a message");
        assert!(message.contains(why), "{message}");
    }
    // Other endpoints name the one that takes them, however long they are.
    for (path, body) in [
        ("/completion", json!({ "model": "takes", "prompt": "a" })),
        ("/v1/chat/completions", question("takes", "Hi")),
    ] {
        for vectors in [&json!([[1]]), &row] {
            let body = with(body.clone(), &json!({ "prompt_embeds": vectors }));
            let reply = read(server.post(path, body.to_string())).await;
            assert_eq!(reply.status, 400, "{}", reply.text);
            let names = reply.text.contains("`prompt_embeds` is not supported");
            let advises = reply.text.contains("Use `completions`.");
            assert!(names && advises, "{}", reply.text);
        }
    }
    server.until_idle().await;
}

async fn predict(server: &TestServer, content_type: &str, body: Vec<u8>) -> Reply {
    let url = format!("{}/predictions/takes", server.url);
    let request = server.client.post(url).header("content-type", content_type);
    read(request.body(body)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn torchserve_takes_vectors_in_forms_in_json_and_over_grpc() {
    let server = server().await;
    let embedded = Embedded::new(&server).await;
    let (rows, numbers) = (embedded.rows(), &embedded.numbers);
    // A form has more numbers than it can have fields.
    assert!(numbers.len() > 16_384, "{}", numbers.len());
    let parameters = json!({ "max_new_tokens": 12, "do_sample": false, "ignore_eos": true });
    let json = with(parameters, &json!({ "inputs_embeds": rows })).to_string();
    let more = "max_new_tokens=12&do_sample=False&ignore_eos=true";
    let by_number = numbers
        .iter()
        .map(|number| format!("inputs_embeds={number}&"));
    let by_number = by_number.collect::<String>() + more;
    let by_row = rows.as_array().into_iter().flatten();
    let by_row = by_row.map(|row| format!("input_embeds={row}&"));
    let by_row = by_row.collect::<String>() + more;
    let part = |head: &str, body: &[u8]| {
        let head = format!("--x\r\ncontent-disposition: form-data; {head}\r\n\r\n");
        [head.as_bytes(), body, b"\r\n"].concat()
    };
    let file =
        "name=\"inputs_embeds\"; filename=\"a.npy\"\r\ncontent-type: application/octet-stream";
    let multipart = [
        part(file, &npy(numbers)),
        part("name=\"max_new_tokens\"", b"12"),
        part("name=\"do_sample\"", b"false"),
        part("name=\"ignore_eos\"", b"true"),
        b"--x--\r\n".to_vec(),
    ];
    let form = "application/x-www-form-urlencoded";
    for (content_type, body) in [
        ("application/json", json.into_bytes()),
        (form, by_number.into_bytes()),
        (form, by_row.into_bytes()),
        ("multipart/form-data; boundary=x", multipart.concat()),
    ] {
        let reply = predict(&server, content_type, body).await;
        assert_eq!(
            (reply.status, reply.text),
            (200, embedded.answer.clone()),
            "{content_type}"
        );
    }
    for (content_type, body, why) in [
        (
            "application/json",
            r#"{"inputs_embeds": [[0.5]], "text": "a"}"#,
            "the input is `inputs_embeds` already",
        ),
        (
            form,
            "inputs_embeds=tensor(0.5)&inputs_embeds=tensor(1.5)",
            "expected rows of numbers",
        ),
        (
            form,
            "inputs_embeds=[0.5]&inputs_embeds=[nan]",
            "expected rows of numbers",
        ),
    ] {
        let reply = predict(&server, content_type, body.as_bytes().to_vec()).await;
        assert_eq!(reply.status, 400, "{}", reply.text);
        assert!(reply.text.contains(why), "{}", reply.text);
    }
    let raw = [
        part("name=\"inputs_embeds\"", &(-0.5_f32).to_le_bytes()),
        b"--x--\r\n".to_vec(),
    ];
    let reply = predict(&server, "multipart/form-data; boundary=x", raw.concat()).await;
    assert_eq!(reply.status, 400, "{}", reply.text);
    assert!(reply.text.contains("a file of NumPy"), "{}", reply.text);
    let at = server.server.grpc_addresses()[0];
    let call = |name: &str, vectors: &str| {
        let input = [
            (name, vectors),
            ("max_new_tokens", "12"),
            ("do_sample", "false"),
            ("ignore_eos", "true"),
        ];
        streamed(at, "StreamPredictions", vec![asked("takes", &input)])
    };
    let pieces = call("inputs_embeds", &rows.to_string()).await;
    let pieces = pieces.expect("pieces");
    assert_eq!(joined(&pieces), embedded.answer);
    assert!(pieces.len() > 1, "{pieces:?}");
    let refused = call("prompt_embeds", "[[0.5]]").await.expect_err("refused");
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
    assert!(refused.message().contains("have 192"), "{refused:?}");
    server.until_idle().await;
}
