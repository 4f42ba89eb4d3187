//! OpenAI's paths besides those of dialects. `/v1` and `/v3` are the same; `/v3/v1` is accepted for
//! old clients.
//!
//! A POST anywhere under these prefixes goes to the graph that `model` names, as in OpenVINO Model
//! Server: which paths mean something is the graph's business, not the router's.

pub(super) mod models;
mod tokenizer;

use std::sync::Arc;

use axum::{Router, routing::post};

use super::{
    graph,
    operation::{Answer, Body, Group, Kind, OF_GRAPHS, Operation, Parameter},
};
use crate::{http::state::App, http::unknown_route};

/// The prefix whose paths the documentation shows.
pub(super) const SHOWN: &str = "/v3";

/// Paths of vectors.
fn of_vectors() -> [(&'static str, &'static str, Body, Answer); 2] {
    [
        (
            "embeddings",
            "Makes a vector of each text",
            Body::new("embeddings", &["model", "input"]),
            Answer::Json(&["object", "data", "model", "usage"]),
        ),
        (
            "rerank",
            "Says how well documents answer a query",
            Body::new("rerank", &["model", "query", "documents"]),
            Answer::Json(&["id", "model", "results", "usage"]),
        ),
    ]
}

/// Paths where `model` can be left out if there is one graph. Servers of one model have them
/// without a prefix, too.
fn about_prompts() -> [(&'static str, &'static str, Body, Answer); 3] {
    let body = Body::new;
    [
        (
            "tokenize",
            "Shows the tokens of a text",
            body("tokenize", &["text"]),
            Answer::Json(&["tokens", "count"]),
        ),
        (
            "detokenize",
            "Shows the text of tokens",
            body("detokenize", &["tokens"]),
            Answer::Json(&["prompt"]),
        ),
        (
            "apply-template",
            "Shows the prompt of a conversation",
            body("chat/completions", &["messages"]).of_prompt(),
            Answer::Json(&["prompt", "token_ids", "count"]),
        ),
    ]
}

pub(super) fn operations() -> Vec<Operation> {
    let mut operations = Vec::new();
    for prefix in ["/v1", SHOWN, "/v3/v1"] {
        let listed = prefix == SHOWN;
        for (path, summary, body, answer) in of_vectors() {
            let path = format!("{prefix}/{path}");
            let operation = Operation::post(path, graph::endpoint, body);
            operations.push(
                operation
                    .about(Group::Vectors, summary)
                    .answers(answer)
                    .listed(listed),
            );
        }
        let list = Operation::get(format!("{prefix}/models"), models::list);
        let one = Operation::get(format!("{prefix}/models/{{*name}}"), models::one);
        operations.push(
            list.about(Group::Models, "The graphs that answer now")
                .answers(Answer::Json(&["data"]))
                .listed(listed),
        );
        operations.push(
            one.about(Group::Models, "One of them")
                .answers(Answer::Json(&["id"]))
                .refuses(OF_GRAPHS)
                .listed(listed),
        );
        let path = format!("{prefix}/tokenizer_info");
        operations.push(tokenizer_info(&path).listed(listed));
    }
    operations.push(tokenizer_info("/tokenizer_info").listed(false));
    for prefix in ["", "/v1", SHOWN, "/v3/v1"] {
        for (path, summary, body, answer) in about_prompts() {
            let path = format!("{prefix}/{path}");
            let operation = Operation::post(path, graph::about_a_prompt, body);
            operations.push(
                operation
                    .about(Group::Prompts, summary)
                    .answers(answer)
                    .listed(prefix == SHOWN),
            );
        }
    }
    operations
}

const OF_A_TOKENIZER: &[Parameter] = &[Parameter::new(
    "model",
    Kind::OptionalText,
    "The graph; without it, the only one with a language model",
)];

fn tokenizer_info(path: &str) -> Operation {
    Operation::get(path, tokenizer::info)
        .about(
            Group::Prompts,
            "The special tokens and the chat template of a model",
        )
        .asks(OF_A_TOKENIZER)
        .answers(Answer::Json(&[
            "model",
            "bos_token",
            "eos_token",
            "chat_template",
        ]))
        .refuses(OF_GRAPHS)
}

/// Any other path, which a graph may serve.
pub(super) fn other_paths() -> Router<Arc<App>> {
    ["/v1", SHOWN]
        .into_iter()
        .fold(Router::new(), |routes, prefix| {
            routes.route(
                &format!("{prefix}/{{*path}}"),
                post(graph::any_path).fallback(unknown_route),
            )
        })
}
