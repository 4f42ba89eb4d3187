//! What refusals say of a request is true of it: its numbers, the places in its text, its images.

use graphmill_dialects::bodies::{CHAT, COMPLETIONS, DETOKENIZE};
use serde_json::{Value, json};

use crate::rest::fields::{good, server, with};
use crate::rest::support::{Reply, TestServer, read};

async fn post(server: &TestServer, endpoint: &str, body: impl Into<reqwest::Body>) -> Reply {
    read(server.post(&format!("/v3/{endpoint}"), body)).await
}

/// The message of a refusal.
#[track_caller]
fn why(reply: &Reply) -> String {
    assert_eq!(reply.status, 400, "{}", reply.text);
    let message = reply.json()["error"]["message"].as_str().map(str::to_owned);
    message.unwrap_or_else(|| panic!("{}", reply.text))
}

#[tokio::test]
async fn a_number_that_is_too_large_is_told_what_is_the_most() {
    let server = server().await;
    let number = |text: &str| serde_json::from_str::<Value>(text).expect("a number");
    for (endpoint, field, given, expected) in [
        (
            CHAT,
            "max_tokens",
            "1000000000000000000",
            "at most 4294967295, not 1000000000000000000",
        ),
        (CHAT, "max_tokens", "1e30", "at most 4294967295, not 1e+30"),
        (CHAT, "n", "129", "at most 128, not 129"),
        (
            CHAT,
            "seed",
            "18446744073709551616",
            "at most 18446744073709551615, not 1.8446744073709552e+19",
        ),
    ] {
        let body = with(good(endpoint), &json!({ field: number(given) }));
        let reply = post(&server, endpoint, body.to_string()).await;
        assert_eq!(why(&reply), format!("`{field}` must be {expected}"));
    }
    for (endpoint, field) in [(COMPLETIONS, "prompt"), (DETOKENIZE, "tokens")] {
        for given in ["99999999999", "1e+20"] {
            let body = with(good(endpoint), &json!({ field: [number(given)] }));
            let reply = post(&server, endpoint, body.to_string()).await;
            let expected = format!("`{field}[0]` must be a token id, not {given}");
            assert_eq!(why(&reply), expected);
        }
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_told_with_its_place_in_the_body() {
    let server = server().await;
    for (endpoint, field, text) in [
        (CHAT, "temperature", "1e400|"),
        (
            CHAT,
            "messages",
            "[{\"role\": \"user\",\n  \"content\": \"\\ud83d\"|}]",
        ),
        (COMPLETIONS, "prompt", "[\"a\",\n \"\\ud83d\"|]"),
    ] {
        let mut others = good(endpoint);
        others.as_object_mut().expect("an object").remove(field);
        let others = serde_json::to_string_pretty(&others).expect("JSON");
        let head = others.strip_suffix("\n}").expect("an object").to_owned();
        let (before, behind) = text.split_once('|').expect("a place");
        let before = format!("{head},\n  \"{field}\": {before}");
        let line = before.lines().count();
        let column = before.lines().last().expect("a line").len();
        let reply = post(&server, endpoint, format!("{before}{behind}\n}}")).await;
        let why = why(&reply);
        assert!(
            why.starts_with(&format!("`{field}` cannot be read: ")),
            "{why}"
        );
        assert!(
            why.ends_with(&format!(" at line {line} column {column}")),
            "{why}: {line}:{column}"
        );
    }
}

#[tokio::test]
async fn a_path_that_is_no_text_is_refused_in_the_form_of_its_errors() {
    let server = server().await;
    for (path, at) in [
        ("/v3/models/%ff", "/error/message"),
        ("/v2/models/%ff", "/error"),
    ] {
        let reply = server.get(path).await;
        let found = (reply.status, reply.json().pointer(at).cloned());
        let why = "the percent-encoded path is not UTF-8";
        assert_eq!(found, (400, Some(json!(why))), "{path}");
    }
}
