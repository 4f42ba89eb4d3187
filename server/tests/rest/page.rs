//! The page at `/`, as a browser asks for it.

use flate2::read::GzDecoder;
use serde_json::json;
use std::io::Read as _;

use crate::rest::support::{CHAT, Setup, TestServer, read};

async fn server(web: bool) -> TestServer {
    Setup::new()
        .graph("chat", CHAT)
        .script(&json!({ "replies": [{ "text": "hello" }] }))
        .with(move |options| options.web = web)
        .start()
        .await
}

#[tokio::test]
async fn the_page_may_load_nothing_from_elsewhere() {
    let server = server(true).await;
    let page = server.get("/").await;
    assert_eq!(page.status, 200);
    assert_eq!(
        page.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    let policy = page.header("content-security-policy").expect("a policy");
    for part in [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
    ] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert!(!page.text.contains("http://") && !page.text.contains("https://"));
}

#[tokio::test]
async fn files_are_known_by_their_tags_and_sent_compressed() {
    let server = server(true).await;
    let plain = server.get("/page/main.js").await;
    assert_eq!(
        plain.header("content-type"),
        Some("text/javascript; charset=utf-8")
    );
    let tag = plain.header("etag").expect("a tag").to_owned();
    let ask = || server.client.get(format!("{}/page/main.js", server.url));
    let again = read(ask().header("if-none-match", &tag)).await;
    assert_eq!((again.status, again.text.as_str()), (304, ""));
    let other = read(ask().header("if-none-match", "W/\"other\"")).await;
    assert_eq!(other.status, 200);
    let compressed = ask().header("accept-encoding", "br, gzip;q=0.8").send();
    let compressed = compressed.await.expect("an answer");
    assert_eq!(compressed.headers()["content-encoding"], "gzip");
    let bytes = compressed.bytes().await.expect("a body");
    assert!(bytes.len() < plain.text.len());
    let mut text = String::new();
    GzDecoder::new(&bytes[..])
        .read_to_string(&mut text)
        .expect("what gzip made");
    assert_eq!(text, plain.text);
    let refused = read(ask().header("accept-encoding", "gzip;q=0")).await;
    assert_eq!(refused.header("content-encoding"), None);
}

#[tokio::test]
async fn what_was_not_built_is_not_there() {
    let server = server(true).await;
    for path in ["/page/nothing.js", "/page/../Cargo.toml", "/page/"] {
        assert_eq!(server.get(path).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn a_server_without_the_page_has_no_such_paths() {
    let server = server(false).await;
    let reply = server.get("/page/main.js").await;
    assert_eq!(reply.status, 404, "{reply:?}");
    assert_eq!(reply.json()["error"]["code"], "unknown_url");
    // It is a path of clients that send a prompt there.
    assert_eq!(server.get("/").await.status, 405);
    let document = server.get("/openapi.json").await.json();
    assert_eq!(document["paths"]["/"].get("get"), None);
}

#[tokio::test]
async fn the_document_says_which_paths_do_the_same() {
    let server = server(true).await;
    let document = server.get("/openapi.json").await.json();
    assert!(!document["info"].to_string().contains("/v1"));
    let mut with_others = 0;
    for (path, methods) in document["paths"].as_object().expect("paths") {
        let Some(operation) = methods.get("get") else {
            continue;
        };
        let told = operation["description"].as_str().unwrap_or_default();
        let Some(behind) = path.strip_prefix("/v3/") else {
            continue;
        };
        if behind.contains('{') {
            continue;
        }
        let other = format!("/v1/{behind}");
        let is_there = server.get(&other).await.status != 404;
        assert_eq!(is_there, told.contains(&format!("`{other}`")), "{other}");
        with_others += usize::from(is_there);
    }
    assert!(with_others > 0);
    let chat = &document["paths"]["/v3/chat/completions"]["post"]["description"];
    assert_eq!(
        chat,
        "Also available at `/v1/chat/completions`, `/v3/v1/chat/completions`."
    );
}
