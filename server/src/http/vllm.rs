//! vLLM's paths besides those of dialects: how busy the server is, what it is, and what vLLM has
//! and this server has not.

use std::future::{Ready, ready};

use axum::Json;
use serde_json::{Value, json};

use super::{
    operation::{Answer, Group, Operation, Side},
    status,
};
use crate::{
    errors::{Cause, Failure},
    run::RequestContext,
};

/// Paths of vLLM for what is not done, and why.
const REFUSED: &[(&str, &str)] = &[(
    "/generative_scoring",
    "use `logprobs` with `allowed_token_ids` of completions",
)];

#[rustfmt::skip]
pub(super) fn operations() -> Vec<Operation> {
    let own = [
        Operation::get("/load", load).about(Group::Server, "The number of requests that are being answered, as vLLM tells it")
            .answers(Answer::Json(&["server_load"])),
        Operation::get("/version", version).about(Group::Server, "The version of this program, where vLLM tells its own")
            .answers(Answer::Json(&["version"])),
        Operation::get("/server_info", status::status).about(Group::Server, "The same as `/v3/status`, where vLLM describes itself")
            .answers(Answer::Json(&["version", "engines", "graphs"])).on(Side::Management),
    ];
    let refused = REFUSED.iter().map(|(path, why)| {
        let refused = Operation::post(path, refused(why)).about(Group::Models, "Refused: this is not done");
        refused.refuses(&[Cause::Unsupported])
    });
    own.into_iter().chain(refused).map(|operation| operation.listed(false)).collect()
}

/// A handler that refuses.
fn refused(why: &'static str) -> impl Fn() -> Ready<Failure> + Clone {
    move || ready(Failure::new(Cause::Unsupported, why))
}

async fn load(who: RequestContext) -> Json<Value> {
    Json(json!({ "server_load": who.runner.running.count() }))
}

async fn version() -> Json<Value> {
    Json(json!({ "version": env!("CARGO_PKG_VERSION") }))
}
