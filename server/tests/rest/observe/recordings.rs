//! Recordings, and who may see what.

use reqwest::Method;
use serde_json::{Value, json};

use super::{CHAIN, act};
use crate::rest::{
    keys::{self, code, is},
    support::{Setup, TestServer, read, sessions},
};

fn actions() -> Value {
    json!([{ "event": "{\"n\":1}" }, { "done": true }])
}

async fn record(server: &TestServer, rule: &Value) -> Value {
    let reply = read(server.post("/v3/graphs/chain/recording", rule.to_string())).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

#[tokio::test]
async fn coming_sessions_are_recorded_as_long_as_the_rule_says() {
    let server = Setup::new().graph("chain", CHAIN).start().await;
    read(act(&server, "chain", "before", &actions())).await;
    let told = record(
        &server,
        &json!({ "sessions": 2, "rate": 0.5, "seconds": 100 }),
    )
    .await;
    assert_eq!(
        told["active"],
        json!({ "key": null, "rate": 0.5, "sessions": 2, "payloads": false, "seconds": 100 })
    );
    for id in ["r1", "r2", "r3", "r4", "r5", "r6"] {
        assert_eq!(
            read(act(&server, "chain", id, &actions())).await.status,
            200
        );
    }
    server.until_idle().await;
    let listed = server.get("/v3/graphs/chain/recording").await.json();
    assert_eq!(listed["active"], json!(null), "two were recorded");
    let recordings = listed["recordings"].as_array().expect("a list");
    let ids: Vec<&Value> = recordings.iter().map(|it| &it["id"]).collect();
    assert_eq!(ids, ["r4", "r2"], "every second, the newest first");
    assert_eq!(recordings[0]["state"], "ended");

    let trace = server.get("/v3/sessions/r2/trace").await.json();
    assert_eq!(
        (
            &trace["id"],
            &trace["graph"],
            &trace["state"],
            &trace["dropped"]
        ),
        (&json!("r2"), &json!("chain"), &json!("ended"), &json!(0))
    );
    assert_eq!(trace["nodes"], json!(["actor", "first", "second", "third"]));
    let events = trace["events"].as_array().expect("a list");
    assert_eq!(recordings[0]["events"], events.len());
    let calls = events
        .iter()
        .filter(|it| it["kind"] == "call" && it["node"] == "second");
    let calls: Vec<&Value> = calls.collect();
    assert_eq!(calls.len(), 3, "two packets, and the end: {trace}");
    assert!(calls[0]["t_us"].is_u64() && calls[0]["dur_us"].is_u64());
    assert_eq!(calls[0]["timestamp"], 1);
    let packet = events.iter().find(|it| it["stream"] == "output");
    assert_eq!(packet.expect("a packet")["kind"], "packet");

    let chrome = server
        .get("/v3/sessions/r2/trace?format=chrome")
        .await
        .json();
    let events = chrome["traceEvents"].as_array().expect("a list");
    let complete = events
        .iter()
        .find(|it| it["ph"] == "X" && it["name"] == "third");
    assert!(complete.expect("a call")["dur"].is_number());

    let unknown = server.get("/v3/sessions/before/trace").await;
    assert_eq!(unknown.status, 404);
    assert!(
        unknown.text.contains("x-graphmill-record"),
        "{}",
        unknown.text
    );
    let without = server.get("/v3/sessions/r2/recording").await;
    assert_eq!(without.status, 404);
    assert!(without.text.contains("payloads"), "{}", without.text);
}

#[tokio::test]
async fn a_rule_ends_when_it_is_told_to() {
    let server = Setup::new().graph("chain", CHAIN).start().await;
    record(&server, &json!({})).await;
    let delete = || {
        let url = format!("{}/v3/graphs/chain/recording", server.url);
        read(server.client.delete(url))
    };
    assert_eq!(delete().await.status, 204);
    // It has ended, whoever ended it.
    assert_eq!(delete().await.status, 204);
    read(act(&server, "chain", "after", &actions())).await;
    let listed = server.get("/v3/graphs/chain/recording").await.json();
    assert_eq!(listed, json!({ "active": null, "recordings": [] }));
    for (wrong, field) in [
        (json!({ "rate": 0 }), "rate"),
        (json!({ "sessions": 101 }), "sessions"),
        (json!({ "sessions": 0 }), "sessions"),
        (json!({ "seconds": 3_601 }), "seconds"),
        (json!({ "sessions": "many" }), "sessions"),
        (json!({ "seconds": 1.5 }), "seconds"),
        (json!({ "key": null }), "key"),
        (json!({ "payload": true }), "payload"),
    ] {
        let reply = read(server.post("/v3/graphs/chain/recording", wrong.to_string())).await;
        assert_eq!(reply.status, 400, "{wrong}: {}", reply.text);
        let error = &reply.json()["error"];
        assert_eq!(error["param"], field, "{wrong}: {error}");
        let message = error["message"].as_str().expect("a message");
        assert!(message.contains(&format!("`{field}`")), "{message}");
    }
    for wrong in ["[]", "7"] {
        let reply = read(server.post("/v3/graphs/chain/recording", wrong.to_owned())).await;
        assert_eq!(reply.status, 400, "{wrong}: {}", reply.text);
        assert!(reply.text.contains("an object"), "{wrong}: {}", reply.text);
    }
    let unknown = read(server.post("/v3/graphs/nobody/recording", "")).await;
    assert_eq!(unknown.status, 404);
}

#[tokio::test]
async fn packets_are_recorded_with_what_they_carry() {
    let observation = json!({ "redact": ["secret"] });
    let setup = Setup::new()
        .graph("chain", CHAIN)
        .says("observation", observation);
    let server = setup.start().await;
    let actions = json!([{ "event": "{\"n\":\"secret\"}" }, { "done": true }]);
    let request = act(&server, "chain", "mine", &actions);
    assert_eq!(
        read(request.header("x-graphmill-record", "payloads"))
            .await
            .status,
        200
    );
    server.until_idle().await;
    let reply = server.get("/v3/sessions/mine/recording").await;
    assert_eq!(reply.header("content-type"), Some("application/x-ndjson"));
    let mut lines = reply.text.lines();
    let mut line = || serde_json::from_str::<Value>(lines.next().expect("a line")).expect("JSON");
    let head = line();
    assert_eq!(
        (
            &head["graphmill_recording"],
            &head["graph"],
            &head["id"],
            &head["dropped"]
        ),
        (&json!(1), &json!("chain"), &json!("mine"), &json!(0))
    );
    assert_eq!(head["text"], CHAIN);
    let request = line();
    assert_eq!(
        (&request["stream"], &request["type"]),
        (&json!("input"), &json!("http_request"))
    );
    let said = line();
    let expected = json!({
        "stream": "a", "timestamp": 1, "type": "http_response",
        "payload": { "event": { "n": "[redacted]" } }, "side": false,
    });
    assert_eq!(said, expected);
    assert!(!reply.text.contains("secret"), "{}", reply.text);
    let wrong = act(&server, "chain", "other", &actions).header("x-graphmill-record", "yes");
    assert_eq!(read(wrong).await.status, 400);
}

#[tokio::test]
async fn an_open_session_shows_what_it_did_so_far() {
    let server = Setup::new().graph("chain", CHAIN).start().await;
    let hang = json!([{ "event": "{}" }, { "hang": true }]);
    let request = act(&server, "chain", "open", &hang).header("x-graphmill-record", "1");
    let mut response = request.send().await.expect("an answer");
    response.chunk().await.expect("no error").expect("an event");
    let trace = server.get("/v3/sessions/open/trace").await.json();
    assert_eq!(trace["state"], "open");
    let events = trace["events"].as_array().expect("a list");
    assert!(events.iter().any(|it| it["node"] == "third"), "{trace}");
    drop(response);
    server.until("closed", |status| sessions(status) == 0).await;
    let trace = server.get("/v3/sessions/open/trace").await.json();
    assert_eq!(trace["state"], "ended");
}

#[tokio::test]
async fn payloads_are_for_keys_that_administer() {
    let secrets = [
        "asks-questions-all-day",
        "reads-the-metrics-only",
        "does-what-it-wants-to",
    ];
    let scopes = ["infer", "metrics", "admin"];
    let keys = secrets
        .iter()
        .zip(scopes)
        .map(|(secret, scope)| json!({ "name": scope, "key": secret, "scopes": [scope] }));
    let server = keys::server(&json!(keys.collect::<Vec<_>>())).await;
    let [infer, metrics, admin] = secrets;
    for path in [
        "/v3/graphs",
        "/v3/graphs/chat",
        "/v3/sessions",
        "/v3/graphs/chat/recording",
    ] {
        assert_eq!(keys::get(&server, infer, path).await.status, 403, "{path}");
        assert_eq!(
            keys::get(&server, metrics, path).await.status,
            200,
            "{path}"
        );
        assert_eq!(keys::get(&server, admin, path).await.status, 200, "{path}");
    }
    for path in [
        "/v3/graphs/chat/tap?stream=output",
        "/v3/sessions/x/recording",
    ] {
        let reply = keys::get(&server, metrics, path).await;
        assert_eq!(code(&reply), is(403, "permission_denied"), "{path}");
    }
    // What changes something or takes time is refused before its body is looked at.
    for (method, path) in [
        (Method::POST, "/v3/graphs/chat/recording"),
        (Method::DELETE, "/v3/graphs/chat/recording"),
        (Method::PUT, "/v3/graphs/chat/file"),
        (Method::POST, "/v3/check"),
        (Method::POST, "/v3/playground"),
    ] {
        for key in [infer, metrics] {
            let url = format!("{}{path}", server.url);
            let request = server.client.request(method.clone(), url).bearer_auth(key);
            let reply = read(request.body("{}")).await;
            assert_eq!(
                code(&reply),
                is(403, "permission_denied"),
                "{method} {path}"
            );
        }
    }
    for path in ["events", "file"].map(|what| format!("/v3/graphs/chat/{what}")) {
        let reply = keys::get(&server, infer, &path).await;
        assert_eq!(code(&reply), is(403, "permission_denied"), "{path}");
    }
    let rule = json!({ "sessions": 1 });
    let path = "/v3/graphs/chat/recording";
    assert_eq!(keys::post(&server, metrics, path, &rule).await.status, 403);
    assert_eq!(keys::post(&server, admin, path, &rule).await.status, 200);
    // The next session of one key is recorded, and not those of others before it.
    let rule = json!({ "sessions": 1, "key": "admin" });
    assert_eq!(keys::post(&server, admin, path, &rule).await.status, 200);
    let question = crate::rest::support::question("chat", "hi");
    assert_eq!(keys::chat(&server, infer, &question).await.status, 200);
    let listed = keys::get(&server, metrics, path).await.json();
    assert_eq!(listed["active"]["key"], "admin");
    assert_eq!(listed["recordings"], json!([]));
    let rule = json!({ "sessions": 1, "key": "infer" });
    assert_eq!(keys::post(&server, admin, path, &rule).await.status, 200);
    assert_eq!(keys::chat(&server, infer, &question).await.status, 200);
    let listed = keys::get(&server, metrics, path).await.json();
    assert_eq!(listed["active"], Value::Null);
    assert_eq!(listed["recordings"].as_array().map(Vec::len), Some(1));
    let request = server.post("/v3/chat/completions", question.to_string());
    let request = request.header("authorization", format!("Bearer {infer}"));
    let refused = read(request.header("x-graphmill-record", "1")).await;
    assert_eq!(
        code(&refused),
        is(403, "permission_denied"),
        "{}",
        refused.text
    );
}
