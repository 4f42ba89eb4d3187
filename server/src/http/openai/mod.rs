//! OpenAI's dialect. `/v1` and `/v3` are the same; `/v3/v1` is accepted for old clients.
//!
//! A POST anywhere under these prefixes goes to the graph that `model` names, as in OpenVINO Model Server: which paths mean
//! something is the graph's business, not the router's.

mod body;
pub(crate) mod deadline;
mod error;
pub(super) mod generate;
pub(super) mod models;
mod stream;
mod tokenizer;

use std::sync::Arc;

use axum::{Router, routing::post};

pub(crate) use error::object as error_object;

use super::operation::{Answer, Body, Group, OF_GRAPHS, Operation};
use crate::{app::App, http::unknown_route};

/// The prefix whose paths the documentation shows.
pub(super) const SHOWN: &str = "/v3";

/// Paths that graphs serve.
fn of_graphs() -> [(&'static str, Group, &'static str, Body, Answer); 8] {
    use Group::{Generation, Prompts, Vectors};
    let body = Body::new;
    let chat = body("chat/completions", &["model", "messages"]);
    let completions = body("completions", &["model", "prompt"]);
    let responses = body("responses", &["model", "input"]);
    let answer = Answer::JsonOrEvents(&["id", "object", "created", "model", "choices"]);
    [
        (
            "chat/completions",
            Generation,
            "Answers a conversation",
            chat,
            answer,
        ),
        (
            "completions",
            Generation,
            "Continues prompts",
            completions,
            answer,
        ),
        (
            "responses",
            Generation,
            "Answers a conversation, as OpenAI's Responses do",
            responses,
            Answer::JsonOrEvents(&["id", "object", "status", "output"]),
        ),
        (
            "responses/input_tokens",
            Prompts,
            "Counts the tokens of a request for a response",
            responses.of_prompt(),
            Answer::Json(&["input_tokens"]),
        ),
        (
            "chat/completions/render",
            Prompts,
            "Shows the prompt of a conversation",
            chat.of_prompt(),
            Answer::Json(&["prompt", "token_ids", "count"]),
        ),
        (
            "completions/render",
            Prompts,
            "Shows the prompts of a completion",
            completions.of_prompt(),
            Answer::Json(&["prompts"]),
        ),
        (
            "embeddings",
            Vectors,
            "Makes a vector of each text",
            body("embeddings", &["model", "input"]),
            Answer::Json(&["object", "data", "model", "usage"]),
        ),
        (
            "rerank",
            Vectors,
            "Says how well documents answer a query",
            body("rerank", &["model", "query", "documents"]),
            Answer::Json(&["id", "model", "results", "usage"]),
        ),
    ]
}

/// Paths where `model` can be left out if there is one graph. Servers of one model have them without a prefix, too.
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
        for (path, group, summary, body, answer) in of_graphs() {
            let path = format!("{prefix}/{path}");
            let operation = Operation::post(path, generate::endpoint, body);
            operations.push(
                operation
                    .about(group, summary)
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
            let operation = Operation::post(path, generate::about_a_prompt, body);
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

fn tokenizer_info(path: &str) -> Operation {
    Operation::get(path, tokenizer::info)
        .about(
            Group::Prompts,
            "The special tokens and the chat template of a model",
        )
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
                post(generate::any_path).fallback(unknown_route),
            )
        })
}
