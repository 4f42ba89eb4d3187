//! Graphs that are tried without being served.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{CHAIN, STALL};
use crate::rest::{
    keys::{self, code, is},
    support::{CHAT, Reply, Setup, TestServer, question, read},
};

const NUMBERS: &str = r#"
    input_stream: "in"
    output_stream: "out"
    node { name: "pass" calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }
"#;

async fn attempt(server: &TestServer, asked: &Value) -> Reply {
    read(server.post("/v3/playground", asked.to_string())).await
}

fn test(input: &str) -> String {
    format!("[[case]]\nname = \"a\"\ninput = [{input}]\n")
}

#[tokio::test]
async fn packets_go_through_a_graph_that_is_not_served() {
    let setup = Setup::new().graph("chain", CHAIN);
    let redacts = json!({ "redact": ["secret"] });
    let server = setup.says("observation", redacts).start().await;
    let input =
        r#"{ stream = "in", timestamp = 3, value = 5 }, { stream = "in", value = "my secret" }"#;
    let reply = attempt(&server, &json!({ "graph": NUMBERS, "test": test(input) })).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let ran = reply.json();
    assert_eq!(ran["error"], json!(null));
    assert_eq!(
        ran["outputs"],
        json!([
            { "stream": "out", "timestamp": 3, "type": "int", "payload": 5, "truncated": false },
            { "stream": "out", "timestamp": 4, "type": "string", "payload": "my [redacted]", "truncated": false },
        ])
    );
    let events = ran["events"].as_array().expect("a list");
    let is_call = |event: &&Value| event["kind"] == "call" && event["node"] == "pass";
    assert!(events.iter().any(|event| is_call(&event)), "{events:?}");

    let expects = test(r#"{ stream = "in", value = 1 }"#) + "expect.out = [{ value = 2 }]\n";
    let ran = attempt(&server, &json!({ "graph": NUMBERS, "test": expects })).await;
    let message = ran.json()["error"]["message"].to_string();
    assert!(message.contains("stream `out`"), "{message}");

    let many = vec![r#"{ stream = "in", value = 1 }"#; 1_001].join(", ");
    let ran = attempt(&server, &json!({ "graph": NUMBERS, "test": test(&many) })).await;
    let ran = ran.json();
    assert_eq!(ran["outputs"].as_array().map(Vec::len), Some(1_000));
    let message = ran["error"]["message"].as_str().expect("a text");
    assert!(
        message.contains("more than 1000 output packets"),
        "{message}"
    );
}

#[tokio::test]
async fn what_cannot_be_tried_is_refused() {
    let server = Setup::new().graph("chain", CHAIN).start().await;
    let one = test(r#"{ stream = "in", value = 1 }"#);
    for (why, asked) in [
        ("expected either `test`", json!({ "graph": NUMBERS })),
        (
            "expected either `test`",
            json!({ "graph": NUMBERS, "test": one, "path": "/x", "body": {} }),
        ),
        (
            "`body` is not an object",
            json!({ "graph": CHAIN, "path": "/x", "body": [] }),
        ),
        (
            "`path` does not begin",
            json!({ "graph": CHAIN, "path": "x", "body": {} }),
        ),
        (
            "does not accept HTTP requests",
            json!({ "graph": NUMBERS, "path": "/x", "body": {} }),
        ),
        (
            "expected neither",
            json!({ "graph": NUMBERS, "test": format!("graph = \"/etc/passwd\"\n{one}") }),
        ),
        (
            "2 cases: expected one",
            json!({ "graph": NUMBERS, "test": format!("{one}{one}") }),
        ),
        (
            "`test` cannot be read",
            json!({ "graph": NUMBERS, "test": "[[" }),
        ),
        (
            "does not compile",
            json!({ "graph": "node {}", "test": one }),
        ),
        (
            "bytes: at most",
            json!({ "graph": "#".repeat(1 << 20), "test": one }),
        ),
    ] {
        let reply = attempt(&server, &asked).await;
        assert_eq!(reply.status, 400, "{why}: {}", reply.text);
        let message = reply.json()["error"]["message"].to_string();
        assert!(message.contains(why), "{why}: {message}");
    }
    let beside = json!({ "graph": NUMBERS, "test": one, "beside": "chian" });
    assert_eq!(attempt(&server, &beside).await.status, 404);
}

#[tokio::test]
async fn a_request_is_answered_with_a_model_that_is_served_and_none_is_loaded() {
    let setup = Setup::new().graph("chain", CHAIN).graph("chat", CHAT);
    let script = json!({ "replies": [{ "text": "Hello there." }] });
    let server = setup.script(&script).start().await;
    let body = question("chat", "Hello?");
    let edited = format!("# edited\n{CHAT}");
    for beside in [json!(null), json!("chat")] {
        let asked = json!({
            "graph": edited, "beside": beside, "path": "/v3/chat/completions", "body": body,
        });
        let reply = attempt(&server, &asked).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        let ran = reply.json();
        assert_eq!(ran["error"], json!(null));
        let said = ran["outputs"].to_string();
        assert!(said.contains("Hello there."), "{said}");
    }

    let other = edited.replace("model.script.json", "other.script.json");
    assert_ne!(other, edited);
    let asked = json!({ "graph": other, "path": "/v3/chat/completions", "body": body });
    let reply = attempt(&server, &asked).await;
    assert_eq!(reply.status, 400, "{}", reply.text);
    assert!(reply.json()["diagnostics"][0]["line"].is_u64());
    let message = reply.json()["error"]["message"].to_string();
    assert!(message.contains("cannot load resource `"), "{message}");
    let engines = server.status().await["engines"].clone();
    assert_eq!(engines.as_array().map(Vec::len), Some(1));
    server.until_idle().await;
}

#[tokio::test]
async fn four_are_tried_at_once_and_each_ends() {
    let server = Setup::new().graph("chain", CHAIN).start().await;
    let input = r#"{ stream = "input", value = { uri = "/x", body = { actions = [] } } }"#;
    let endless = json!({ "graph": STALL, "test": test(input) + "timeout = 60\n" });
    let all = join_all((0..5).map(|_| attempt(&server, &endless))).await;
    let refused = all.iter().filter(|reply| reply.status == 429).count();
    assert_eq!(refused, 1, "{all:?}");
    for reply in all.iter().filter(|reply| reply.status != 429) {
        let message = reply.json()["error"]["message"].to_string();
        assert!(message.contains("ended after 10 s"), "{message}");
    }
    let one = test(r#"{ stream = "in", value = 1 }"#);
    let again = attempt(&server, &json!({ "graph": NUMBERS, "test": one })).await;
    assert_eq!(again.status, 200, "{}", again.text);
}

#[tokio::test]
async fn one_that_is_tried_ends_at_its_deadline_and_when_it_is_cancelled() {
    let operator = json!([{ "name": "operator", "key": "o", "scopes": ["admin"] }]);
    let server = keys::server(&operator).await;
    let input = r#"{ stream = "input", value = { uri = "/x", body = { actions = [] } } }"#;
    let endless = json!({ "graph": STALL, "test": test(input) + "timeout = 60\n" }).to_string();
    let attempt = |name: &str, value: &str| {
        let request = server.post("/v3/playground", endless.clone());
        read(request.header("x-api-key", "o").header(name, value))
    };
    let late = attempt("x-request-timeout-ms", "200").await;
    assert_eq!(code(&late), is(504, "deadline"));
    let cancel = async {
        let url = format!("{}/v3/requests/endless", server.url);
        // Until it has begun, there is nothing to cancel.
        while read(server.client.delete(&url).header("x-api-key", "o"))
            .await
            .status
            != 204
        {}
    };
    let (ended, ()) = tokio::join!(attempt("x-request-id", "endless"), cancel);
    let message = ended.json()["error"]["message"].to_string();
    assert!(message.contains("the graph failed"), "{message}");
}
