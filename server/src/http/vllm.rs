//! vLLM's paths that do not belong to a dialect: the load of the server, its version and status,
//! and a path that is not supported.

use axum::Json;
use serde_json::{Value, json};

use super::{
    operation::{Answer, Group, Operation, Side, refused},
    status,
};
use crate::{errors::Cause, run::RequestContext};

#[rustfmt::skip]
pub(super) fn operations() -> Vec<Operation> {
    let operations = [
        Operation::get("/load", load).about(Group::Server, "The number of running requests, at vLLM's path")
            .answers(Answer::Json(&["server_load"])),
        Operation::get("/version", version).about(Group::Server, "The version of this program, at vLLM's path")
            .answers(Answer::Json(&["version"])),
        Operation::get("/server_info", status::status).about(Group::Server, "Same as `/v3/status`, at vLLM's path")
            .answers(Answer::Json(&["version", "engines", "graphs"])).on(Side::Management),
        Operation::post("/generative_scoring", refused("use `logprobs` with `allowed_token_ids` of completions"))
            .about(Group::Models, "Refused: not supported").refuses(&[Cause::Unsupported]),
    ];
    operations.map(|operation| operation.listed(false)).into()
}

async fn load(who: RequestContext) -> Json<Value> {
    Json(json!({ "server_load": who.runner.running.count() }))
}

async fn version() -> Json<Value> {
    Json(json!({ "version": env!("CARGO_PKG_VERSION") }))
}
