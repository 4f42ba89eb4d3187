//! Cohere's dialect: the paths of its second version. What a body may say and how an answer looks is decided by the graph's nodes.

use super::{
    graph,
    operation::{Answer, Body, Group, Operation},
};

pub(super) fn operations() -> Vec<Operation> {
    let embed = Body::new("embed", &["model", "texts"]);
    let rerank = Body::new("rerank", &["model", "query", "documents"]);
    let mut operations = vec![
        Operation::post("/v2/embed", graph::endpoint, embed)
            .about(
                Group::Vectors,
                "Makes a vector of each text, as Cohere's does",
            )
            .answers(Answer::Json(&["id", "embeddings", "texts", "meta"])),
    ];
    operations.extend(["/rerank", "/v2/rerank"].map(|path| {
        Operation::post(path, graph::endpoint, rerank)
            .about(Group::Vectors, "Says how well documents answer a query")
            .answers(Answer::Json(&["id", "model", "results", "usage"]))
            .listed(false)
    }));
    operations
}
