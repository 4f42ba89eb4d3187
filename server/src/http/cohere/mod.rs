//! Cohere's dialect: the paths of its second version. What a body may say and how an answer looks is decided by the graph's nodes.

use super::{
    openai::generate,
    operation::{Answer, Body, Group, Operation},
};

pub(super) fn operations() -> Vec<Operation> {
    let embed = Body::new("embed", &["model", "texts"]);
    let rerank = Body::new("rerank", &["model", "query", "documents"]);
    let mut operations = vec![
        Operation::post("/v2/embed", generate::endpoint, embed)
            .about(
                Group::Vectors,
                "Makes a vector of each text, as Cohere's does",
            )
            .answers(Answer::Json(&["id", "embeddings", "texts", "meta"])),
    ];
    operations.extend(["/rerank", "/v2/rerank"].map(|path| {
        Operation::post(path, generate::endpoint, rerank)
            .about(Group::Vectors, "Says how well documents answer a query")
            .answers(Answer::Json(&["id", "model", "results", "usage"]))
            .listed(false)
    }));
    operations
}
