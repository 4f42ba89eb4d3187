//! A dialect of another crate: a struct and a line, and every graph with a language model speaks it.

use std::sync::{Arc, LazyLock};

use graphmill_calculators::{
    http::{
        OwnParams,
        dialect::{
            AnswerPackets, AnswerWriter, Dialect, Failure, Family, Purpose, Route, TextDialect,
        },
    },
    payload::{ChatInput, HttpResponse, JsonBody, RequestInput, TextChunk, TextRequest},
    register_dialect,
};
use graphmill_dialects::{
    Fields,
    bodies::CHAT as CHATS,
    error::missing,
    schema::{self, Endpoint},
};
use graphmill_engine::Result;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::rest::support::{CHAT, Setup, read};

/// `{"model", "riddle"}`, answered by `{"solution"}`.
#[derive(Debug)]
struct Riddles;

/// The field of its own.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
struct Riddle {
    riddle: Option<String>,
}
register_dialect!(&Riddles);

impl Dialect for Riddles {
    fn routes(&self) -> &'static [Route] {
        &[Route {
            path: "riddles",
            purpose: Purpose::Answer,
            summary: "Solves a riddle",
            required: &["model", "riddle"],
            answer: &["solution"],
        }]
    }

    fn family(&'static self) -> Family {
        Family::Text(self)
    }

    fn error(&self, failure: &Failure<'_>) -> Value {
        json!({ "unsolved": failure.message, "field": failure.param })
    }
}

impl TextDialect for Riddles {
    fn id_prefix(&self) -> &'static str {
        "riddle-"
    }

    fn fields(&self) -> Option<&'static Endpoint> {
        static FIELDS: LazyLock<Endpoint> = LazyLock::new(|| {
            let chat = schema::endpoint(CHATS).expect("an endpoint");
            let own = Endpoint::new("riddles").with::<Riddle>();
            own.beside(chat, &[], &["messages"])
        });
        Some(&FIELDS)
    }

    fn input(&self, _: &JsonBody, fields: &mut Fields) -> Result<(RequestInput, OwnParams)> {
        let own: Riddle = fields.take()?;
        let riddle = own.riddle.ok_or_else(|| missing("riddle"))?;
        let chat = ChatInput {
            messages: Arc::new(vec![json!({ "role": "user", "content": riddle })]),
            ..ChatInput::default()
        };
        Ok((RequestInput::Chat(chat), OwnParams::default()))
    }

    fn writer(&self, _: &TextRequest) -> Box<dyn AnswerWriter> {
        Box::new(Solution::default())
    }
}

#[derive(Default)]
struct Solution(String);

impl AnswerWriter for Solution {
    fn take(&mut self, chunk: &TextChunk, out: &mut AnswerPackets<'_>) -> Result<bool> {
        self.0.push_str(&chunk.text);
        if chunk.finish.is_some() {
            out.packets.push(HttpResponse::Body {
                content_type: "application/json",
                bytes: json!({ "solution": self.0 }).to_string().into(),
            });
        }
        Ok(chunk.finish.is_some())
    }
}

#[tokio::test]
async fn a_registered_dialect_is_served_by_the_graphs_that_there_are() {
    let script = json!({ "replies": [{ "text": "an egg" }] });
    let setup = Setup::new().graph("chat", CHAT).script(&script);
    let server = setup
        .with(|options| options.max_body_bytes = 2_000)
        .start()
        .await;
    let riddle = json!({ "model": "chat", "riddle": "A box without hinges, key or lid" });
    for prefix in ["/v1", "/v3", "/v3/v1"] {
        let path = format!("{prefix}/riddles");
        let reply = read(server.post(&path, riddle.to_string())).await;
        assert_eq!(reply.json(), json!({ "solution": "an egg" }), "{path}");
    }
    let nobody = json!({ "model": "nobody", "riddle": "?" }).to_string();
    let long = json!({ "model": "chat", "riddle": "?".repeat(2_000) }).to_string();
    for (method, path, body, status, field) in [
        (
            "POST",
            "/v3/riddles",
            r#"{"model": "chat"}"#.to_owned(),
            400,
            json!("riddle"),
        ),
        ("POST", "/v3/riddles", nobody, 404, json!("model")),
        ("POST", "/v3/riddles", long, 413, json!(null)),
        ("GET", "/v3/riddles", String::new(), 405, json!(null)),
        (
            "POST",
            "/v3/riddles/of/old",
            "{}".to_owned(),
            404,
            json!(null),
        ),
        ("GET", "/v3/riddles/of/old", String::new(), 404, json!(null)),
    ] {
        let method = method.parse().expect("a method");
        let request = server
            .client
            .request(method, format!("{}{path}", server.url));
        let reply = read(request.body(body)).await;
        assert_eq!(reply.status, status, "{}", reply.text);
        let error = reply.json();
        assert!(error["unsolved"].is_string(), "{error}");
        assert_eq!(error["field"], field, "{error}");
    }
    let models = server.get("/v3/models").await.json();
    let endpoints = models["data"][0]["endpoints"].as_array().expect("a list");
    assert!(endpoints.contains(&json!("riddles")), "{models}");
    let described = server.get("/openapi.json").await.json();
    let operation = &described["paths"]["/v3/riddles"]["post"];
    assert_eq!(operation["summary"], "Solves a riddle", "{operation}");
}
