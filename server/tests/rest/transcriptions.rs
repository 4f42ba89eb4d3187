//! `audio/transcriptions`: forms with a file of sound, and what is answered in the place of a
//! transcript by a model that knows none.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use graphmill_testkit::projector::SOUND_POSITIONS;
use serde_json::{Value, json};

use crate::rest::sound_files::{Wav, mp3};
use crate::rest::sounds;
use crate::rest::support::{Reply, TestServer, read};

const PATHS: [&str; 3] = [
    "/v1/audio/transcriptions",
    "/v3/audio/transcriptions",
    "/v3/v1/audio/transcriptions",
];

/// A form with a file and these fields.
fn form(file: &[u8], fields: &[(&str, &str)]) -> Vec<u8> {
    let mut form = Vec::new();
    for (name, value) in fields {
        let head = format!("--edge\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n");
        form.extend(head.bytes().chain(value.bytes()).chain(*b"\r\n"));
    }
    let head = "--edge\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\nContent-Type: audio/wav\r\n\r\n";
    form.extend(head.bytes().chain(file.iter().copied()));
    form.extend(b"\r\n--edge--\r\n");
    form
}

async fn send(server: &TestServer, path: &str, body: Vec<u8>) -> Reply {
    send_as(server, path, "multipart/form-data; boundary=edge", body).await
}

async fn send_as(server: &TestServer, path: &str, kind: &str, body: Vec<u8>) -> Reply {
    let request = server.client.post(format!("{}{path}", server.url));
    read(request.header("content-type", kind).body(body)).await
}

async fn ask(server: &TestServer, file: &[u8], fields: &[(&str, &str)]) -> Reply {
    let usual = [
        ("model", "hears"),
        ("temperature", "0"),
        ("max_tokens", "12"),
    ];
    let fields = [&usual, fields].concat();
    send(server, PATHS[0], form(file, &fields)).await
}

fn text(answer: &Value) -> &str {
    let text = answer["text"].as_str();
    text.unwrap_or_else(|| panic!("{answer}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_is_answered_as_a_whole_as_a_text_and_as_a_stream() {
    let server = sounds::server().await;
    let file = Wav::SHORT.file();
    let answer = ask(&server, &file, &[]).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let whole = answer.json();
    let usage = &whole["usage"];
    let details = &usage["input_token_details"];
    assert_eq!(details["audio_tokens"], SOUND_POSITIONS, "{whole}");
    let count = |value: &Value| value.as_u64().expect("a number");
    let inputs = count(&details["audio_tokens"]) + count(&details["text_tokens"]);
    assert_eq!(usage["input_tokens"], inputs);
    assert_eq!(
        usage["total_tokens"],
        inputs + count(&usage["output_tokens"])
    );

    let plain = ask(&server, &file, &[("response_format", "text")]).await;
    assert_eq!(plain.text, text(&whole));
    let kind = plain.header("content-type");
    assert_eq!(kind, Some("text/plain; charset=utf-8"));

    let stream = ask(&server, &file, &[("stream", "true")]).await;
    let events: Vec<Value> = stream
        .text
        .split_terminator("\n\n")
        .map(|event| event.strip_prefix("data: ").expect("a data line"))
        .map(|data| serde_json::from_str(data).expect("JSON"))
        .collect();
    let (done, deltas) = events.split_last().expect("events");
    let joined: String = deltas
        .iter()
        .filter_map(|it| it["delta"].as_str())
        .collect();
    assert_eq!(joined, text(&whole));
    let are_deltas = deltas
        .iter()
        .all(|it| it["type"] == "transcript.text.delta");
    assert!(are_deltas, "{deltas:?}");
    assert_eq!(done["type"], "transcript.text.done");
    assert_eq!(
        (text(done), &done["usage"]["output_tokens"]),
        (text(&whole), &usage["output_tokens"])
    );

    for path in PATHS {
        let fields = [
            ("temperature", "0"),
            ("max_tokens", "12"),
            ("model", "hears"),
        ];
        let again = send(&server, path, form(&file, &fields)).await;
        assert_eq!(text(&again.json()), text(&whole), "{path}");
    }
    // The same as JSON, and as the conversation that it stands for.
    let request = json!({
        "model": "hears", "temperature": 0, "max_tokens": 12, "file": STANDARD.encode(&file),
    });
    let again = read(server.post(PATHS[0], request.to_string())).await;
    assert_eq!(text(&again.json()), text(&whole));
    let explained = read(server.post(&format!("{}?explain=1", PATHS[0]), request.to_string()));
    let explained = explained.await;
    assert!(
        explained.text.contains("<__sound__>Transcribe the speech"),
        "{}",
        explained.text
    );
    let other = ask(&server, &mp3(40), &[("language", "de"), ("prompt", "1984")]).await;
    let more = count(&other.json()["usage"]["input_tokens"]);
    assert!(more > inputs, "{}", other.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_a_form_is_told_by_its_field() {
    let server = sounds::server().await;
    let good = Wav::SHORT.file();
    let refused = |reply: Reply, param: Value, code: &str, status: u16| {
        let error = &reply.json()["error"];
        assert_eq!(reply.status, status, "{error}");
        assert_eq!(
            (&error["param"], &error["code"]),
            (&param, &json!(code)),
            "{error}"
        );
    };
    for (field, value, code) in [
        ("response_format", "verbose_json", "unsupported_parameter"),
        ("response_format", "srt", "unsupported_parameter"),
        ("temperature", "hot", "invalid_type"),
        ("temperature", "7", "invalid_value"),
        ("stream", "perhaps", "invalid_type"),
        ("top_k", "0.5", "invalid_type"),
    ] {
        let reply = ask(&server, &good, &[(field, value)]).await;
        refused(reply, json!(field), code, 400);
    }
    let words = ask(&server, &good, &[("timestamp_granularities[]", "word")]).await;
    refused(
        words,
        json!("timestamp_granularities"),
        "unsupported_parameter",
        400,
    );
    for (file, code) in [
        (&b""[..], "invalid_audio"),
        (b"no sound", "invalid_audio"),
        (&good[..44], "invalid_audio"),
        (&vec![0; 400_001], "audio_too_large"),
    ] {
        refused(ask(&server, file, &[]).await, json!("file"), code, 400);
    }
    for model in ["sees", "reads"] {
        let reply = ask(&server, &good, &[("model", model)]).await;
        refused(reply, json!("file"), "unsupported_parameter", 400);
    }
    let reply = ask(&server, &good, &[("model", "nobody")]).await;
    assert_eq!(reply.status, 404, "{}", reply.text);
    let without = send(&server, PATHS[0], form(&good, &[])).await;
    refused(without, json!("model"), "missing_required_parameter", 400);
    let mut cut = form(&good, &[("model", "hears")]);
    cut.truncate(300);
    let cut = send(&server, PATHS[0], cut).await;
    assert_eq!(cut.status, 400, "{}", cut.text);
    assert!(cut.text.contains("not a form"), "{}", cut.text);
    let whole = form(&good, &[("model", "hears")]);
    let unmarked = send_as(&server, PATHS[0], "multipart/form-data", whole).await;
    assert_eq!(unmarked.status, 400, "{}", unmarked.text);
    assert!(
        unmarked.text.contains("`boundary` is missing"),
        "{}",
        unmarked.text
    );
    // A form is for nobody else.
    let reply = send(
        &server,
        "/v1/chat/completions",
        form(&good, &[("model", "hears")]),
    )
    .await;
    assert_eq!(reply.status, 400, "{}", reply.text);
    assert_eq!(ask(&server, &good, &[]).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_has_so_many_parts() {
    let server = sounds::server().await;
    let parts = vec![("user", "x"); 16_384];
    let refused = send(&server, PATHS[0], form(&Wav::SHORT.file(), &parts)).await;
    assert_eq!(refused.status, 400, "{}", refused.text);
    assert_eq!(refused.json()["error"]["code"], "too_many_fields");
}
