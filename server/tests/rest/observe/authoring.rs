//! What those who write graphs ask a server.

use serde_json::{Value, json};

use super::CHAIN;
use crate::rest::support::{Setup, TestServer, read};

async fn check(server: &TestServer, text: &str) -> Value {
    let body = json!({ "graph": text }).to_string();
    let reply = read(server.post("/v3/check", body)).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

#[tokio::test]
async fn a_text_is_checked_without_being_served() {
    let server = Setup::new().graph("chain", CHAIN).start().await;
    let good = check(&server, CHAIN).await;
    assert_eq!(
        (&good["diagnostics"], &good["note"]),
        (&json!([]), &json!(null))
    );
    assert_eq!(good["plan"]["nodes"][3]["name"], "third");

    let misspelt = "input_stream: \"in\"\nnode { calculator: \"PassThroughCalculater\" input_stream: \"in\" output_stream: \"out\" }";
    let wrong = check(&server, misspelt).await;
    assert_eq!(wrong["plan"], json!(null));
    let found = &wrong["diagnostics"][0];
    assert_eq!(
        (&found["severity"], &found["line"], &found["end_line"]),
        (&json!("error"), &json!(2), &json!(2))
    );
    assert!(
        found["column"].as_u64() < found["end_column"].as_u64(),
        "{found}"
    );
    assert!(found["code"].as_str().expect("a code").starts_with("GM"));
    let help = found["help"].as_str().expect("advice");
    assert!(help.contains("`PassThroughCalculator`"), "{help}");

    let no_http = check(&server, &misspelt.replace("ater", "ator")).await;
    let note = no_http["note"].as_str().expect("a note");
    assert!(note.contains("HTTP_REQUEST_PAYLOAD"), "{note}");
    for wrong in [
        json!({}),
        json!({ "graph": 1 }),
        json!([""]),
        json!({ "graph": "", "a": 1 }),
    ] {
        let reply = read(server.post("/v3/check", wrong.to_string())).await;
        assert_eq!(reply.status, 400, "{wrong}: {}", reply.text);
        assert!(!reply.text.contains("struct"), "{}", reply.text);
    }
    let long = json!({ "graph": "#".repeat((1 << 20) + 1) });
    let reply = read(server.post("/v3/check", long.to_string())).await;
    assert_eq!(reply.status, 400);
}

#[tokio::test]
async fn calculators_are_listed_and_described() {
    let server = Setup::new().graph("chain", CHAIN).start().await;
    let list = server.get("/v3/calculators").await.json();
    let found = super::named(&list["calculators"], "PassThroughCalculator");
    assert!(
        found["summary"].as_str().is_some_and(|it| !it.is_empty()),
        "{list}"
    );
    assert!(
        super::named(&list["calculators"], "HttpLLMCalculator").is_object(),
        "a subgraph"
    );
    let one = server.get("/v3/calculators/LLMCalculator").await.json();
    assert_eq!(one["name"], "LLMCalculator");
    assert!(
        one["ports"]
            .as_array()
            .is_some_and(|ports| !ports.is_empty())
    );
    let unknown = server.get("/v3/calculators/LLMCalculater").await;
    assert_eq!(unknown.status, 404);
    assert!(
        unknown.text.contains("did you mean `LLMCalculator`?"),
        "{}",
        unknown.text
    );
}
