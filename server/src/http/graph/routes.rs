//! The routes that lead to graphs, whatever their dialect. What a body may say and how an answer
//! looks is decided by the graph's nodes.

use graphmill_calculators::http::{dialect::Place, dialect_table};

use super::endpoint;
use crate::http::operation::{Answer, Body, Group, Operation};

/// The routes of the dialects that share nodes: all that [`dialect_table::ALL`] knows.
pub(in crate::http) fn of_dialects() -> Vec<Operation> {
    let mut operations = Vec::new();
    for dialect in dialect_table::ALL {
        for route in dialect.routes() {
            let body = Body::new(dialect.endpoint(), route.required);
            let (group, body, answer) = if route.asked.is_generation() {
                (Group::Generation, body, Answer::JsonOrEvents(route.answer))
            } else {
                (Group::Prompts, body.of_prompt(), Answer::Json(route.answer))
            };
            if dialect.place() == Place::BehindTheGraph {
                let path = format!("{}/{{*name}}/{}", dialect_table::GRAPHS, route.path);
                let operation = Operation::post_behind(path, body);
                operations.push(operation.about(group, route.summary).answers(answer));
                continue;
            }
            for prefix in dialect_table::PREFIXES {
                let path = format!("{prefix}/{}", route.path);
                operations.push(
                    Operation::post(path, endpoint, body)
                        .about(group, route.summary)
                        .answers(answer)
                        .listed(*prefix == dialect.shown_under()),
                );
            }
        }
    }
    operations
}

/// The routes of Cohere's second version.
pub(in crate::http) fn of_cohere() -> Vec<Operation> {
    let embed = Body::new("embed", &["model", "texts"]);
    let rerank = Body::new("rerank", &["model", "query", "documents"]);
    let mut operations = vec![
        Operation::post("/v2/embed", endpoint, embed)
            .about(
                Group::Vectors,
                "Makes a vector of each text, as Cohere's does",
            )
            .answers(Answer::Json(&["id", "embeddings", "texts", "meta"])),
    ];
    operations.extend(["/rerank", "/v2/rerank"].map(|path| {
        Operation::post(path, endpoint, rerank)
            .about(Group::Vectors, "Says how well documents answer a query")
            .answers(Answer::Json(&["id", "model", "results", "usage"]))
            .listed(false)
    }));
    operations
}
