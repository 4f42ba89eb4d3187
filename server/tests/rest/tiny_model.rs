//! The model in this repository, through the configuration in this repository.

use std::{net::SocketAddr, path::Path};

use futures_util::future::join_all;
use graphmill_engine::Registry;
use graphmill_server::{Options, Server, config};
use serde_json::json;

use crate::rest::{isolation::text, support::read};

const QUESTIONS: [&str; 8] = [
    "What is OpenVINO?",
    "What is a side packet?",
    "Hello!",
    "Say this is a test",
    "Count to five",
    "What is 2 + 3?",
    "Tell me a story",
    "Name three colors",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thirty_two_streams_on_two_graphs_have_the_text_that_one_request_has_alone() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config.json");
    let config = config::load(&file).config.expect("a good configuration");
    let graphs = ["graphmill/tiny-chat", "chat"];
    for name in graphs {
        assert!(config.graphs.iter().any(|graph| graph.name == name));
    }
    let options = Options::new(config, SocketAddr::from(([127, 0, 0, 1], 0)));
    let mut server = Server::start(options, Registry::global()).expect("it starts");
    assert_eq!(server.loaded().await, None);
    let url = format!("http://{}/v3/chat/completions", server.addresses()[0]);
    let client = crate::http::client();
    let ask = |graph: &str, question: &str, stream: bool| {
        let messages = json!([{ "role": "user", "content": question }]);
        let body = json!({ "model": graph, "temperature": 0, "max_tokens": 48, "messages": messages, "stream": stream });
        read(client.post(&url).body(body.to_string()))
    };

    let mut alone = Vec::new();
    for question in QUESTIONS {
        let answer = ask(graphs[0], question, false).await.json();
        let said = answer["choices"][0]["message"]["content"]
            .as_str()
            .unwrap_or_else(|| panic!("{answer}"));
        assert!(!said.is_empty(), "{question}");
        alone.push(said.to_owned());
    }
    let streams = (0..32).map(|i| {
        ask(
            graphs[i % graphs.len()],
            QUESTIONS[i / graphs.len() % QUESTIONS.len()],
            true,
        )
    });
    for (i, reply) in join_all(streams).await.iter().enumerate() {
        let question = i / graphs.len() % QUESTIONS.len();
        assert_eq!(
            text(&reply.events()),
            alone[question],
            "{}",
            QUESTIONS[question]
        );
    }
    server.stop().await;
}
