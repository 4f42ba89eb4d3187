//! A scripted model behind a chat graph.

mod demanded_calls;
mod dialects;
mod logprobs;
mod prompt_questions;
mod schemas;
mod structured;
mod tools;
mod waits;

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use graphmill_calculators::llm::{LanguageModel, MediaLimits, ModelSpec};
use graphmill_calculators::payload::{HttpRequestPayload, HttpResponse, JsonBody};
use graphmill_engine::testing::Harness;
use graphmill_engine::{Environment, Error, Files, Registry, Resource};
use graphmill_llm::LlmEngineSpec;
use serde_json::{Value, json};

/// The open chat graph that the project ships.
pub(crate) const GRAPH: &str = include_str!("../../../graphs/chat/graph.pbtxt");

/// A graph, and the model that every session of it uses.
pub(crate) struct Chat {
    graph: String,
    pub(crate) model: Arc<LanguageModel>,
}

/// A script whose model answers a conversation that has the first text in it with the second.
pub(crate) fn script(replies: &[(&str, &str)]) -> Value {
    let replies: Vec<Value> = replies
        .iter()
        .map(|(when, text)| json!({"when": when, "text": text}))
        .collect();
    json!({"replies": replies})
}

impl Chat {
    pub(crate) fn new(script: &Value) -> Self {
        Self::with_graph(GRAPH, script)
    }

    pub(crate) fn with_graph(graph: &str, script: &Value) -> Self {
        Self::with_engine(graph, script, |_| {})
    }

    /// One whose engine has other settings.
    pub(crate) fn with_engine(
        graph: &str,
        script: &Value,
        change: impl FnOnce(&mut LlmEngineSpec),
    ) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("model.script.json");
        std::fs::write(&path, script.to_string()).expect("a file in it");
        let mut engine = LlmEngineSpec::new(path);
        change(&mut engine);
        let spec = ModelSpec {
            engine,
            chat_template: None,
            tool_parser: String::new(),
            reasoning_parser: String::new(),
            generation_config: None,
            guided_tool_calls: false,
            finds_projector: false,
            needs_projector: false,
            image_cache_size: 0,
            media: MediaLimits::default(),
            max_input_tokens: 0,
        };
        let model =
            LanguageModel::load(&spec, &Files::default()).expect("the scripted model loads");
        Self {
            graph: graph.to_owned(),
            model: Arc::new(model),
        }
    }

    /// A session without a request.
    pub(crate) fn harness(&self) -> Harness {
        let environment =
            Environment::new(Registry::global()).with_resource("llm", Arc::clone(&self.model));
        Harness::new(&self.graph, environment)
    }

    /// A session with a request in it.
    pub(crate) fn start(&self, uri: &str, request: &Value) -> Harness {
        let (mut harness, input) = self.open(uri, request);
        if !harness.ended() {
            harness.close(&input);
        }
        harness
    }

    /// A session with a request in it that may get others, and the name of its input.
    pub(crate) fn open(&self, uri: &str, request: &Value) -> (Harness, String) {
        Self::open_in(self.harness(), uri, request)
    }

    /// The same in a given session.
    pub(crate) fn open_in(mut harness: Harness, uri: &str, request: &Value) -> (Harness, String) {
        let payload = HttpRequestPayload {
            body: request.to_string().into(),
            json: JsonBody::from_value(request).ok().map(Arc::new),
            ..HttpRequestPayload::new(uri, None)
        };
        let input = harness
            .plan()
            .graph_inputs()
            .next()
            .expect("one input")
            .to_owned();
        harness.push(&input, 0, payload);
        (harness, input)
    }

    /// The whole answer to a request.
    pub(crate) fn ask(&self, uri: &str, request: &Value) -> Vec<HttpResponse> {
        let mut harness = self.start(uri, request);
        harness.block_until(Harness::ended);
        harness.finish();
        taken(&mut harness)
    }

    /// The error a request ends with.
    pub(crate) fn refusal(&self, uri: &str, request: &Value) -> Error {
        let mut harness = self.start(uri, request);
        harness.block_until(Harness::ended);
        harness.error()
    }

    /// Waits until no sequence is left in the engine.
    pub(crate) fn wait_until_idle(&self) {
        let begun = Instant::now();
        loop {
            let status = self.model.engine().status();
            if status.sequences_running + status.sequences_waiting == 0 && status.idle {
                return;
            }
            assert!(
                begun.elapsed() < Duration::from_secs(20),
                "the engine still works: {status:?}"
            );
            std::thread::yield_now();
        }
    }
}

/// What has come out of a session.
pub(crate) fn taken(harness: &mut Harness) -> Vec<HttpResponse> {
    let output = harness
        .plan()
        .graph_outputs()
        .next()
        .expect("one output")
        .to_owned();
    harness
        .packets(&output)
        .iter()
        .map(|packet| packet.get::<HttpResponse>().expect("a response").clone())
        .collect()
}

/// The answer of a request that does not stream.
pub(crate) fn body(out: &[HttpResponse]) -> Value {
    match out {
        [
            HttpResponse::Body {
                content_type: "application/json",
                bytes,
            },
        ] => serde_json::from_slice(bytes).expect("JSON"),
        other => panic!("one body was expected, not {other:?}"),
    }
}

/// The events of a stream.
pub(crate) fn events(out: &[HttpResponse]) -> Vec<Value> {
    let event = |response: &HttpResponse| match response {
        HttpResponse::Event(data) | HttpResponse::NamedEvent { data, .. } => {
            Some(serde_json::from_str(data).expect("JSON"))
        }
        _ => None,
    };
    out.iter().filter_map(event).collect()
}

/// What differs from run to run: what stands before it, and the character behind it.
const VARYING: [(&str, char); 5] = [
    ("\"id\":\"", '"'),
    ("\"item_id\":\"", '"'),
    ("\"created\":", ','),
    ("\"created_at\":", ','),
    ("\"system_fingerprint\":\"", '"'),
];

/// A stream as the client sees it, a line for each event. What differs from run to run is `*` and a
/// number, the same for the same.
pub(crate) fn wire(out: &[HttpResponse]) -> String {
    let line = |response: &HttpResponse| match response {
        HttpResponse::Event(data) => data.clone(),
        HttpResponse::NamedEvent { name, data } => format!("{name} {data}"),
        other => format!("{other:?}"),
    };
    let mut wire = out.iter().map(line).collect::<Vec<_>>().join("\n");
    let mut seen: Vec<String> = Vec::new();
    for (before, end) in VARYING {
        let mut pieces = wire.split(before);
        let mut masked = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let (value, rest) = piece.split_once(end).expect("the end of a value");
            let known = seen.iter().position(|other| other == value);
            let number = known.unwrap_or_else(|| {
                seen.push(value.to_owned());
                seen.len() - 1
            });
            // Writing to a string cannot fail.
            let _ = write!(masked, "{before}*{number}{end}{rest}");
        }
        wire = masked;
    }
    wire
}

/// The text of a stream's first choice.
pub(crate) fn contents(events: &[Value]) -> String {
    events
        .iter()
        .filter_map(|event| event["choices"][0]["delta"]["content"].as_str())
        .collect()
}
