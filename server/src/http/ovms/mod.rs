//! What tools for OpenVINO Model Server ask: the state of what `config.json` lists.

mod config;

use super::operation::{Group, Operation, Side};

pub(super) fn operations() -> Vec<Operation> {
    let config = Operation::get("/v1/config", config::config).about(
        Group::Models,
        "The state of each graph in the configuration",
    );
    vec![config.on(Side::Management)]
}
