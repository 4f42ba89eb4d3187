//! What operators see of graphs and sessions, over HTTP, while these run.

mod authoring;
mod files;
mod graphs;
mod playground;
mod recordings;
mod sessions;
mod taps;
mod waits;

use std::{collections::VecDeque, time::Duration};

use graphmill_calculators::payload::{HttpRequestPayload, HttpResponse};
use graphmill_engine::{
    Calculator, Contract, Cx, EventSender, Events as EventPort, Flow, In, NoOptions, Offset,
    OpenCx, Out, Result, register,
};
use serde_json::{Value, json};

use crate::rest::support::TestServer;

/// How long anything that a test waits for may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Says nothing, and never ends by itself.
struct Silent {
    _held: EventSender<()>,
}

impl Calculator for Silent {
    const NAME: &'static str = "SilentCalculator";
    const DOC: &'static str = "Never says anything about its output.";
    type Options = NoOptions;
    type Ports = (In<HttpRequestPayload>, Out<HttpResponse>, EventPort<()>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        c.offset(Offset::Unset);
        (c.input(""), c.output(""), c.events())
    }

    fn open(_: &NoOptions, (.., events): Self::Ports, cx: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self {
            _held: cx.sender(events),
        })
    }

    fn process(&mut self, _: Self::Ports, _: &mut Cx<'_>) -> Result<Flow> {
        Ok(Flow::Continue)
    }
}

register!(Silent);

/// The actor's answer waits for a stream on which nothing ever comes.
const STALL: &str = r#"
    input_stream: "HTTP_REQUEST_PAYLOAD:input"
    output_stream: "HTTP_RESPONSE_PAYLOAD:output"
    max_queue_size: 4
    node {
      name: "actor"
      calculator: "ActorCalculator"
      input_stream: "HTTP_REQUEST_PAYLOAD:input"
      output_stream: "HTTP_RESPONSE_PAYLOAD:said"
    }
    node { name: "silent" calculator: "SilentCalculator" input_stream: "input" output_stream: "never" }
    node {
      name: "join"
      calculator: "PassThroughCalculator"
      input_stream: "said" input_stream: "never"
      output_stream: "output" output_stream: "rest"
    }
"#;

/// What the actor says goes through three more nodes.
const CHAIN: &str = r#"
    input_stream: "HTTP_REQUEST_PAYLOAD:input"
    output_stream: "HTTP_RESPONSE_PAYLOAD:output"
    node {
      name: "actor"
      calculator: "ActorCalculator"
      input_stream: "HTTP_REQUEST_PAYLOAD:input"
      output_stream: "HTTP_RESPONSE_PAYLOAD:a"
    }
    node { name: "first" calculator: "PassThroughCalculator" input_stream: "a" output_stream: "b" }
    node { name: "second" calculator: "PassThroughCalculator" input_stream: "b" output_stream: "c" }
    node { name: "third" calculator: "PassThroughCalculator" input_stream: "c" output_stream: "output" }
"#;

/// A stream of events as it comes.
struct Events {
    response: reqwest::Response,
    text: String,
    ready: VecDeque<(String, Value)>,
}

impl Events {
    async fn of(server: &TestServer, path: &str) -> Self {
        let request = server.client.get(format!("{}{path}", server.url));
        Self::open(request).await
    }

    async fn open(request: reqwest::RequestBuilder) -> Self {
        let response = request.send().await.expect("an answer");
        let status = response.status();
        assert_eq!(status, 200, "{}", response.text().await.expect("a body"));
        Self {
            response,
            text: String::new(),
            ready: VecDeque::new(),
        }
    }

    /// The name and the data of the next event; none at the end.
    async fn next(&mut self) -> Option<(String, Value)> {
        let next = tokio::time::timeout(PATIENCE, self.read());
        next.await.expect("an event in time")
    }

    async fn read(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            let chunk = self.response.chunk().await.expect("no error")?;
            self.text
                .push_str(std::str::from_utf8(&chunk).expect("UTF-8"));
            while let Some(end) = self.text.find("\n\n") {
                let event: String = self.text.drain(..end + 2).collect();
                let Some(event) = event.strip_prefix("event: ") else {
                    assert_eq!(event, ": ping\n\n");
                    continue;
                };
                let (name, data) = event.split_once("\ndata: ").expect("a named event");
                let data = serde_json::from_str(data).expect("JSON");
                self.ready.push_back((name.to_owned(), data));
            }
        }
    }

    /// The first event from here on that is as wanted.
    async fn until(&mut self, what: &str, wanted: impl Fn(&str, &Value) -> bool) -> Value {
        loop {
            let Some((name, event)) = self.next().await else {
                panic!("{what}: the events ended");
            };
            if wanted(&name, &event) {
                return event;
            }
        }
    }
}

/// Sends the actor of a graph its actions, in the background.
fn act(server: &TestServer, graph: &str, id: &str, actions: &Value) -> reqwest::RequestBuilder {
    let body = json!({ "model": graph, "actions": actions }).to_string();
    server
        .post("/v3/chat/completions", body)
        .header("x-request-id", id)
}

/// The entry of this name in a list.
fn named<'a>(list: &'a Value, name: &str) -> &'a Value {
    let entries = list.as_array().expect("a list");
    let found = entries.iter().find(|entry| entry["name"] == name);
    found.unwrap_or(&Value::Null)
}

/// The edge of a node and a stream.
fn edge<'a>(event: &'a Value, node: &str, stream: &str) -> &'a Value {
    let edges = event["edges"].as_array().expect("a list");
    let mut edges = edges.iter();
    let found = edges.find(|edge| edge["node"] == node && edge["stream"] == stream);
    found.unwrap_or(&Value::Null)
}
