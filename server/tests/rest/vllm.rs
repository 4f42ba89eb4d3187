//! vLLM's endpoints for vectors and scores, and what it tells of a server.

use serde_json::{Value, json};

use crate::rest::{
    fields,
    support::{CHAT, Reply, Setup, TestServer, question, read, streamed},
};

async fn post(server: &TestServer, path: &str, body: &Value) -> Reply {
    read(server.post(path, body.to_string())).await
}

fn numbers(list: &Value, of: &str) -> Vec<f64> {
    let list = list.as_array().expect("a list").iter();
    list.map(|entry| entry[of].as_f64().expect("a number"))
        .collect()
}

#[tokio::test]
async fn scores_are_those_of_rerank_in_the_order_of_the_texts() {
    let server = fields::server().await;
    let documents = ["A packet is data.", "Bye!", "Hello, hello."];
    let ranked = json!({ "model": "rank", "query": "What is a packet?", "documents": documents });
    let ranked = post(&server, "/v1/rerank", &ranked).await.json();
    let mut results = ranked["results"].as_array().expect("results").clone();
    results.sort_by_key(|result| result["index"].as_u64());
    let expected = numbers(&results.into(), "relevance_score");
    for path in ["/score", "/v1/score", "/v3/score"] {
        let body = json!({ "model": "rank", "text_1": "What is a packet?", "text_2": documents });
        let reply = post(&server, path, &body).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text);
        let answer = reply.json();
        assert_eq!(answer["object"], "list");
        assert_eq!(numbers(&answer["data"], "score"), expected);
        assert_eq!(numbers(&answer["data"], "index"), [0.0, 1.0, 2.0]);
        assert_eq!(answer["data"][0]["object"], "score");
        assert_eq!(
            answer["usage"]["prompt_tokens"],
            ranked["usage"]["prompt_tokens"]
        );
    }
    // One query for each text, under the names that later versions have.
    let pairs = json!({ "model": "rank", "queries": ["What is a packet?", "Hi"], "documents": ["A packet is data.", "A packet is data."] });
    let pairs = numbers(
        &post(&server, "/score", &pairs).await.json()["data"],
        "score",
    );
    assert_eq!(json!(pairs[0]), json!(expected[0]));
    assert_ne!(json!(pairs[0]), json!(pairs[1]));
    let long = "word ".repeat(10_000);
    let body = json!({ "model": "rank", "text_1": ["Hi", long], "text_2": ["a", "b"] });
    let reply = post(&server, "/score", &body).await;
    assert_eq!(
        (reply.status, &reply.json()["error"]["param"]),
        (400, &json!("text_1[1]"))
    );
}

#[tokio::test]
async fn pooling_tells_the_vectors_of_embeddings() {
    let server = fields::server().await;
    let texts = ["A packet is data.", "Bye!"];
    let body = json!({ "model": "embed", "input": texts });
    let embeddings = post(&server, "/v1/embeddings", &body).await.json();
    for path in ["/pooling", "/v1/pooling"] {
        let pooled = post(&server, path, &body).await.json();
        assert_eq!(pooled["object"], "list");
        for index in [0, 1] {
            let entry = &pooled["data"][index];
            assert_eq!(entry["object"], "pooling");
            assert_eq!(entry["index"], index);
            assert_eq!(entry["data"], embeddings["data"][index]["embedding"]);
        }
        assert_eq!(
            pooled["usage"]["total_tokens"],
            embeddings["usage"]["total_tokens"]
        );
    }
}

#[tokio::test]
async fn texts_are_cut_where_the_request_says() {
    let server = fields::server().await;
    let server = &server;
    let tokens = |cut: Value| async move {
        let input = "one two three four five six";
        let body = json!({ "model": "embed", "input": input, "truncate_prompt_tokens": cut });
        let answer = post(server, "/v1/embeddings", &body).await.json();
        answer["usage"]["total_tokens"].as_u64().expect("a number")
    };
    let whole = tokens(Value::Null).await;
    assert_eq!(tokens(json!(-1)).await, whole);
    assert_eq!(tokens(json!(whole - 2)).await, whole - 2);
    let long = "word ".repeat(10_000);
    let mut body = json!({ "model": "embed", "input": long });
    assert_eq!(post(server, "/v1/embeddings", &body).await.status, 400);
    body["truncate_prompt_tokens"] = json!(-1);
    assert_eq!(post(server, "/v1/embeddings", &body).await.status, 200);
    let mut body = json!({ "model": "rank", "query": "Hi", "documents": [long] });
    let pieces = post(server, "/v1/rerank", &body).await.json();
    body["truncate_prompt_tokens"] = json!(20);
    let cut = post(server, "/v1/rerank", &body).await.json();
    assert_eq!(cut["usage"]["total_tokens"], 20);
    assert_ne!(pieces["usage"]["total_tokens"], 20);
}

#[tokio::test]
async fn the_server_tells_its_load_and_its_version() {
    let script = json!({ "replies": [{ "when": "", "text": "on ", "then": "repeat" }] });
    let setup = Setup::new().graph("chat", CHAT).script(&script);
    let server = setup.start().await;
    let load = || async { server.get("/load").await.json() };
    assert_eq!(load().await, json!({ "server_load": 0 }));
    let endless = streamed("chat", "Hi").to_string();
    let stream = server.post("/v1/chat/completions", endless).send().await;
    assert_eq!(load().await, json!({ "server_load": 1 }));
    drop(stream);
    server.until_idle().await;
    assert_eq!(load().await, json!({ "server_load": 0 }));
    let version = server.get("/version").await.json();
    assert_eq!(version, json!({ "version": env!("CARGO_PKG_VERSION") }));
    assert_eq!(
        server.get("/server_info").await.json()["version"],
        version["version"]
    );
    let reply = post(&server, "/generative_scoring", &json!({})).await;
    assert_eq!(reply.status, 501, "{}", reply.text);
    assert!(reply.text.contains("`logprobs`"), "{}", reply.text);
}

/// A server with one script.
async fn scripted(text: &str, trusts: bool) -> TestServer {
    let script = json!({ "replies": [{ "when": "", "text": text, "then": "end" }] });
    let setup = Setup::new().graph("chat", CHAT).script(&script);
    let setup = setup.with(move |options| options.trust_request_chat_template = trusts);
    setup.start().await
}

async fn chat(server: &TestServer, fields: &Value) -> Reply {
    let mut body = question("chat", "Hi");
    for (name, value) in fields.as_object().expect("fields") {
        body[name] = value.clone();
    }
    server.chat(&body).await
}

#[tokio::test]
async fn a_request_brings_its_template_where_the_server_trusts_it() {
    let server = scripted("Hello", true).await;
    let template = "{% for m in messages %}[{{ m.role }}:{{ m.content }}{{ mood }}]{% endfor %}";
    let mut body = question("chat", "Hi");
    body["chat_template"] = template.into();
    body["chat_template_kwargs"] = json!({ "mood": "!" });
    for _ in 0..2 {
        let shown = post(&server, "/v1/chat/completions/render", &body)
            .await
            .json();
        assert_eq!(shown["prompt"], "[user:Hi!]");
    }
    body["max_tokens"] = 1.into();
    body["return_token_ids"] = true.into();
    let told = server.chat(&body).await.json();
    assert_eq!(told["prompt_token_ids"], json!(b"[user:Hi!]"));
    for (template, why) in [
        ("{{ messages }}\n{% if %}", "line 2"),
        (
            "{% for a in range(100000) %}{% for b in range(100000) %}x{% endfor %}{% endfor %}",
            "chat template",
        ),
        (
            "{{ raise_exception('no') }}",
            "refuses the conversation: no",
        ),
        ("{{ '' .__class__ }}{{ nothing.at.all }}", "chat template"),
    ] {
        let reply = chat(&server, &json!({ "chat_template": template })).await;
        let error = &reply.json()["error"];
        assert_eq!(
            (reply.status, &error["param"]),
            (400, &json!("chat_template")),
            "{}",
            reply.text
        );
        assert!(reply.text.contains(why), "{why}: {}", reply.text);
    }
    let long = chat(&server, &json!({ "chat_template": "x".repeat(65_537) })).await;
    assert_eq!(long.json()["error"]["param"], "chat_template");
    let plain = chat(&server, &json!({})).await;
    assert_eq!(plain.status, 200, "others have the model's: {}", plain.text);

    let server = scripted("Hello", false).await;
    let reply = chat(&server, &json!({ "chat_template": template })).await;
    let error = &reply.json()["error"];
    assert_eq!(
        (reply.status, &error["param"]),
        (400, &json!("chat_template"))
    );
    assert_eq!(error["code"], "unsupported_parameter");
    assert!(
        reply.text.contains("--trust_request_chat_template"),
        "{}",
        reply.text
    );
}

/// The text that a model says which would say `text`.
async fn said(text: &str, fields: Value) -> String {
    let server = scripted(text, false).await;
    let reply = chat(&server, &fields).await;
    assert_eq!(reply.status, 200, "{fields}: {}", reply.text);
    let answer = reply.json();
    answer["choices"][0]["message"]["content"]
        .as_str()
        .expect("a text")
        .to_owned()
}

#[tokio::test]
async fn a_structural_tag_holds_what_is_between_its_marks() {
    let structures = json!([
        { "begin": "<a>", "schema": { "enum": [7] }, "end": "</a>" },
        { "begin": "<ab>", "schema": { "enum": [true] }, "end": "</ab>" },
        { "begin": "[b]", "schema": { "enum": ["x"] }, "end": "[/b]" },
    ]);
    let old =
        json!({ "type": "structural_tag", "structures": structures, "triggers": ["<a", "[b"] });
    let tags: Vec<Value> = structures.as_array().expect("a list").iter().map(|it| json!({
        "begin": it["begin"], "end": it["end"], "content": { "type": "json_schema", "json_schema": it["schema"] },
    })).collect();
    let new = json!({ "type": "structural_tag", "format": {
        "type": "triggered_tags", "triggers": ["<a", "[b"], "tags": tags,
    } });
    let right = "Say <a>7</a>, [b]\"x\"[/b] < a and <ab>true</ab>.";
    for fields in [
        json!({ "response_format": old }),
        json!({ "response_format": new }),
        json!({ "structured_outputs": { "structural_tag": new } }),
        json!({ "structured_outputs": { "structural_tag": old.to_string() } }),
    ] {
        assert_eq!(said(right, fields.clone()).await, right, "{fields}");
        assert_eq!(said("Nothing.", fields.clone()).await, "Nothing.");
        let wrong = said("Say <a>oops</a> or", fields.clone()).await;
        assert!(wrong.starts_with("Say <a>7</a>"), "{fields}: {wrong}");
        let wrong = said("<ab>7</a>", fields.clone()).await;
        assert!(wrong.starts_with("<ab>true</ab>"), "{fields}: {wrong}");
        let wrong = said("[bad", fields).await;
        assert!(wrong.starts_with("[b]\"x\"[/b]"), "{wrong}");
    }
    let format = json!({ "type": "sequence", "elements": [
        { "type": "const_string", "value": "A:" },
        { "type": "or", "elements": [{ "type": "regex", "pattern": "[0-9]{2}" }, { "type": "const_string", "value": "no" }] },
        { "type": "tag", "begin": "(", "content": { "type": "any_text" }, "end": ")" },
        { "type": "tags_with_separator", "tags": [tags[0]], "separator": ";", "at_least_one": true, "stop_after_first": false },
    ] });
    let fields = json!({ "response_format": { "type": "structural_tag", "format": format } });
    let right = "A:no(what)<a>7</a>;<a>7</a>";
    assert_eq!(said(right, fields.clone()).await, right);
    assert!(said("Anything (else", fields).await.starts_with("A:"));
}

#[tokio::test]
async fn what_no_text_can_be_held_to_is_named() {
    let server = scripted("Hello", false).await;
    let structure = |begin: &str| json!({ "begin": begin, "schema": {}, "end": ">" });
    let old = |structures: Value, triggers: Value| json!({ "response_format": { "type": "structural_tag", "structures": structures, "triggers": triggers } });
    let new = |format: Value| json!({ "response_format": { "type": "structural_tag", "format": format } });
    let tag = json!({ "begin": "<a>", "content": { "type": "any_text" }, "end": "</a>" });
    for (fields, param) in [
        (
            old(json!([structure("<a")]), json!(["<b"])),
            "response_format.structures[0].begin",
        ),
        (
            old(json!([structure("<a")]), json!(["<a", "<a>"])),
            "response_format.triggers[1]",
        ),
        (
            old(json!([structure("<a")]), json!(["<a", "[b"])),
            "response_format.triggers[1]",
        ),
        (old(json!([]), json!(["<a"])), "response_format.structures"),
        (
            old(json!([structure("<a")]), json!([""])),
            "response_format.triggers[0]",
        ),
        (
            old(json!([structure("")]), json!(["<a"])),
            "response_format.structures[0].begin",
        ),
        (
            new(json!({ "type": "qwen_xml_parameter", "json_schema": {} })),
            "response_format.format",
        ),
        (
            new(json!({ "type": "const_string" })),
            "response_format.format",
        ),
        (
            new(
                json!({ "type": "triggered_tags", "triggers": ["<a"], "tags": [tag], "at_least_one": true }),
            ),
            "response_format.format",
        ),
        (
            json!({ "response_format": { "type": "structural_tag" } }),
            "response_format",
        ),
        (
            json!({ "structured_outputs": { "structural_tag": "no JSON" } }),
            "structured_outputs.structural_tag",
        ),
        (
            json!({ "structured_outputs": { "structural_tag": { "structures": [], "triggers": [""] } } }),
            "structured_outputs.structural_tag.triggers[0]",
        ),
        (
            json!({ "structured_outputs": { "structural_tag": { "structures": [], "triggers": [] } } }),
            "structured_outputs.structural_tag.triggers",
        ),
        (
            json!({ "structured_outputs": { "structural_tag": { "structures": [], "triggers": vec!["x"; 129] } } }),
            "structured_outputs.structural_tag.triggers",
        ),
        (
            new(json!({ "type": "const_string", "value": "x".repeat(1 << 16) })),
            "response_format.format",
        ),
        (
            json!({ "structured_outputs": { "structural_tag": 5 } }),
            "structured_outputs.structural_tag",
        ),
    ] {
        let reply = chat(&server, &fields).await;
        let found = reply.json()["error"]["param"].clone();
        assert_eq!(
            (reply.status, found),
            (400, json!(param)),
            "{fields}: {}",
            reply.text
        );
    }
}
