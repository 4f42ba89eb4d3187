//! Requests that a browser sends for a page of somebody else's.

use crate::rest::support::{ACTOR, Reply, Setup, TestServer, read};
use serde_json::json;

async fn server(hosts: &'static [&'static str], origins: &'static [&'static str]) -> TestServer {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let setup = Setup::new().graph("actor", ACTOR).with(move |options| {
        options.allowed_hosts = owned(hosts);
        options.allowed_origins = owned(origins);
    });
    setup.start().await
}

/// POSTs with further headers.
async fn post(server: &TestServer, headers: &[(&str, &str)]) -> Reply {
    let body = json!({ "model": "actor", "actions": [{ "body": "done" }] }).to_string();
    let mut request = server
        .client
        .post(format!("{}/v3/chat/completions", server.url))
        .body(body);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    read(request).await
}

fn code(reply: &Reply) -> (u16, String) {
    let code = reply.json()["error"]["code"].as_str().map(str::to_owned);
    (reply.status, code.unwrap_or_default())
}

#[tokio::test]
async fn a_name_that_is_none_of_the_servers_is_refused() {
    let server = server(&["models.example.com"], &[]).await;
    for own in [
        "localhost",
        "127.0.0.1:1",
        "[::1]:8000",
        "LOCALHOST.:80",
        "models.example.com:443",
    ] {
        assert_eq!(post(&server, &[("host", own)]).await.text, "done", "{own}");
    }
    for foreign in [
        "evil.example",
        "evil.example:8000",
        "localhost.evil.example",
        "10.0.0.1",
    ] {
        let reply = post(&server, &[("host", foreign)]).await;
        assert_eq!(
            code(&reply),
            (421, "host_not_allowed".to_owned()),
            "{foreign}"
        );
        assert!(reply.header("x-request-id").is_some());
        let get = server
            .client
            .get(format!("{}/v3/models", server.url))
            .header("host", foreign);
        assert_eq!(read(get).await.status, 421);
    }
    let long = "x".repeat(10_000) + ".example";
    let reply = post(&server, &[("host", &long)]).await;
    assert!(
        reply.status == 421 && reply.text.len() < 400,
        "{}",
        reply.text
    );
    for not in ["user@localhost", "local host", ""] {
        let reply = post(&server, &[("host", not)]).await;
        assert_eq!(code(&reply), (400, "invalid_host".to_owned()), "{not}");
    }
}

#[tokio::test]
async fn what_pages_of_others_post_is_refused() {
    let server = server(&[], &[]).await;
    let port = server.server.addresses()[0].port();
    for content_type in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/json",
    ] {
        // Programs say no origin.
        assert_eq!(
            post(&server, &[("content-type", content_type)]).await.text,
            "done"
        );
        for foreign in [
            "http://evil.example",
            "null",
            "http://localhost:1",
            "https://127.0.0.1",
            "",
            "chrome-extension://a",
        ] {
            let reply = post(
                &server,
                &[("content-type", content_type), ("origin", foreign)],
            )
            .await;
            assert_eq!(
                code(&reply),
                (403, "origin_not_allowed".to_owned()),
                "{foreign}"
            );
        }
    }
    // Its own pages may.
    let own = format!("http://127.0.0.1:{port}");
    let reply = post(&server, &[("origin", &own)]).await;
    assert_eq!(
        (
            reply.text.as_str(),
            reply.header("access-control-allow-origin")
        ),
        ("done", None)
    );
    // What only reads is answered, and unreadable for the page.
    let get = server
        .client
        .get(format!("{}/v3/models", server.url))
        .header("origin", "http://evil.example");
    let reply = read(get).await;
    assert_eq!(
        (reply.status, reply.header("access-control-allow-origin")),
        (200, None)
    );
}

/// The answer to a browser that asks for what a page wants to send.
async fn preflight(server: &TestServer, origin: &str) -> Reply {
    let url = format!("{}/v3/chat/completions", server.url);
    let request = server.client.request(reqwest::Method::OPTIONS, url);
    let request = request
        .header("origin", origin)
        .header("access-control-request-method", "POST")
        .header(
            "access-control-request-headers",
            "content-type,authorization",
        );
    read(request).await
}

#[tokio::test]
async fn a_preflight_is_refused_as_the_request_that_it_asks_for() {
    for allowed in [&[][..], &["https://chat.example.com"]] {
        let server = server(&[], allowed).await;
        let asked = preflight(&server, "http://localhost:3000").await;
        let sent = post(&server, &[("origin", "http://localhost:3000")]).await;
        assert_eq!(code(&asked), (403, "origin_not_allowed".to_owned()));
        assert_eq!(asked.json(), sent.json());
        assert_eq!(asked.header("access-control-allow-origin"), None);
    }
}

#[tokio::test]
async fn pages_of_allowed_origins_may_send_and_read() {
    let origins = &[
        "https://chat.example.com",
        "http://localhost:*",
        "https://*.example.org",
        "chrome-extension://*",
    ];
    let server = server(&[], origins).await;
    for origin in [
        "https://chat.example.com",
        "http://localhost:5173",
        "https://a.example.org",
        "chrome-extension://abc",
    ] {
        let reply = preflight(&server, origin).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        assert_eq!(reply.header("access-control-allow-origin"), Some(origin));
        assert_eq!(
            reply.header("access-control-allow-headers"),
            Some("content-type,authorization")
        );
        let reply = post(&server, &[("origin", origin)]).await;
        assert_eq!(
            (
                reply.text.as_str(),
                reply.header("access-control-allow-origin")
            ),
            ("done", Some(origin))
        );
    }
    let reply = post(&server, &[("origin", "https://evil.example")]).await;
    assert_eq!(code(&reply), (403, "origin_not_allowed".to_owned()));
    assert_eq!(reply.header("access-control-allow-origin"), None);
}
