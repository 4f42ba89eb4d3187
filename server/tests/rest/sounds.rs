//! Sounds in requests, with the repository's small model and a projector with random weights: what
//! is asked of them is that they are read, counted, cached, and refused where they are wrong.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use graphmill_testkit::projector::{Kind, MODEL_WIDTH, POSITIONS, SOUND_POSITIONS, make};
use serde_json::{Value, json};

use crate::rest::images::{graph, png, said, url};
use crate::rest::sound_files::{Wav, flac, mp3};
use crate::rest::support::{Reply, Setup, TestServer, read};

/// Bytes, seconds and sounds that a request may have.
const LIMITS: &str = "max_sounds: 3 max_sound_bytes: 400000 max_sound_seconds: 40";

/// A server whose graph `hears` reads sound, `both` also images, and `sees` and `reads` none.
pub(crate) async fn server() -> TestServer {
    let mut setup = Setup::new();
    let common = "max_num_seqs: 4 max_context: 512";
    for (name, kind) in [
        ("hears", Kind::Sound),
        ("both", Kind::Both),
        ("sees", Kind::Square),
    ] {
        let folder = setup.path().join(format!("{kind:?}"));
        std::fs::create_dir_all(&folder).expect("writable");
        let projector = make(&folder, kind, MODEL_WIDTH, 4.0);
        let options = format!("{common} mmproj: \"{}\" {LIMITS}", projector.display());
        setup = setup.graph(name, &graph(&options));
    }
    setup.graph("reads", &graph(common)).start().await
}

fn part(file: &[u8]) -> Value {
    let data = STANDARD.encode(file);
    json!({ "type": "input_audio", "input_audio": { "data": data, "format": "wav" } })
}

/// A chat with these parts and a question behind them.
fn chat(model: &str, parts: &[Value]) -> Value {
    let mut parts = parts.to_vec();
    parts.push(json!({ "type": "text", "text": "What is this?" }));
    json!({
        "model": model, "temperature": 0, "max_tokens": 12, "ignore_eos": true,
        "logprobs": true, "messages": [{ "role": "user", "content": parts }],
    })
}

/// The log probability of the first token of an answer, and what tells answers apart.
fn chance(answer: &Value) -> f64 {
    let first = &answer["choices"][0]["logprobs"]["content"][0]["logprob"];
    first.as_f64().unwrap_or_else(|| panic!("{answer}"))
}

/// Refused as this, about the second part of a message.
fn is_refused(reply: &Reply, code: &str, message: &str, of: &str) {
    let error = &reply.json()["error"];
    assert_eq!(reply.status, 400, "{of}: {error}");
    assert_eq!(error["code"], code, "{of}: {error}");
    assert_eq!(error["param"], "messages[0].content[1]", "{of}: {error}");
    let said = error["message"].as_str().expect("a message");
    assert!(said.contains(message), "{of}: {said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sound_is_read_counted_and_known_again() {
    let server = server().await;
    let plain = server.chat(&chat("hears", &[])).await.json();
    let without = plain["usage"]["prompt_tokens"].as_u64().expect("a number");
    let details = &plain["usage"]["prompt_tokens_details"];
    assert_eq!(details["audio_tokens"], Value::Null, "{plain}");
    let files = [220.0, 1760.0].map(|pitch| {
        Wav {
            pitch,
            ..Wav::SHORT
        }
        .file()
    });
    let mut chances = Vec::new();
    for file in &files {
        let first = server.chat(&chat("hears", &[part(file)])).await.json();
        let usage = &first["usage"];
        let details = &usage["prompt_tokens_details"];
        assert_eq!(usage["prompt_tokens"], without + SOUND_POSITIONS, "{first}");
        assert_eq!(details["audio_tokens"], SOUND_POSITIONS, "{first}");
        let again = server.chat(&chat("hears", &[part(file)])).await.json();
        assert_eq!(said(&first), said(&again));
        let cached = &again["usage"]["prompt_tokens_details"]["cached_tokens"];
        assert_eq!(*cached, without + SOUND_POSITIONS - 1, "{again}");
        chances.push(chance(&first));
    }
    assert!((chances[0] - chances[1]).abs() > 1e-3, "{chances:?}");
    let both = files.map(|file| part(&file));
    let both = server.chat(&chat("hears", &both)).await.json();
    let tokens = &both["usage"]["prompt_tokens"];
    assert_eq!(*tokens, without + 2 * SOUND_POSITIONS, "{both}");
    // What is longer than half a minute has another half.
    let long = Wav {
        seconds: 35.0,
        rate: 4_000,
        ..Wav::SHORT
    }
    .file();
    let long = server.chat(&chat("hears", &[part(&long)])).await.json();
    let tokens = &long["usage"]["prompt_tokens_details"]["audio_tokens"];
    assert_eq!(*tokens, 2 * SOUND_POSITIONS, "{long}");
    let status = server.status().await;
    let engines = status["engines"].as_array().expect("a list");
    let engine = engines.iter().find(|engine| engine["graph"] == "hears");
    let kept = &engine.expect("the engine")["image_cache"];
    assert_eq!((&kept["queries"], &kept["hits"]), (&json!(7), &json!(4)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sound_is_heard_alike_at_each_rate_and_in_each_format() {
    let server = server().await;
    let wav = |rate, channels| {
        Wav {
            rate,
            channels,
            ..Wav::SHORT
        }
        .file()
    };
    let mut chances = Vec::new();
    for (rate, channels) in [
        (16_000, 1),
        (16_000, 2),
        (8_000, 1),
        (48_000, 2),
        (44_100, 1),
    ] {
        let file = wav(rate, channels);
        let answer = server.chat(&chat("hears", &[part(&file)])).await;
        assert_eq!(answer.status, 200, "{rate}: {}", answer.text);
        chances.push(chance(&answer.json()));
    }
    // Two channels that say the same are one.
    assert!((chances[0] - chances[1]).abs() < 1e-6, "{chances:?}");
    let near = |one: f64| (one - chances[0]).abs() < 0.15;
    assert!(chances.iter().all(|one| near(*one)), "{chances:?}");
    // The file says what it is; the request need not.
    for (file, format) in [(mp3(40), "mp3"), (flac(8), "flac"), (wav(16_000, 1), "mp3")] {
        let mut part = part(&file);
        part["input_audio"]["format"] = format.into();
        let answer = server.chat(&chat("hears", &[part])).await;
        assert_eq!(answer.status, 200, "{format}: {}", answer.text);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_other_dialects_and_images_beside_sounds() {
    let server = server().await;
    let file = Wav::SHORT.file();
    let expected = server.chat(&chat("both", &[part(&file)])).await.json();
    let mut streamed = chat("both", &[part(&file)]);
    streamed["stream"] = true.into();
    let events = server.chat(&streamed).await.events();
    let text: String = events
        .iter()
        .filter_map(|event| event["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert_eq!(text, said(&expected));
    let request = json!({
        "model": "both", "temperature": 0, "max_output_tokens": 12, "ignore_eos": true,
        "input": [{ "role": "user", "content": [
            part(&file), { "type": "input_text", "text": "What is this?" },
        ]}],
    });
    let answer = read(server.post("/v1/responses", request.to_string()))
        .await
        .json();
    let text = &answer["output"][0]["content"][0]["text"];
    assert_eq!(*text, said(&expected), "{answer}");
    let tokens = &answer["usage"]["input_tokens"];
    assert_eq!(*tokens, expected["usage"]["prompt_tokens"]);
    let request = chat("both", &[part(&file)]).to_string();
    let rendered = read(server.post("/v1/chat/completions/render", request))
        .await
        .json();
    assert_eq!(
        rendered["count"], expected["usage"]["prompt_tokens"],
        "{rendered}"
    );
    let prompt = rendered["prompt"].as_str().expect("a text");
    assert!(prompt.contains("<__sound__>What is this?"), "{prompt}");

    let plain = server.chat(&chat("both", &[])).await.json();
    let without = plain["usage"]["prompt_tokens"].as_u64().expect("a number");
    let image = json!({ "type": "image_url", "image_url": { "url": url(&png(8, 8, 1)) } });
    let mixed = server
        .chat(&chat("both", &[image, part(&file)]))
        .await
        .json();
    let usage = &mixed["usage"];
    assert_eq!(
        usage["prompt_tokens"],
        without + POSITIONS + SOUND_POSITIONS,
        "{mixed}"
    );
    assert_eq!(
        usage["prompt_tokens_details"]["audio_tokens"],
        SOUND_POSITIONS
    );
    let block = json!([part(&file), { "type": "text", "text": "Hello" }]);
    let request = json!({
        "model": "both", "max_tokens": 1, "messages": [{ "role": "user", "content": block }],
    });
    let answer = read(server.post("/v1/messages", request.to_string())).await;
    assert_eq!(answer.status, 400, "{}", answer.text);
    assert!(
        answer.text.contains("messages[0].content[0].type"),
        "{}",
        answer.text
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_sounds_are_refused_by_name() {
    let server = server().await;
    let good = part(&Wav::SHORT.file());
    let mut wild = Wav::SHORT.file();
    wild[24..28].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut many = Wav::SHORT.file();
    many[22..24].copy_from_slice(&64_u16.to_le_bytes());
    many[32..34].copy_from_slice(&128_u16.to_le_bytes());
    let bad: [(&str, Vec<u8>, &str, &str); 9] = [
        ("empty", Vec::new(), "invalid_audio", "not a WAV"),
        (
            "text",
            b"no sound".to_vec(),
            "invalid_audio",
            "not a WAV, MP3 or FLAC",
        ),
        (
            "header",
            Wav::SHORT.file()[..20].to_vec(),
            "invalid_audio",
            "",
        ),
        (
            "no samples",
            Wav::SHORT.file()[..44].to_vec(),
            "invalid_audio",
            "less than a 10th",
        ),
        ("rate", wild, "invalid_audio", "4294967295 samples"),
        ("channels", many, "invalid_audio", ""),
        (
            "bytes",
            vec![0; 400_001],
            "audio_too_large",
            "max_sound_bytes",
        ),
        (
            "seconds",
            Wav {
                seconds: 41.0,
                rate: 4_000,
                ..Wav::SHORT
            }
            .file(),
            "audio_too_large",
            "more than 40 seconds (max_sound_seconds)",
        ),
        // An hour and more in half a megabyte.
        ("bomb", flac(20_000), "audio_too_large", "max_sound_seconds"),
    ];
    for (what, file, code, message) in bad {
        let parts = [good.clone(), part(&file)];
        let reply = server.chat(&chat("hears", &parts)).await;
        is_refused(&reply, code, message, what);
    }
    let mut untold = part(b"");
    untold["input_audio"]["data"] = "A*A=".into();
    let reply = server.chat(&chat("hears", &[good.clone(), untold])).await;
    is_refused(&reply, "invalid_audio", "not Base64", "no Base64");
    let four = vec![good.clone(); 4];
    let error = &server.chat(&chat("hears", &four)).await.json()["error"];
    assert_eq!(error["param"], "messages[0].content[3]", "{error}");
    assert_eq!(error["code"], "too_many_audios", "{error}");

    let audio = "messages[0].content[0].input_audio";
    for (sound, field) in [
        (json!(null), audio.to_owned()),
        (json!("AAAA"), audio.to_owned()),
        (json!({}), format!("{audio}.data")),
        (json!({ "data": 1 }), format!("{audio}.data")),
        (
            json!({ "data": "AAAA", "format": "ogg" }),
            format!("{audio}.format"),
        ),
    ] {
        let part = json!({ "type": "input_audio", "input_audio": sound });
        let reply = server.chat(&chat("hears", &[part])).await;
        assert_eq!(reply.status, 400, "{}", reply.text);
        assert_eq!(reply.json()["error"]["param"], field, "{}", reply.text);
    }
    let answer = server.chat(&chat("hears", &[good])).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_sounds_end_nothing_but_their_requests() {
    let server = server().await;
    for (format, whole) in [
        ("wav", Wav::SHORT.file()),
        ("mp3", mp3(20)),
        ("flac", flac(8)),
    ] {
        for seed in 0..40_usize {
            let mut file = whole.clone();
            for change in 0..3 {
                let at = (seed * 31 + change * 7919) % file.len().min(120);
                file[at] ^= (seed * 37 + change * 11 + 1) as u8;
            }
            file.truncate(file.len() - seed * file.len() / 50);
            let answer = server.chat(&chat("hears", &[part(&file)])).await;
            let is_told = answer.status == 200 || answer.status == 400;
            assert!(
                is_told,
                "{format} {seed}: {} {}",
                answer.status, answer.text
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn models_say_whether_they_hear() {
    let server = server().await;
    let file = Wav::SHORT.file();
    for name in ["sees", "reads"] {
        let error = &server.chat(&chat(name, &[part(&file)])).await.json()["error"];
        assert_eq!(error["param"], "messages[0].content[0]", "{error}");
        assert_eq!(error["code"], "unsupported_parameter", "{error}");
        let said = error["message"].as_str().expect("a message");
        assert!(said.contains("the model takes no sound"), "{said}");
    }
    let image = json!({ "type": "image_url", "image_url": { "url": url(&png(8, 8, 1)) } });
    let error = &server.chat(&chat("hears", &[image])).await.json()["error"];
    assert_eq!(error["code"], "unsupported_parameter", "{error}");
    let said = error["message"].as_str().expect("a message");
    assert!(said.contains("the model takes no images"), "{said}");
    let models = server.get("/v3/models").await.json();
    let takes = |name: &str| {
        let models = models["data"].as_array().expect("a list");
        let model = models.iter().find(|model| model["id"] == name);
        model.expect("the graph")["input_modalities"].clone()
    };
    assert_eq!(takes("hears"), json!(["text", "audio"]));
    assert_eq!(takes("both"), json!(["text", "image", "audio"]));
    assert_eq!(takes("sees"), json!(["text", "image"]));
}
