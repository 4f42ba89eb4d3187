//! Images in requests, with the repository's small model and a projector with random weights: what
//! is asked of them is that they are read, counted, cached, and refused where they are wrong.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use graphmill_testkit::projector::{Kind, MODEL_WIDTH, POSITIONS, make};
use serde_json::{Value, json};

use crate::rest::support::{CHAT, Setup, TestServer, question, read};

/// Bytes, pixels and images that a request may have.
const LIMITS: &str = "max_images: 3 max_image_bytes: 4000 max_image_pixels: 4096";

pub(crate) fn model() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../demos/tiny_chat/model.gguf")
}

/// A graph of the repository's model.
pub(crate) fn graph(options: &str) -> String {
    CHAT.replace("../model.script.json", &model().to_string_lossy())
        .replace("max_num_seqs: 4", options)
}

/// A server whose graph `sees` reads images, and whose graph `reads` does not.
async fn server() -> TestServer {
    let setup = Setup::new();
    let projector = make(setup.path(), Kind::Square, MODEL_WIDTH, 4.0);
    let options = format!("mmproj: \"{}\" {LIMITS}", projector.display());
    let common = "max_num_seqs: 4 max_context: 512";
    setup
        .graph("sees", &graph(&format!("{common} {options}")))
        .graph("reads", &graph(common))
        .start()
        .await
}

/// A PNG file of gray pixels with some number in them.
pub(crate) fn png(width: u32, height: u32, number: u8) -> Vec<u8> {
    let gray = (0..width * height).map(|pixel| (pixel as u8).wrapping_mul(number));
    let image = image::GrayImage::from_raw(width, height, gray.collect()).expect("as many");
    let mut file = std::io::Cursor::new(Vec::new());
    image
        .write_to(&mut file, image::ImageFormat::Png)
        .expect("written to memory");
    file.into_inner()
}

pub(crate) fn url(file: &[u8]) -> String {
    format!("data:image/png;base64,{}", STANDARD.encode(file))
}

/// A chat with these images and a question behind them.
pub(crate) fn chat(model: &str, urls: &[String]) -> Value {
    let mut parts: Vec<Value> = urls
        .iter()
        .map(|url| json!({ "type": "image_url", "image_url": { "url": url } }))
        .collect();
    parts.push(json!({ "type": "text", "text": "What is this?" }));
    json!({
        "model": model, "temperature": 0, "max_tokens": 12, "ignore_eos": true,
        "logprobs": true, "messages": [{ "role": "user", "content": parts }],
    })
}

pub(crate) fn said(answer: &Value) -> &str {
    let text = answer["choices"][0]["message"]["content"].as_str();
    text.unwrap_or_else(|| panic!("{answer}"))
}

/// Whether two answers say the same for the same reasons. The last bits of a number depend on what is
/// computed with it.
pub(crate) fn is_same(one: &Value, other: &Value) -> bool {
    let chances = |answer: &Value| {
        let tokens = answer["choices"][0]["logprobs"]["content"].as_array();
        let chance = |token: &Value| token["logprob"].as_f64().expect("a number");
        tokens
            .expect("a list")
            .iter()
            .map(chance)
            .collect::<Vec<_>>()
    };
    let pairs = chances(one).into_iter().zip(chances(other));
    said(one) == said(other)
        && pairs
            .into_iter()
            .all(|(one, other)| (one - other).abs() < 1e-3)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn base64_is_read_with_broken_lines_and_without_padding() {
    let server = server().await;
    let file = png(20, 21, 7);
    let whole = url(&file);
    let lines = whole.as_bytes().chunks(76).map(String::from_utf8_lossy);
    let broken = lines.collect::<Vec<_>>().join("\r\n");
    let unpadded = whole.trim_end_matches('=').to_owned();
    assert_ne!(whole, unpadded);
    let expected = server
        .chat(&chat("sees", std::slice::from_ref(&whole)))
        .await;
    assert_eq!(expected.status, 200, "{}", expected.text);
    for url in [broken, unpadded] {
        let reply = server.chat(&chat("sees", &[url])).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        assert_eq!(said(&reply.json()), said(&expected.json()));
    }
    let data = whole.strip_prefix("data:image/png;base64,").expect("a URL");
    let other = format!("data:image/png;base64,{}", data.replace(['+', '/'], "-"));
    assert_ne!(whole, other);
    let reply = server.chat(&chat("sees", &[other])).await;
    let error = &reply.json()["error"];
    assert_eq!(error["code"], "invalid_image", "{error}");
    let message = error["message"].as_str().expect("a message");
    assert!(message.contains("not `-` and `_`"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_is_read_counted_and_known_again() {
    let server = server().await;
    let plain = server.chat(&chat("sees", &[])).await.json();
    let without = plain["usage"]["prompt_tokens"].as_u64().expect("a number");
    let files = [png(20, 30, 1), png(20, 30, 7)];
    let mut chances = Vec::new();
    for file in &files {
        let first = server.chat(&chat("sees", &[url(file)])).await.json();
        let usage = &first["usage"];
        assert_eq!(usage["prompt_tokens"], without + POSITIONS, "{first}");
        let again = server.chat(&chat("sees", &[url(file)])).await.json();
        assert_eq!(said(&first), said(&again));
        let cached = &again["usage"]["prompt_tokens_details"]["cached_tokens"];
        assert_eq!(*cached, without + POSITIONS - 1, "{again}");
        let chance = &first["choices"][0]["logprobs"]["content"][0]["logprob"];
        chances.push(chance.as_f64().expect("a number"));
    }
    // The model knows better than to follow nonsense, but not that it is the same.
    assert!((chances[0] - chances[1]).abs() > 1e-3, "{chances:?}");
    let both = files.map(|file| url(&file));
    let both = server.chat(&chat("sees", &both)).await.json();
    let tokens = &both["usage"]["prompt_tokens"];
    assert_eq!(*tokens, without + 2 * POSITIONS, "{both}");
    let status = server.status().await;
    let engines = status["engines"].as_array().expect("a list");
    let engine = engines.iter().find(|engine| engine["graph"] == "sees");
    let images = &engine.expect("the engine")["image_cache"];
    assert_eq!(
        (&images["queries"], &images["hits"]),
        (&json!(6), &json!(4))
    );
    assert_eq!(
        (&images["images"], &images["encoded"]),
        (&json!(2), &json!(2))
    );
    let scrape = server.get("/metrics").await.text;
    assert!(
        scrape.contains("graphmill_images_encoded_total{"),
        "{scrape}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_dialect_has_images_and_streams_have_them_too() {
    let server = server().await;
    let file = png(8, 8, 3);
    let expected = server.chat(&chat("sees", &[url(&file)])).await.json();
    let mut streamed = chat("sees", &[url(&file)]);
    streamed["stream"] = true.into();
    let events = server.chat(&streamed).await.events();
    let text: String = events
        .iter()
        .filter_map(|event| event["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert_eq!(text, said(&expected));

    let request = json!({
        "model": "sees", "temperature": 0, "max_output_tokens": 12, "ignore_eos": true,
        "input": [{ "role": "user", "content": [
            { "type": "input_image", "image_url": url(&file), "detail": "auto" },
            { "type": "input_text", "text": "What is this?" },
        ]}],
    });
    let answer = read(server.post("/v1/responses", request.to_string()))
        .await
        .json();
    assert_eq!(
        answer["output"][0]["content"][0]["text"],
        said(&expected),
        "{answer}"
    );
    let tokens = &answer["usage"]["input_tokens"];
    assert_eq!(*tokens, expected["usage"]["prompt_tokens"]);

    let source =
        json!({ "type": "base64", "media_type": "image/png", "data": STANDARD.encode(&file) });
    let request = json!({
        "model": "sees", "temperature": 0, "max_tokens": 12, "ignore_eos": true,
        "messages": [{ "role": "user", "content": [
            { "type": "image", "source": source },
            { "type": "text", "text": "What is this?" },
        ]}],
    });
    let answer = read(server.post("/v1/messages", request.to_string()))
        .await
        .json();
    assert_eq!(answer["content"][0]["text"], said(&expected), "{answer}");

    let render = read(server.post(
        "/v1/chat/completions/render",
        chat("sees", &[url(&file)]).to_string(),
    ));
    let rendered = render.await.json();
    assert_eq!(
        rendered["count"], expected["usage"]["prompt_tokens"],
        "{rendered}"
    );
    let prompt = rendered["prompt"].as_str().expect("a text");
    assert!(prompt.contains("<__image__>What is this?"), "{prompt}");
    // The ids do not show how many images the server has read.
    let mut asked = chat("sees", &[url(&file)]);
    asked["return_token_ids"] = json!(true);
    let told = read(server.post("/v1/chat/completions", asked.to_string()));
    let told = told.await.json();
    for ids in [&rendered["token_ids"], &told["prompt_token_ids"]] {
        let ids = ids.as_array().expect("token ids");
        let negative = ids.iter().filter_map(|id| id.as_i64().filter(|id| *id < 0));
        let negative: Vec<i64> = negative.collect();
        assert_eq!(negative, [-1; POSITIONS as usize], "{told}");
    }
}

/// A file of some colors.
fn colors(format: image::ImageFormat) -> Vec<u8> {
    let rgb = (0..8 * 8 * 3).map(|byte: u32| (byte * 5 % 251) as u8);
    let image = image::RgbImage::from_raw(8, 8, rgb.collect()).expect("as many");
    let mut file = std::io::Cursor::new(Vec::new());
    image
        .write_to(&mut file, format)
        .expect("written to memory");
    file.into_inner()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_browsers_show_is_read() {
    use image::ImageFormat::{Bmp, Gif, Jpeg, Png, WebP};

    let server = server().await;
    let mut answers = Vec::new();
    for format in [Png, WebP, Bmp, Gif, Jpeg] {
        // The type that the URL names is not asked.
        let answer = server.chat(&chat("sees", &[url(&colors(format))])).await;
        assert_eq!(answer.status, 200, "{format:?}: {}", answer.text);
        answers.push(answer.json()["choices"][0].clone());
    }
    // These three lose nothing.
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0], answers[2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_of_tools_have_images() {
    let server = server().await;
    let file = png(8, 8, 5);
    let source =
        json!({ "type": "base64", "media_type": "image/png", "data": STANDARD.encode(&file) });
    let image = json!({ "type": "image", "source": source });
    let messages = |content: Value| {
        json!({
            "model": "sees", "max_tokens": 1,
            "messages": [
                { "role": "user", "content": "Look." },
                { "role": "assistant", "content": [
                    { "type": "tool_use", "id": "a", "name": "look", "input": {} },
                ]},
                { "role": "user", "content": [
                    { "type": "tool_result", "tool_use_id": "a", "content": content },
                ]},
            ],
        })
    };
    let part = json!({ "type": "input_image", "image_url": url(&file) });
    let responses = |output: Value| {
        json!({
            "model": "sees", "max_output_tokens": 1,
            "input": [
                { "role": "user", "content": "Look." },
                { "type": "function_call", "call_id": "a", "name": "look", "arguments": "{}" },
                { "type": "function_call_output", "call_id": "a", "output": output },
            ],
        })
    };
    let text = json!({ "type": "text", "text": "Seen." });
    let input_text = json!({ "type": "input_text", "text": "Seen." });
    let pairs = [
        (
            "/v1/messages",
            messages(json!([text])),
            messages(json!([image, text])),
        ),
        (
            "/v1/responses",
            responses(json!([input_text])),
            responses(json!([part, input_text])),
        ),
    ];
    for (path, without, with) in pairs {
        let mut tokens = Vec::new();
        for request in [without, with] {
            let answer = read(server.post(path, request.to_string())).await;
            assert_eq!(answer.status, 200, "{path}: {}", answer.text);
            let usage = &answer.json()["usage"];
            let cached = usage["cache_read_input_tokens"].as_u64().unwrap_or(0);
            tokens.push(usage["input_tokens"].as_u64().expect("a number") + cached);
        }
        assert_eq!(tokens[1], tokens[0] + POSITIONS, "{path}");
    }
    let wrong =
        json!({ "type": "image", "source": { "type": "base64", "media_type": "", "data": "A" } });
    let answer = read(server.post("/v1/messages", messages(json!([text, wrong])).to_string()));
    let error = &answer.await.json()["error"];
    let said = error["message"].as_str().expect("a message");
    assert!(
        said.contains("messages[2].content[0].content[1]"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_kind_of_projector_is_served() {
    let mut setup = Setup::new();
    let kinds = [Kind::Square, Kind::Grid, Kind::Ahead];
    for kind in kinds {
        let folder = setup.path().join(format!("{kind:?}"));
        std::fs::create_dir_all(&folder).expect("writable");
        let projector = make(&folder, kind, MODEL_WIDTH, 4.0);
        let options = format!(
            "max_num_seqs: 4 max_context: 512 mmproj: \"{}\"",
            projector.display()
        );
        setup = setup.graph(&format!("{kind:?}"), &graph(&options));
    }
    let server = setup.start().await;
    for kind in kinds {
        let name = format!("{kind:?}");
        let answer = server.chat(&chat(&name, &[url(&png(20, 30, 1))])).await;
        assert_eq!(answer.status, 200, "{name}: {}", answer.text);
    }
}

/// A PNG whose header says that it is larger than it is.
fn lying() -> Vec<u8> {
    let mut file = png(1, 1, 1);
    file[16..20].copy_from_slice(&60_000_u32.to_be_bytes());
    file[20..24].copy_from_slice(&60_000_u32.to_be_bytes());
    let mut crc = 0xffff_ffff_u32;
    for byte in &file[12..29] {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
        }
    }
    file[29..33].copy_from_slice(&(!crc).to_be_bytes());
    file
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_images_are_refused_by_name() {
    let server = server().await;
    let good = url(&png(8, 8, 1));
    let noise: Vec<u8> = (0..5_000_u32)
        .map(|byte| ((byte * byte) >> 3) as u8)
        .collect();
    let mut damaged = png(8, 8, 1);
    let end = damaged.len() - 20;
    damaged.truncate(end);
    let bad = [
        (
            "https://example.com/a.png".to_owned(),
            "unsupported_parameter",
            "fetches none",
        ),
        (
            "HTTP://example.com/a.png".to_owned(),
            "unsupported_parameter",
            "fetches none",
        ),
        (
            "file:///etc/passwd".to_owned(),
            "unsupported_parameter",
            "fetches none",
        ),
        (
            "data:image/png,AAAA".to_owned(),
            "invalid_value",
            "must be an image as",
        ),
        (String::new(), "invalid_value", "must be an image as"),
        (
            "data:image/png;base64,A*A=".to_owned(),
            "invalid_image",
            "not Base64",
        ),
        (url(b"GIF89a"), "invalid_image", "cannot be decoded"),
        (
            url(b"TIFF"),
            "invalid_image",
            "not a PNG, JPEG, WebP, GIF or BMP",
        ),
        (url(b""), "invalid_image", "not a PNG, JPEG"),
        (url(&damaged), "invalid_image", "cannot be decoded"),
        (url(&lying()), "image_too_large", "60000 x 60000 pixels"),
        (url(&png(65, 64, 0)), "image_too_large", "max_image_pixels"),
        (
            url(&png(32_769, 1, 0)),
            "image_too_large",
            "32768 on a side",
        ),
        (url(&noise), "image_too_large", "max_image_bytes"),
    ];
    for (url, code, message) in bad {
        let reply = server
            .chat(&chat("sees", &[good.clone(), url.clone()]))
            .await;
        let error = &reply.json()["error"];
        let shown = url.chars().take(60).collect::<String>();
        assert_eq!(reply.status, 400, "{shown}: {error}");
        assert_eq!(error["code"], code, "{shown}: {error}");
        assert_eq!(error["param"], "messages[0].content[1]", "{shown}: {error}");
        let said = error["message"].as_str().expect("a message");
        assert!(said.contains(message), "{shown}: {said}");
    }
    let many = vec![good.clone(); 4];
    let error = &server.chat(&chat("sees", &many)).await.json()["error"];
    assert_eq!(error["param"], "messages[0].content[3]", "{error}");
    assert_eq!(error["code"], "too_many_images", "{error}");
    let error = &server
        .chat(&chat("reads", std::slice::from_ref(&good)))
        .await
        .json()["error"];
    assert_eq!(error["param"], "messages[0].content[0]", "{error}");
    let said = error["message"].as_str().expect("a message");
    assert!(said.contains("the model takes no images"), "{said}");

    // In other dialects, by their names.
    let item = |url: &str| {
        json!({ "role": "user", "content": [
            { "type": "input_text", "text": "a" },
            { "type": "input_image", "image_url": url },
        ]})
    };
    let input = [item(&good), item("data:,")];
    let request = json!({ "model": "sees", "instructions": "Look.", "input": input });
    let answer = read(server.post("/v1/responses", request.to_string())).await;
    assert_eq!(answer.status, 400);
    assert_eq!(
        answer.json()["error"]["param"],
        "input[1].content[1]",
        "{}",
        answer.text
    );
    // The server goes on.
    let answer = server.chat(&chat("sees", &[good])).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn models_say_what_they_take() {
    let server = server().await;
    let models = server.get("/v3/models").await.json();
    let takes = |name: &str| {
        let models = models["data"].as_array().expect("a list");
        let model = models.iter().find(|model| model["id"] == name);
        model.expect("the graph")["input_modalities"].clone()
    };
    assert_eq!(takes("sees"), json!(["text", "image"]));
    assert_eq!(takes("reads"), Value::Null);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_projector_is_found_beside_its_model_or_named_where_it_is_wrong() {
    let setup = Setup::new();
    for folder in ["found", "left", "wide", "none"] {
        let folder = setup.path().join(folder);
        std::fs::create_dir_all(&folder).expect("writable");
        std::fs::copy(model(), folder.join("tiny.gguf")).expect("writable");
    }
    make(&setup.path().join("found"), Kind::Square, MODEL_WIDTH, 1.0);
    make(&setup.path().join("left"), Kind::Square, MODEL_WIDTH, 1.0);
    make(
        &setup.path().join("wide"),
        Kind::Square,
        2 * MODEL_WIDTH,
        1.0,
    );
    let of = |folder: &str, options: &str| {
        CHAT.replace("../model.script.json", &format!("../{folder}"))
            .replace(
                "max_num_seqs: 4",
                &format!("max_num_seqs: 2 max_context: 256 {options}"),
            )
    };
    let server = setup
        .graph("finds", &of("found", ""))
        .graph("leaves", &of("left", "mmproj: \"none\""))
        .graph("wide", &of("wide", "mmproj: \"../wide/mmproj.gguf\""))
        .graph("skips", &of("wide", ""))
        .graph("missing", &of("none", "mmproj: \"nowhere.gguf\""))
        .graph("needs", &of("none", "pipeline_type: VLM_CB"))
        .start()
        .await;
    let seen = chat("finds", &[url(&png(8, 8, 1))]);
    assert_eq!(server.chat(&seen).await.status, 200);
    let blind = server.chat(&chat("leaves", &[url(&png(8, 8, 1))])).await;
    assert_eq!(blind.status, 400);
    // Nobody asked for the projector that only lies there.
    let blind = server.chat(&chat("skips", &[url(&png(8, 8, 1))])).await;
    assert_eq!(blind.status, 400);
    assert_eq!(server.chat(&question("skips", "a")).await.status, 200);
    let config = server.get("/v1/config").await.json();
    for (graph, expected) in [
        ("wide", "mmproj"),
        ("missing", "mmproj"),
        ("needs", "pipeline_type"),
    ] {
        let status = &config[graph]["model_version_status"][0]["status"];
        let message = status["error_message"].as_str().expect("a message");
        assert!(message.contains(expected), "{graph}: {message}");
    }
}
